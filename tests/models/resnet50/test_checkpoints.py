"""ResNet50 v1.5: its arithmetic, and the layouts of checkpoints that it loads."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention

from fixtures.models import resnet50
from tests.models import published
from tests.models.published import State, saved


def reference(state: Mapping[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """ResNet50 v1.5 written apart from the product, as a function of a state dictionary."""

    def normed(x: torch.Tensor, name: str) -> torch.Tensor:
        mean, var = state[f"{name}.running_mean"], state[f"{name}.running_var"]
        return F.batch_norm(x, mean, var, state[f"{name}.weight"], state[f"{name}.bias"], eps=1e-5)

    x = F.relu(normed(F.conv2d(x, state["conv1.weight"], stride=2, padding=3), "bn1"))
    x = F.max_pool2d(x, 3, stride=2, padding=1)
    for stage, blocks in enumerate((3, 4, 6, 3), start=1):
        for block in range(blocks):
            at = f"layer{stage}.{block}"
            stride = 2 if block == 0 and stage > 1 else 1
            y = F.relu(normed(F.conv2d(x, state[f"{at}.conv1.weight"]), f"{at}.bn1"))
            y = F.conv2d(y, state[f"{at}.conv2.weight"], stride=stride, padding=1)
            y = F.relu(normed(y, f"{at}.bn2"))
            y = normed(F.conv2d(y, state[f"{at}.conv3.weight"]), f"{at}.bn3")
            if block == 0:
                x = normed(
                    F.conv2d(x, state[f"{at}.downsample.0.weight"], stride=stride), f"{at}.downsample.1"
                )
            x = F.relu(x + y)
    return F.linear(x.mean(dim=(2, 3)), state["fc.weight"], state["fc.bias"])


@pytest.fixture(scope="module")
def state() -> State:
    """NVIDIA's and torchvision's layout in its published shape, with random values."""
    return published.drawn(published.layout("resnet50"), gain=2**0.5)


def later_keys(state: State) -> State:
    """The key style of NVIDIA's code since 4f2c6922 of November 2021: stages called layers.0 to layers.3."""
    return {
        key if not key.startswith("layer") else f"layers.{int(key[5]) - 1}{key[6:]}": value
        for key, value in state.items()
    }


def test_the_network_gives_the_reference_networks_outputs(state: State, tmp_path: Path) -> None:
    # 64 x 64 pixels leave 2 x 2 before the mean, which is enough to tell the arithmetic.
    x = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    network = resnet50.load_full(saved(state, tmp_path / "x.pt")).network
    with torch.inference_mode():
        torch.testing.assert_close(network(x), reference(state, x), rtol=1e-4, atol=1e-4)


LAYOUTS = {
    "later": later_keys,
    "parallel": lambda state: {f"module.{key}": value for key, value in state.items()},
    "later, of training": lambda state: published.of_training(later_keys(state)),
    "early": lambda state: {k: v for k, v in state.items() if not k.endswith("num_batches_tracked")},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_weights_are_the_same_in_every_published_layout(layout: str, state: State, tmp_path: Path) -> None:
    network = resnet50.load_full(saved(LAYOUTS[layout](state), tmp_path / "x.pth.tar")).network
    for key, value in network.state_dict().items():
        assert key.endswith("num_batches_tracked") or torch.equal(value, state[key]), key
