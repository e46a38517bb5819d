"""nnU-Net: its arithmetic, and the checkpoints it loads or refuses."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention

from fixtures.models import nnunet
from tests.models import published
from tests.models.published import State, saved
from tests.models.refusals import refused_by


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


def test_a_lightning_file_of_nvidias_layout_gives_the_reference_networks_outputs(tmp_path: Path) -> None:
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


def refused(path: Path) -> str:
    return refused_by(nnunet.load_micro, path)


@pytest.mark.parametrize(
    "key",
    [
        *("model.loss.weight", "model.deep_supervision_heads.4.conv.bias"),
        *("model.dice.dice", "dice.steps", "dice.dice.weight", "dice_dice", "loss.dice"),
    ],
)
def test_an_unexpected_key_is_named(key: str, state: State, tmp_path: Path) -> None:
    added = state | {key: torch.zeros(1)}
    assert f"unexpected {key.removeprefix('model.')}" in refused(saved(added, tmp_path / "x.ckpt"))


def test_a_full_checkpoint_is_not_taken_for_a_micro_one(tmp_path: Path) -> None:
    full = published.numbered(published.layout("nnunet"))
    assert "another model" in refused(saved(full, tmp_path / "x.ckpt"))
