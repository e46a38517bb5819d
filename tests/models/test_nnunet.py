"""nnU-Net: its arithmetic, checkpoints and mean Dice."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from sklearn.metrics import f1_score

from fixtures.errors import AccuracyError, InputError
from fixtures.models import nnunet
from tests.models import published
from tests.models.published import State, saved


def logits_of(state: Mapping[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """NVIDIA's network of 2021-03 written apart from the product, as a function of a state dictionary."""

    def layer(x: torch.Tensor, name: str, stride: int = 1) -> torch.Tensor:
        x = F.conv3d(x, state[f"{name}.conv.weight"], stride=stride, padding=1)
        deviation, mean = torch.std_mean(x, (2, 3, 4), correction=0, keepdim=True)
        x = (x - mean) / torch.sqrt(deviation**2 + 1e-5)
        weight, bias = state[f"{name}.norm.weight"], state[f"{name}.norm.bias"]
        x = x * weight[None, :, None, None, None] + bias[None, :, None, None, None]
        return torch.where(x > 0, x, 0.01 * x)

    def block(x: torch.Tensor, name: str, stride: int = 1) -> torch.Tensor:
        return layer(layer(x, f"{name}.conv1", stride), f"{name}.conv2")

    def doubled(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        n, _, d, h, w = x.shape
        x = torch.einsum("nidhw,ioxyz->nodxhywz", x, weight).reshape(n, -1, 2 * d, 2 * h, 2 * w)
        return x + bias[None, :, None, None, None]

    ups = sum(key.endswith("transp_conv.weight") for key in state)
    x = block(x, "model.input_block")
    skips = [x]
    for i in range(ups - 1):
        x = block(x, f"model.downsamples.{i}", 2)
        skips.append(x)
    x = block(x, "model.bottleneck", 2)
    for i in range(ups):
        at = f"model.upsamples.{i}"
        x = doubled(x, state[f"{at}.transp_conv.weight"], state[f"{at}.transp_conv.bias"])
        x = block(torch.cat((x, skips[-1 - i]), dim=1), f"{at}.conv_block")
    return F.conv3d(x, state["model.output_block.conv.weight"], state["model.output_block.conv.bias"])


def test_lightning_checkpoint_matches_reference_outputs(tmp_path: Path) -> None:
    state = published.drawn(published.layout("nnunet"))
    weights = nnunet.load_full(published.lightning(state, tmp_path / "fold2.ckpt"))
    # Small enough for a test; leaves the bottleneck 2 x 1 x 1, the least that can be normalised.
    x = torch.randn(1, 4, 64, 32, 32, generator=torch.Generator().manual_seed(1))
    expected = logits_of(state, x)
    with torch.inference_mode():
        logits, classes = weights.network.logits(x), weights.network(x)
    torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-3 * expected.std().item())
    assert classes.dtype == torch.int64
    assert (classes == expected.argmax(dim=1)).float().mean() > 0.999
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
