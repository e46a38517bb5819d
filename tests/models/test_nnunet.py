"""nnU-Net: its arithmetic, checkpoints and mean Dice."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from fixtures.errors import AccuracyError, InputError
from fixtures.models import nnunet
from tests.models import published
from tests.models.published import State, saved


def test_lightning_checkpoint_matches_recorded_outputs(tmp_path: Path) -> None:
    state = published.drawn(published.layout("nnunet"))
    weights = nnunet.load_full(published.lightning(state, tmp_path / "fold2.ckpt"))
    # Small enough for a test; leaves the bottleneck 2 x 1 x 1, the least that can be normalised.
    x = torch.randn(1, 4, 64, 32, 32, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        logits, classes = weights.network.logits(x), weights.network(x)
    published.assert_recorded(logits[0, :, 5::21, 3::11, 3::11], "nnunet")
    assert classes.dtype == torch.int64
    assert torch.equal(classes, logits.argmax(dim=1))
    assert weights.trained
    assert weights.origin == f"fold2.ckpt, sha256 {weights.digest[:12]}"
    assert not weights.network.training


@pytest.fixture(scope="module")
def state() -> State:
    """NVIDIA's layout at micro size: the committed weights."""
    network = nnunet.load_micro(None).network
    return {f"model.{key}": value for key, value in network.state_dict().items()}


@pytest.mark.parametrize(
    "key", ["model.loss.weight", "model.deep_supervision_heads.4.conv.bias", "model.dice.dice", "dice.steps"]
)
def test_unexpected_key_is_named(key: str, state: State, tmp_path: Path) -> None:
    path, named = saved(state | {key: torch.zeros(1)}, tmp_path / "x.ckpt"), key.removeprefix("model.")
    with pytest.raises(InputError, check=lambda error: error.where == str(path) and named in error.what):
        nnunet.load_micro(path)


@pytest.mark.parametrize("absent", [(), (2,), (1, 2, 3)], ids=str)
@pytest.mark.parametrize("where", ["truth", "prediction", "both"])
def test_dice_matches_f1_of_scikit_learn(where: str, absent: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    prediction, truth = random.integers(0, 4, (2, 9, 8, 7)).astype(np.uint8)
    for volume in {"truth": [truth], "prediction": [prediction], "both": [truth, prediction]}[where]:
        volume[np.isin(volume, absent)] = 0
    expected = f1_score(truth.ravel(), prediction.ravel(), labels=[1, 2, 3], average="macro", zero_division=1)
    assert nnunet.mean_dice(prediction, truth) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("wrong", [-1, 4, 256, 257])
def test_voxel_outside_of_all_classes_is_an_error(wrong: int) -> None:
    classes = np.ones((2, 4, 4, 4), np.int64)
    kept = nnunet.MODELS[0].keep({nnunet.OUTPUT: classes})["classes"]
    assert (kept == classes).all()

    classes[1, 2, 3, 0] = wrong
    with pytest.raises(AccuracyError, check=lambda error: nnunet.OUTPUT in error.where):
        nnunet.MODELS[0].keep({nnunet.OUTPUT: classes})
