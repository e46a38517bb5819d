"""ResNet50 v1.5 in TensorFlow: its arithmetic, checkpoints and images."""

import shutil
from collections.abc import Callable, Mapping
from operator import methodcaller
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.models import nvidia_checkpoints
from tritonproof.base.errors import InputError
from tritonproof.frameworks import tensorflow
from tritonproof.models import resnet50_tf

FULL, MICRO = resnet50_tf.MODELS
State = dict[str, np.ndarray]


def variables_of(width: int, classes: int, stem: int) -> State:
    """Every variable of NVIDIA's network in its shape, with random values: 267, and 161 of them trained. From
    the scopes and layers of DeepLearningExamples 169b0818, TensorFlow/Classification/ConvNets:
    model/resnet.py and model/blocks/; tf.layers names a convolution conv2d, tf.contrib.layers a normalisation
    BatchNorm."""
    generator = np.random.default_rng(0)
    variables: State = {}

    def convolution(scope: str, kernel: int, inner: int, outer: int) -> None:
        deviation = (2 / (inner * kernel**2)) ** 0.5
        variables[f"{scope}/conv2d/kernel"] = generator.normal(0, deviation, (kernel, kernel, inner, outer))
        variables[f"{scope}/BatchNorm/gamma"] = generator.uniform(0.25, 0.75, outer)
        variables[f"{scope}/BatchNorm/beta"] = generator.normal(0, 0.1, outer)
        variables[f"{scope}/BatchNorm/moving_mean"] = generator.normal(0, 0.1, outer)
        variables[f"{scope}/BatchNorm/moving_variance"] = generator.uniform(0.5, 1.5, outer)

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
    variables["resnet50/output/dense/kernel"] = generator.normal(0, 0.05, (inner, classes))
    variables["resnet50/output/dense/bias"] = generator.normal(0, 0.1, classes)
    return {name: values.astype(np.float32) for name, values in variables.items()}


def of_training(state: Mapping[str, np.ndarray]) -> State:
    """What training adds: Momentum's slot of each trained variable, the step, and a flag with several GPUs.
    From model/resnet.py and runtime/runner.py of the same commit; TensorFlow's automatic mixed precision adds
    the loss scale and the steps since its change."""
    slots = {f"{name}/Momentum": values for name, values in state.items() if "/moving_" not in name}
    return slots | {
        "global_step": np.asarray(np.int64(112590)),
        "current_loss_scale": np.asarray(np.float32(2**15)),
        "good_steps": np.asarray(np.int64(7)),
        "signal_handler_var": np.array([0], np.int32),
    }


def save(state: Mapping[str, np.ndarray], prefix: Path) -> Path:
    """A checkpoint as TensorFlow 1 writes it: by a Saver, from a graph with a session."""
    tf = tensorflow.import_tensorflow().compat.v1
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with tf.Graph().as_default(), tf.Session() as session:
        feeds = {name: tf.placeholder(values.dtype, values.shape) for name, values in state.items()}
        saved = {name: tf.Variable(feed, name=name, use_resource=False) for name, feed in feeds.items()}
        session.run(tf.global_variables_initializer(), {feeds[name]: state[name] for name in state})
        tf.train.Saver(list(saved.values())).save(session, str(prefix))
    return prefix


def test_published_checkpoint_matches_recorded_outputs(tmp_path: Path) -> None:
    """As NVIDIA publishes it, with optimizer slots and counters."""
    state = variables_of(64, 1001, 7)
    few = dict(list(state.items())[:3])  # all slots take a hundred megabytes
    path = save(state | of_training(few), tmp_path / "model.ckpt-112590")
    assert (len(state), len(of_training(state))) == (267, 161 + 4)
    images = np.random.default_rng(1).uniform(0, 255, (1, 224, 224, 3)).astype(np.float32)
    weights = FULL.load_weights(path)
    outputs = FULL.infer(weights.network, {"input": images})
    nvidia_checkpoints.assert_recorded(np.log(outputs["probabilities"][:, ::50]), "resnet50_tf")
    assert outputs["classes"].tolist() == [[326]]
    assert weights.trained
    assert weights.weights_source == f"model.ckpt-112590, sha256 {weights.digest[:12]}"


@pytest.fixture(scope="module")
def small() -> State:
    return variables_of(8, 11, 3)


@pytest.fixture(scope="module")
def prefix(small: State, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(small | of_training(small), tmp_path_factory.mktemp("small") / "model.ckpt-5")


def test_prefix_and_index_name_same_checkpoint(small: State, prefix: Path) -> None:
    read = [tensorflow.read_checkpoint(path) for path in (prefix, Path(f"{prefix}.index"))]
    assert len({digest for _, _, digest in read}) == 1
    bias = "resnet50/output/dense/bias"
    for state, name, _ in read:
        assert name == "model.ckpt-5"
        assert state.keys() == small.keys()
        np.testing.assert_array_equal(state[bias], small[bias])


def flipped(folder: Path) -> Path:
    """Flips one bit in the middle of the weights: TensorFlow stores a checksum of each."""
    data = next(folder.glob("*.data-*"))
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    return folder / "model.ckpt-5"


def with_another_index(folder: Path) -> Path:
    (folder / "model.ckpt-5.index").write_bytes(b"no checkpoint at all")
    return folder / "model.ckpt-5"


ABSENT = ("", "model.ckpt-6", "weights.safetensors")


@pytest.mark.parametrize(
    "spoil", [flipped, with_another_index, *(methodcaller("joinpath", name) for name in ABSENT)]
)
def test_incomplete_checkpoint_is_refused(
    spoil: Callable[[Path], Path], prefix: Path, tmp_path: Path
) -> None:
    for file in prefix.parent.iterdir():
        shutil.copy(file, tmp_path)
    path = spoil(tmp_path)
    with pytest.raises(InputError, check=lambda error: error.where == str(path)):
        MICRO.load_weights(path)


@pytest.mark.parametrize("key", ["resnet50/output/dense/bias", "resnet50/signal_handler_var"])
def test_variable_that_does_not_fit_is_named(key: str, small: State, tmp_path: Path) -> None:
    """The second is one of training's additions, which match by whole name only."""
    path = save(small | {key: np.zeros(5, np.float32)}, tmp_path / "model.ckpt")
    with pytest.raises(InputError, check=lambda error: error.where == str(path) and key in error.what):
        MICRO.load_weights(path)


def test_random_weights_are_seeded_with_sane_outputs() -> None:
    weights = FULL.load_weights(None)
    assert not weights.trained
    assert weights.weights_source == f"random, seed {resnet50_tf.SEED}"
    samples = FULL.samples("evaluation", None, None)
    outputs = FULL.infer(weights.network, samples.read(range(2)))
    assert outputs["probabilities"].max() < 0.5, "logits so large that only one class has a probability"
    assert outputs["probabilities"].std(axis=0).max() > 1e-4, "the image does not matter"
    # The generator makes the kernels; BatchNorm is arithmetic on them.
    stem = resnet50_tf.variables(weights.network)["resnet50/conv2d/conv2d/kernel"].numpy()
    generator = np.random.default_rng(resnet50_tf.SEED)
    np.testing.assert_allclose(stem, generator.normal(0, (2 / 147) ** 0.5, (7, 7, 3, 64)), rtol=1e-5)


def test_images_keep_pixels_and_synset_labels(tmp_path: Path) -> None:
    for number in range(1000):
        (tmp_path / f"n{number:08d}").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (2, 256, 256, 3), np.uint8)
    for image, synset in zip(pixels, (3, 998), strict=True):
        Image.fromarray(image).save(tmp_path / f"n{synset:08d}" / "image.png")
    samples = FULL.samples("evaluation", tmp_path, None)
    images = samples.read([0, 1])["input"]
    assert images.dtype == np.float32
    # The shorter side is 256 already, so only the crop applies: every value must come back exactly.
    np.testing.assert_array_equal(images, pixels[:, 16:240, 16:240].astype(np.float32))
    assert list(samples.labels) == [3, 998]
