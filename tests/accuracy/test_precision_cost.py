"""A conversion's limit is the precision's own cost, measured without the converter."""

import copy
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests import toy
from tests.helpers import present
from tests.toy import compare_conversion
from tritonproof.accuracy.answer_comparison import StageComparison
from tritonproof.accuracy.limits import CaseArithmetic
from tritonproof.accuracy.outputs import why_undeclared
from tritonproof.accuracy.precision_cost import emulated_precision
from tritonproof.accuracy.precisions import PRECISIONS
from tritonproof.formats.onnx import ONNX
from tritonproof.frameworks import rounding
from tritonproof.frameworks.pytorch import in_precision
from tritonproof.host.targets import CPU
from tritonproof.models import all_models
from tritonproof.record.correctness import Conversion, OutputDifference
from tritonproof.reports.correctness_text import conversion_failure
from tritonproof.spec import Arrays, Case, FrameworkModel, NetworkModel, Samples, Tensor, Tolerance

MODELS = {model.name: model for model in all_models()}
BERT, SPEECH, DIGITS = (MODELS[f"{name}-micro"] for name in ("bert-dist4l", "fastpitch", "resnet50"))


@functools.cache
def _load(name: str) -> FrameworkModel:
    return MODELS[name].load_weights(None)


def weights_of(model: NetworkModel) -> FrameworkModel:
    """The committed weights, loaded once."""
    return _load(model.name)


def few(model: NetworkModel, count: int = 16) -> Samples:
    """The first evaluation rows, at a quarter of the cost of the suite's 64."""
    whole = model.samples("evaluation", None, None)
    return dataclasses.replace(whole, ids=whole.ids[:count])


def compared(model: NetworkModel, precision: str, network: Any, count: int = 16) -> Conversion:
    """The comparison of a conversion that computes `network` with the framework."""
    case, run = Case(CPU, model, ONNX, None, precision), functools.partial(model.infer, network)
    return compare_conversion(case, weights_of(model), run, few(model, count), count)


@pytest.mark.parametrize(
    ("model", "precision", "count"),
    [(BERT, "fp16", 4), (SPEECH, "fp16", 16), (SPEECH, "bf16", 16), (DIGITS, "fp16", 16)],
    ids=["bert in fp16", "fastpitch in fp16", "fastpitch in bf16", "resnet50 in fp16"],
)
def test_half_precision_costs_what_emulation_predicts(
    model: NetworkModel, precision: str, count: int
) -> None:
    network = in_precision(weights_of(model).network, precision)
    first = model.infer(network, few(model, 1).read([0]))
    assert not [tensor for tensor in model.outputs if why_undeclared(tensor, first[tensor.name])]
    conversion = compared(model, precision, network, count)
    assert conversion.passed, conversion_failure(conversion)
    assert conversion.error_in_costs == pytest.approx(1, abs=0.5)


def test_fp32_is_limited_by_its_rounding_cost() -> None:
    """A LayerNorm with another epsilon stays far within the format's tolerance."""
    network = copy.deepcopy(weights_of(SPEECH).network)
    right = compared(SPEECH, "fp32", network)
    for module in network.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-4

    wrong = compared(SPEECH, "fp32", network)
    assert right.passed, conversion_failure(right)
    limit = PRECISIONS["fp32"].conversion_factor
    assert present(right.error_in_costs) < limit < present(wrong.error_in_costs)
    assert not wrong.passed


class Two(torch.nn.Module):
    """Two layers with an activation in place, as in segmentation networks."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)
        self.relu = torch.nn.LeakyReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.relu(self.first(x)))


def test_emulated_error_grows_as_bits_shrink() -> None:
    """Values change in place as in the network; an activation on a copy would have no effect."""
    network, x = Two().eval(), torch.linspace(-1, 1, 64).reshape(8, 8)

    def error(precision: str, bits: int = 8) -> float:
        copied, freeze_ranges = rounding.rounded_pytorch(network, precision, bits)
        with torch.inference_mode():
            copied(x)
            freeze_ranges()
            return float((copied(x) - network(x)).abs().mean())

    assert 0 < error("fp16") < error("bf16") < error("int8") < error("int8", bits=4)
    assert error("fp16") < 1e-3
    copied, _ = rounding.rounded_pytorch(torch.nn.ReLU(), "fp16")
    assert copied(torch.tensor([1e9])).tolist() == [65504.0], "the largest of FP16"


@pytest.mark.parametrize(
    ("by_precision", "by_conversion", "passed"),
    [
        pytest.param(70, 70, True, id="as many"),
        pytest.param(70, 86, True, id="a right build of nnU-Net in BF16"),
        pytest.param(70, 150, False, id="twice as many"),
        pytest.param(10, 13, True, id="a few, and chance"),
        pytest.param(10, 30, False, id="three times a few"),
        pytest.param(0, 2, True, id="none, and a near tie"),
    ],
)
def test_decision_changes_keep_to_precision_cost(by_precision: int, by_conversion: int, passed: bool) -> None:
    """A segmentation network answers only masks, so no error of an output says more; also with random weights."""
    samples = toy.samples(24)
    right = np.zeros((24, 1000), np.int64)

    def changed(count: int) -> Callable[[Arrays], Arrays]:
        masks = right.copy()
        masks.flat[np.linspace(0, masks.size - 1, count).astype(int)] = 1
        return lambda _inputs: {"masks": masks}

    model = toy.model(
        outputs=(Tensor("masks", "INT64", (1000,)),),
        infer=lambda _network, _inputs: {"masks": right},
        keep=lambda outputs: outputs,
        decide=lambda kept: kept["masks"],
    )
    converted, emulated = changed(by_conversion), changed(by_precision)
    case, weights = toy.case(model, "bf16"), toy.weights(trained=False)
    conversion = compare_conversion(case, weights, converted, samples, 24, emulated=emulated)
    assert conversion.passed is passed, conversion
    assert (conversion.relative_error, conversion.agreement_limit is None) == (None, False)


def test_few_wrong_voxels_in_every_mask_fail() -> None:
    """Two tied voxels pass, but two whole masks of 24 would be a twelfth of all voxels."""
    masks = np.random.default_rng(0).integers(0, 4, (24, 10_000))
    other = masks.copy()
    other[:, :400] = (other[:, :400] + 1) % 4
    tied = masks.copy()
    tied[[3, 7], 5] += 1
    outputs = (Tensor("masks", "INT64", (10_000,)),)
    case = toy.case(toy.model(outputs=outputs), "fp16", Tolerance(0.01, 0.99, "chosen"))

    def compared(served: np.ndarray) -> OutputDifference:
        ids = [str(row) for row in range(24)]
        comparison = StageComparison("served", ids, {"masks": masks}, CaseArithmetic(case, "fp16"))
        comparison.add({"masks": served}, range(24))
        (result,) = comparison.differences
        return result

    assert compared(masks).passed
    assert compared(tied).passed
    assert not compared(other).passed


def test_int8_emulation_uses_only_training_samples() -> None:
    model = DIGITS
    seen: list[int] = []
    whole = model.samples("training", None, None)

    def load(indices: Any) -> Arrays:
        seen.extend(indices)
        return whole.read(indices)

    training = dataclasses.replace(whole, ids=whole.ids[:16], read=load)
    run = present(emulated_precision(model, "int8", weights_of(model), lambda: training, 16))
    count = len(seen)
    inputs = few(model, 4).read(range(4))
    expected = model.infer(weights_of(model).network, inputs)["OUTPUT__0"]
    error = np.abs(run(inputs)["OUTPUT__0"] - expected).mean() / np.abs(expected).mean()
    assert 0.002 < error < 0.1
    assert len(seen) == count == len(set(seen))
