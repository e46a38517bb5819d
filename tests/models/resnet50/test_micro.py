"""ResNet50's random weights, and its micro size: the digits it sees, and what its floor notices."""

import numpy as np
import pytest
import torch

from fixtures.models import all_models, resnet50
from fixtures.spec import Arrays, Model, Samples


def test_random_weights_are_the_same_every_time_and_leave_the_global_generator_alone() -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, second = (resnet50.load_full(None) for _ in range(2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert not first.trained
    for a, b in zip(first.network.state_dict().values(), second.network.state_dict().values(), strict=True):
        # Drawn, but for BatchNorm's statistics: those are computed, and rounded as the kernels of the day do.
        torch.testing.assert_close(a, b)


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
    assert counts.min() >= 45
    assert counts.max() <= 55


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
