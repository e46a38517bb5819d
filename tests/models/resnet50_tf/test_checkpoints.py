"""ResNet50 v1.5 in TensorFlow: its arithmetic, and the checkpoints it loads or refuses."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention

from fixtures.errors import InputError
from fixtures.models import resnet50_tf
from fixtures.models.resnet50_tf import tf1_checkpoint
from tests.models.published_tf import State, of_training, save, variables_of
from tests.models.refusals import refused_by

FULL, MICRO = resnet50_tf.MODELS


def reference(state: Mapping[str, np.ndarray], images: np.ndarray) -> torch.Tensor:
    """Logits of ResNet50 v1.5 written apart from the product, in PyTorch, from a TensorFlow checkpoint."""

    def tensor(name: str) -> torch.Tensor:
        return torch.from_numpy(state[name])

    def padded(x: torch.Tensor, kernel: int, stride: int, value: float = 0.0) -> torch.Tensor:
        """What TensorFlow calls SAME, from its documentation."""
        side = x.shape[-1]
        total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
        return F.pad(x, (total // 2, total - total // 2) * 2, value=value)

    def convolution(x: torch.Tensor, scope: str, stride: int = 1) -> torch.Tensor:
        kernel = tensor(f"{scope}/conv2d/kernel").permute(3, 2, 0, 1)
        x = F.conv2d(padded(x, kernel.shape[-1], stride), kernel, stride=stride)
        mean, var, gamma, beta = (
            tensor(f"{scope}/BatchNorm/{name}")
            for name in ("moving_mean", "moving_variance", "gamma", "beta")
        )
        return F.batch_norm(x, mean, var, gamma, beta, eps=1e-5)

    mean, deviation = torch.tensor([123.68, 116.28, 103.53]), torch.tensor([58.395, 57.120, 57.385])
    x = ((torch.from_numpy(images) - mean) / deviation).permute(0, 3, 1, 2)
    x = F.relu(convolution(x, "resnet50/conv2d", 2))
    x = F.max_pool2d(padded(x, 3, 2, -torch.inf), 3, stride=2)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            scope = f"resnet50/btlnck_block_{stage}_{block}"
            stride = 2 if block == 0 and stage > 0 else 1
            y = F.relu(convolution(x, f"{scope}/bottleneck_1"))
            y = F.relu(convolution(y, f"{scope}/bottleneck_2", stride))
            y = convolution(y, f"{scope}/bottleneck_3")
            if block == 0:
                x = convolution(x, f"{scope}/shortcut/conv2d", stride)
            x = F.relu(x + y)
    return x.mean(dim=(2, 3)) @ tensor("resnet50/output/dense/kernel") + tensor("resnet50/output/dense/bias")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[State, Path]:
    """A folder as NVIDIA publishes it: with optimizer slots and counters, trained on another machine."""
    folder = tmp_path_factory.mktemp("rn50_tf_amp_ckpt")
    state = variables_of(64, 1001, 7)
    some = dict(list(state.items())[:3])  # of a hundred megabytes of slots
    save(state | of_training(some), folder / "model.ckpt-112590")
    (folder / "checkpoint").write_text(
        'model_checkpoint_path: "/raid/results/model.ckpt-112590"\n'
        'all_model_checkpoint_paths: "/raid/results/model.ckpt-0"\n'
    )
    return state, folder


def test_a_published_folder_gives_the_reference_networks_outputs(published: tuple[State, Path]) -> None:
    state, folder = published
    assert (len(state), len(of_training(state))) == (267, 161 + 4)
    images = np.random.default_rng(1).uniform(0, 255, (1, 224, 224, 3)).astype(np.float32)
    logits = reference(state, images)
    weights = FULL.load(folder)
    outputs = FULL.run(weights.network, {"input": images})
    np.testing.assert_allclose(outputs["probabilities"], logits.softmax(1), rtol=1e-3, atol=1e-7)
    np.testing.assert_array_equal(outputs["classes"], logits.argmax(1, keepdim=True))
    assert weights.trained
    assert weights.origin == f"model.ckpt-112590, sha256 {weights.digest[:12]}"


# --- checkpoints, at micro size ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small() -> State:
    return variables_of(8, 11, 3)


@pytest.fixture(scope="module")
def prefix(small: State, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(small | of_training(small), tmp_path_factory.mktemp("small") / "model.ckpt-5")


@pytest.fixture
def folder(prefix: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    for file in prefix.parent.iterdir():
        shutil.copy(file, tmp_path)
    return tmp_path


def test_folder_prefix_and_index_file_name_the_same_checkpoint(small: State, prefix: Path) -> None:
    read = [tf1_checkpoint.read_checkpoint(path) for path in (prefix.parent, prefix, Path(f"{prefix}.index"))]
    assert len({digest for _, _, digest in read}) == 1
    for state, name, _ in read:
        assert name == "model.ckpt-5"
        assert state.keys() == small.keys()
        np.testing.assert_array_equal(
            state["resnet50/output/dense/bias"], small["resnet50/output/dense/bias"]
        )


def test_other_weights_have_another_digest(small: State, prefix: Path, tmp_path: Path) -> None:
    bias = small["resnet50/output/dense/bias"]
    other = save(small | {"resnet50/output/dense/bias": bias + 1}, tmp_path / "model.ckpt-5")
    assert tf1_checkpoint.read_checkpoint(other)[2] != tf1_checkpoint.read_checkpoint(prefix)[2]


def refused(path: Path) -> str:
    return refused_by(MICRO.load, path)


def test_a_variable_that_does_not_fit_is_named(small: State, tmp_path: Path) -> None:
    key = "resnet50/output/dense/bias"
    other = save(small | {key: np.zeros(5, np.float32)}, tmp_path / "model.ckpt")
    assert f"{key} is (5,), expected (11,)" in refused(other)


def test_what_training_adds_is_known_by_its_whole_name(small: State, tmp_path: Path) -> None:
    state = small | {"resnet50/signal_handler_var": np.zeros(1, np.int32)}
    assert "has unexpected resnet50/signal_handler_var" in refused(save(state, tmp_path / "model.ckpt"))


def test_a_truncated_a_damaged_and_a_missing_data_file_are_refused(folder: Path) -> None:
    data = next(folder.glob("*.data-*"))
    content = data.read_bytes()
    data.write_bytes(content[: len(content) // 2])
    assert "truncated" in refused(folder / "model.ckpt-5")
    # One bit in the middle of the weights: TensorFlow stores a checksum of each.
    middle = len(content) // 2
    data.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    assert "damaged" in refused(folder / "model.ckpt-5")
    data.unlink()
    assert "truncated" in refused(folder / "model.ckpt-5")


@pytest.mark.parametrize("content", [b"", b"no checkpoint at all"])
def test_an_index_that_is_none_is_refused(content: bytes, folder: Path) -> None:
    (folder / "model.ckpt-5.index").write_bytes(content)
    assert "no checkpoint" in refused(folder / "model.ckpt-5")


def test_a_missing_checkpoint_and_a_folder_without_one_are_refused(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "model.ckpt-5")
    assert "there is no such file" in refused(tmp_path / "weights.safetensors")
    assert "holds 0 TensorFlow checkpoints" in refused(tmp_path)
    (tmp_path / "folder.safetensors").mkdir()
    assert "holds 0 TensorFlow checkpoints" in refused(tmp_path / "folder.safetensors")


def test_of_two_checkpoints_the_listed_one_is_taken_and_without_a_list_none(folder: Path) -> None:
    for file in list(folder.glob("model.ckpt-5.*")):
        shutil.copy(file, folder / file.name.replace("-5", "-9"))
    assert tf1_checkpoint.read_checkpoint(folder)[1] == "model.ckpt-5"
    (folder / "checkpoint").unlink()
    assert "holds 2 TensorFlow checkpoints" in refused(folder)


def test_a_place_that_the_system_does_not_look_at_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / ("model" * 60)

    with pytest.raises(InputError, match="cannot be read: File name too long"):
        tf1_checkpoint.read_checkpoint(folder)
