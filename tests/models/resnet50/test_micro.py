"""ResNet50's random weights, and its micro size: the digits it sees, and what its floor notices."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch

from fixtures.models import all_models, resnet50
from fixtures.models.resnet50 import samples as resnet50_samples
from fixtures.spec import Arrays, Model, Samples


@pytest.fixture(scope="module")
def micro() -> Model:
    return next(model for model in all_models() if model.name == "resnet50-micro")


def test_held_out_digits_are_stratified_and_never_trained_on(micro: Model) -> None:
    training, evaluation = (micro.samples(split, None, None) for split in ("training", "evaluation"))
    assert len(evaluation) == 500
    assert len(training) + len(evaluation) == 1797
    assert not set(training.ids) & set(evaluation.ids)
    assert evaluation.labels is not None
    counts = np.bincount(evaluation.labels, minlength=10)
    assert counts.min() >= 40
    assert counts.max() <= 60


def top_1(model: Model, outputs: Arrays, samples: Samples) -> float:
    """The first metric of outputs."""
    kept = model.keep(outputs)
    return float(model.metrics[0].score(kept, samples.labels, kept).mean())


def floor(model: Model) -> float:
    """The first metric's absolute limit in FP32."""
    return model.metrics[0].limits["fp32"].value


@pytest.fixture(scope="module")
def samples(micro: Model) -> Samples:
    return micro.samples("evaluation", None, None)


def test_the_committed_weights_reach_their_floor(micro: Model, samples: Samples) -> None:
    outputs = micro.run(micro.load(None).network, samples.load(range(len(samples))))
    assert top_1(micro, outputs, samples) >= floor(micro)


def test_weights_perturbed_by_a_tenth_fall_below_the_floor(micro: Model, samples: Samples) -> None:
    """The floor is close enough to the score that a damaged model does not pass."""
    network = micro.load(None).network
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.3 * parameter.std(correction=0) * torch.randn_like(parameter)
    outputs = micro.run(network, samples.load(range(len(samples))))
    assert top_1(micro, outputs, samples) < floor(micro)


def scored(model: Model, samples: Samples, change: Callable[[np.ndarray], np.ndarray]) -> float:
    """The score of the committed weights on 100 images that were changed on the way."""
    few = dataclasses.replace(samples, ids=samples.ids[:100], labels=samples.labels[:100])
    images = few.load(range(len(few)))[resnet50.INPUT]
    return top_1(model, model.run(model.load(None).network, {resnet50.INPUT: change(images)}), few)


@pytest.mark.parametrize(
    "order",
    [(2, 1, 0), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1)],
    ids=lambda order: "".join("RGB"[i] for i in order),
)
def test_every_exchange_of_channels_falls_far_below_the_floor(
    order: tuple[int, ...], micro: Model, samples: Samples
) -> None:
    """BGR for RGB is the commonest fault of preparation; it must show in the score, not by a hair."""
    assert scored(micro, samples, lambda images: np.ascontiguousarray(images[:, order])) < floor(micro) - 0.3


def test_images_without_colour_fall_far_below_the_floor(micro: Model, samples: Samples) -> None:
    def grey(images: np.ndarray) -> np.ndarray:
        return np.repeat(images.mean(axis=1, keepdims=True), 3, axis=1)

    assert scored(micro, samples, grey) < floor(micro) - 0.3


def test_the_class_is_told_by_shape_and_ink_together() -> None:
    """Red is the digit itself, green three more, blue six, modulo ten."""
    assert resnet50_samples.class_of(np.array([0, 4, 9]), np.array([0, 1, 2])).tolist() == [0, 7, 5]
    images = resnet50_samples.inked(np.ones((3, 32, 32), np.float32), np.arange(3))
    assert images[:, :, 0, 0].argmax(axis=1).tolist() == [0, 1, 2]
