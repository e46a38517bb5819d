"""ResNet50 v1.5 in TensorFlow: its arithmetic, the checkpoints it loads, the images it sees, and its micro size."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from PIL import Image

from fixtures.errors import InputError
from fixtures.frameworks.tensorflow import import_tensorflow
from fixtures.models import resnet50, resnet50_tf
from fixtures.models.resnet50_tf import architecture, checkpoint, tf1_checkpoint
from fixtures.spec import Arrays, Model

State = dict[str, np.ndarray]
FULL, MICRO = resnet50_tf.MODELS
NUMPY = {"FP32": np.float32, "INT32": np.int32}


def variables_of(width: int, classes: int, stem: int) -> State:
    """Every variable of NVIDIA's checkpoint in its shape, with random values."""
    generator = np.random.default_rng(0)
    found: State = {}

    def convolution(scope: str, kernel: int, inner: int, outer: int) -> None:
        deviation = (2 / (inner * kernel**2)) ** 0.5
        found[f"{scope}/conv2d/kernel"] = generator.normal(0, deviation, (kernel, kernel, inner, outer))
        found[f"{scope}/BatchNorm/gamma"] = generator.uniform(0.25, 0.75, outer)
        found[f"{scope}/BatchNorm/beta"] = generator.normal(0, 0.1, outer)
        found[f"{scope}/BatchNorm/moving_mean"] = generator.normal(0, 0.1, outer)
        found[f"{scope}/BatchNorm/moving_variance"] = generator.uniform(0.5, 1.5, outer)

    convolution("resnet50/conv2d", stem, 3, width)
    inner = width
    for stage, blocks in enumerate((3, 4, 6, 3)):
        channels = width * 2**stage
        for block in range(blocks):
            scope = f"resnet50/btlnck_block_{stage}_{block}"
            if block == 0:
                convolution(f"{scope}/shortcut/conv2d", 1, inner, 4 * channels)
            convolution(f"{scope}/bottleneck_1", 1, inner, channels)
            convolution(f"{scope}/bottleneck_2", 3, channels, channels)
            convolution(f"{scope}/bottleneck_3", 1, channels, 4 * channels)
            inner = 4 * channels
    found["resnet50/output/dense/kernel"] = generator.normal(0, 0.05, (inner, classes))
    found["resnet50/output/dense/bias"] = generator.normal(0, 0.1, classes)
    return {name: values.astype(np.float32) for name, values in found.items()}


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


def save(state: Mapping[str, np.ndarray], prefix: Path) -> Path:
    """A checkpoint as TensorFlow 1 writes it: by a Saver, from a graph with a session."""
    tf = import_tensorflow().compat.v1
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with tf.Graph().as_default(), tf.Session() as session:
        places = {name: tf.placeholder(values.dtype, values.shape) for name, values in state.items()}
        saved = {name: tf.Variable(place, name=name, use_resource=False) for name, place in places.items()}
        session.run(tf.global_variables_initializer(), {places[name]: state[name] for name in state})
        tf.train.Saver(list(saved.values())).save(session, str(prefix))
    return prefix


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[State, Path]:
    """A folder as NVIDIA publishes it: with optimizer slots and counters, trained on another machine."""
    folder = tmp_path_factory.mktemp("rn50_tf_amp_ckpt")
    state = variables_of(64, 1001, 7)
    slots = {f"{name}/Momentum": state[name] for name in list(state)[:3]}
    counters = {
        "global_step": np.int64(112590),
        "current_loss_scale": np.float32(2**15),
        "good_steps": np.int64(7),
        "signal_handler_var": np.array([0], np.int32),
    }
    save(
        state | slots | {name: np.asarray(value) for name, value in counters.items()},
        folder / "model.ckpt-112590",
    )
    (folder / "checkpoint").write_text(
        'model_checkpoint_path: "/raid/results/model.ckpt-112590"\n'
        'all_model_checkpoint_paths: "/raid/results/model.ckpt-0"\n'
    )
    return state, folder


def test_a_published_folder_gives_the_reference_networks_outputs(published: tuple[State, Path]) -> None:
    state, folder = published
    images = np.random.default_rng(1).uniform(0, 255, (2, 224, 224, 3)).astype(np.float32)
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
    return save(small, tmp_path_factory.mktemp("small") / "model.ckpt-5")


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
    with pytest.raises(InputError) as raised:
        MICRO.load(path)
    assert str(path) in str(raised.value)
    assert "cure:" in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"resnet50/btlnck_block_1_0/bottleneck_2/conv2d/kernel": None},
            "misses resnet50/btlnck_block_1_0/bott",
        ),
        ({"resnet50/head/kernel": np.zeros(1, np.float32)}, "has unexpected resnet50/head/kernel"),
        (
            {"resnet50/signal_handler_var": np.zeros(1, np.int32)},
            "has unexpected resnet50/signal_handler_var",
        ),
        (
            {"resnet50/output/dense/bias": np.zeros(5, np.float32)},
            "resnet50/output/dense/bias is (5,), expected (11,)",
        ),
    ],
    ids=["missing", "unexpected", "a flag's name elsewhere", "another shape"],
)
def test_a_variable_that_does_not_fit_is_named(
    change: dict[str, Any], text: str, small: State, tmp_path: Path
) -> None:
    state = {name: values for name, values in (small | change).items() if values is not None}
    assert text in refused(save(state, tmp_path / "model.ckpt"))


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
    assert "does not exist" in refused(tmp_path / "weights.safetensors")
    assert "holds 0 TensorFlow checkpoints" in refused(tmp_path)
    (tmp_path / "folder.safetensors").mkdir()
    assert "holds 0 TensorFlow checkpoints" in refused(tmp_path / "folder.safetensors")


def test_of_two_checkpoints_the_listed_one_is_taken_and_without_a_list_none(folder: Path) -> None:
    for file in list(folder.glob("model.ckpt-5.*")):
        shutil.copy(file, folder / file.name.replace("-5", "-9"))
    assert tf1_checkpoint.read_checkpoint(folder)[1] == "model.ckpt-5"
    (folder / "checkpoint").unlink()
    assert "holds 2 TensorFlow checkpoints" in refused(folder)


# --- data --------------------------------------------------------------------------------------------------


def test_images_are_the_files_own_pixels_in_rgb_with_the_labels_of_their_synsets(tmp_path: Path) -> None:
    for number in range(1000):
        (tmp_path / f"n{number:08d}").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (2, 256, 256, 3), np.uint8)
    for image, synset in zip(pixels, (3, 998), strict=True):
        Image.fromarray(image).save(tmp_path / f"n{synset:08d}" / "image.png")
    samples = FULL.samples("evaluation", tmp_path, None)
    images = samples.load([0, 1])["input"]
    assert images.dtype == np.float32
    # Shorter side 256 as it is, so only the centre is cut out: every value must come back exactly.
    np.testing.assert_array_equal(images, pixels[:, 16:240, 16:240].astype(np.float32))
    assert list(samples.labels) == [3, 998]


def test_without_a_data_set_there_are_plausible_images_and_no_labels() -> None:
    evaluation, training = (FULL.samples(split, None, None) for split in ("evaluation", "training"))
    images = evaluation.load([0, 1])["input"]
    assert images.shape == (2, 224, 224, 3)
    assert images.min() >= 0
    assert images.max() <= 255
    assert 40 < images.std() < 70
    assert evaluation.labels is None
    assert not np.array_equal(images, training.load([0, 1])["input"])


def test_digits_use_the_full_range_and_are_split_as_the_pytorch_models_are() -> None:
    for split in ("evaluation", "training"):
        samples, others = MICRO.samples(split, None, None), resnet50.digits(split, None)
        assert list(samples.ids) == list(others.ids)
        np.testing.assert_array_equal(samples.labels, others.labels)
    images = samples.load(range(50))["input"]
    assert images.shape == (50, 32, 32, 3)
    assert (images.min(), images.max()) == (0, 255)
    np.testing.assert_allclose(
        images.transpose(0, 3, 1, 2) / 127.5 - 1, others.load(range(50))[resnet50.INPUT], atol=1e-6
    )


def test_the_micro_model_takes_no_data_set(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="takes no data set"):
        MICRO.samples("evaluation", tmp_path, None)


# --- random weights, and the micro size --------------------------------------------------------------------


def test_random_weights_are_seeded_and_give_sane_outputs() -> None:
    weights = FULL.load(None)
    assert not weights.trained
    assert weights.origin == f"random, seed {checkpoint.SEED}"
    samples = FULL.samples("evaluation", None, None)
    outputs = FULL.run(weights.network, samples.load(range(4)))
    assert outputs["probabilities"].max() < 0.5, "logits so large that only one class has a probability"
    assert outputs["probabilities"].std(axis=0).max() > 1e-4, "the image does not matter"
    # The kernels are the generator's; what BatchNorm makes of them is arithmetic.
    stem = architecture.variables(weights.network)["resnet50/conv2d/conv2d/kernel"].numpy()
    generator = np.random.default_rng(checkpoint.SEED)
    np.testing.assert_allclose(stem, generator.normal(0, (2 / 147) ** 0.5, (7, 7, 3, 64)), rtol=1e-5)


@pytest.fixture(scope="module")
def evaluation() -> tuple[Arrays, np.ndarray]:
    samples = MICRO.samples("evaluation", None, None)
    return samples.load(range(len(samples))), samples.labels


def top_1(model: Model, outputs: Arrays, labels: np.ndarray) -> float:
    kept = model.keep(outputs)
    return float(model.metrics[0].score(kept, labels, kept).mean())


def test_the_committed_weights_reach_their_floor(evaluation: tuple[Arrays, np.ndarray]) -> None:
    inputs, labels = evaluation
    weights = MICRO.load(None)
    assert re.match(
        r"trained by recipe, resnet50-tf-micro\.safetensors, sha256 [0-9a-f]{12}$", weights.origin
    )
    assert top_1(MICRO, MICRO.run(weights.network, inputs), labels) >= MICRO.metrics[0].limits["fp32"].value


@pytest.mark.parametrize("batch", [1, 3])
def test_outputs_are_as_declared_at_any_batch(batch: int, evaluation: tuple[Arrays, np.ndarray]) -> None:
    outputs = MICRO.run(MICRO.load(None).network, {"input": evaluation[0]["input"][:batch]})
    assert list(outputs) == [tensor.name for tensor in MICRO.outputs]
    for tensor in MICRO.outputs:
        assert outputs[tensor.name].shape == (batch, *tensor.shape)
        assert outputs[tensor.name].dtype == NUMPY[tensor.dtype]
    np.testing.assert_allclose(outputs["probabilities"].sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(outputs["probabilities"].argmax(1), MICRO.decide(MICRO.keep(outputs)))


def test_noise_on_the_weights_is_seen_by_parity_and_when_stronger_by_the_floor(
    evaluation: tuple[Arrays, np.ndarray],
) -> None:
    inputs, labels = evaluation
    network = MICRO.load(None).network
    expected = MICRO.run(network, inputs)["probabilities"]

    def with_noise(strength: float) -> Arrays:
        generator = np.random.default_rng(0)
        for variable in network.trainable_variables:
            values = variable.numpy()
            variable.assign(values + strength * values.std() * generator.normal(0, 1, values.shape))
        return MICRO.run(network, inputs)

    error = np.abs(with_noise(0.05)["probabilities"] - expected).max() / expected.max()
    assert error > 0.02, "200 times the FP32 tolerance"
    assert top_1(MICRO, with_noise(0.4), labels) < MICRO.metrics[0].limits["fp32"].value
