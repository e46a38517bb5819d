"""The images that ResNet50 in TensorFlow sees, and its micro size: what its floor and the parity notice."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fixtures.models import resnet50, resnet50_tf
from fixtures.models.resnet50_tf import network
from fixtures.spec import Arrays, Model, Weights

FULL, MICRO = resnet50_tf.MODELS
NUMPY = {"FP32": np.float32, "INT32": np.int32}


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


# --- random weights, and the micro size --------------------------------------------------------------------


def test_random_weights_are_seeded_and_give_sane_outputs() -> None:
    weights = FULL.load(None)
    assert not weights.trained
    assert weights.origin == f"random, seed {network.SEED}"
    samples = FULL.samples("evaluation", None, None)
    outputs = FULL.run(weights.network, samples.load(range(2)))
    assert outputs["probabilities"].max() < 0.5, "logits so large that only one class has a probability"
    assert outputs["probabilities"].std(axis=0).max() > 1e-4, "the image does not matter"
    # The kernels are the generator's; what BatchNorm makes of them is arithmetic.
    stem = network.variables(weights.network)["resnet50/conv2d/conv2d/kernel"].numpy()
    generator = np.random.default_rng(network.SEED)
    np.testing.assert_allclose(stem, generator.normal(0, (2 / 147) ** 0.5, (7, 7, 3, 64)), rtol=1e-5)


@pytest.fixture(scope="module")
def evaluation() -> tuple[Arrays, np.ndarray]:
    samples = MICRO.samples("evaluation", None, None)
    return samples.load(range(len(samples))), samples.labels


@pytest.fixture(scope="module")
def weights() -> Weights:
    """The committed weights; a test that changes them puts them back."""
    return MICRO.load(None)


def top_1(model: Model, outputs: Arrays, labels: np.ndarray) -> float:
    kept = model.keep(outputs)
    return float(model.metrics[0].score(kept, labels, kept).mean())


def test_the_committed_weights_reach_their_floor(
    weights: Weights, evaluation: tuple[Arrays, np.ndarray]
) -> None:
    inputs, labels = evaluation
    assert re.match(
        r"trained by recipe, resnet50-tf-micro\.safetensors, sha256 [0-9a-f]{12}$", weights.origin
    )
    assert top_1(MICRO, MICRO.run(weights.network, inputs), labels) >= MICRO.metrics[0].limits["fp32"].value


def test_bgr_for_rgb_falls_far_below_the_floor(
    weights: Weights, evaluation: tuple[Arrays, np.ndarray]
) -> None:
    inputs, labels = evaluation
    swapped = {"input": np.ascontiguousarray(inputs["input"][..., ::-1])}
    score = top_1(MICRO, MICRO.run(weights.network, swapped), labels)
    assert score < MICRO.metrics[0].limits["fp32"].value - 0.3


@pytest.mark.parametrize("batch", [1, 3])
def test_outputs_are_as_declared_at_any_batch(
    batch: int, weights: Weights, evaluation: tuple[Arrays, np.ndarray]
) -> None:
    outputs = MICRO.run(weights.network, {"input": evaluation[0]["input"][:batch]})
    assert list(outputs) == [tensor.name for tensor in MICRO.outputs]
    for tensor in MICRO.outputs:
        assert outputs[tensor.name].shape == (batch, *tensor.shape)
        assert outputs[tensor.name].dtype == NUMPY[tensor.dtype]
    np.testing.assert_allclose(outputs["probabilities"].sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(outputs["probabilities"].argmax(1), MICRO.decide(MICRO.keep(outputs)))


def test_noise_on_the_weights_is_seen_by_parity_and_when_stronger_by_the_floor(
    weights: Weights,
    evaluation: tuple[Arrays, np.ndarray],
) -> None:
    inputs, labels = evaluation
    network = weights.network
    committed = network.get_weights()
    expected = MICRO.run(network, inputs)["probabilities"]

    def with_noise(strength: float) -> Arrays:
        generator = np.random.default_rng(0)
        for variable in network.trainable_variables:
            values = variable.numpy()
            variable.assign(values + strength * values.std() * generator.normal(0, 1, values.shape))
        return MICRO.run(network, inputs)

    little, much = with_noise(0.05), with_noise(0.4)
    network.set_weights(committed)
    error = np.abs(little["probabilities"] - expected).max() / expected.max()
    assert error > 0.02, "200 times the FP32 tolerance"
    assert top_1(MICRO, much, labels) < MICRO.metrics[0].limits["fp32"].value
