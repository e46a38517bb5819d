"""Emulated TF32 products stay within tolerance, and the framework computes without TF32."""

import dataclasses

import numpy as np
import pytest
import torch

from fixtures.formats import all_formats
from fixtures.frameworks import pytorch
from fixtures.host.targets import recognise
from fixtures.models import all_models
from fixtures.spec import Arrays, Case, Model, Tolerance
from tests.frameworks.emulated_tf32 import EmulatedTf32
from tests.toy import compare_conversion

ROWS = {"nnunet-micro": 4}
"""Evaluation rows to compare, if 64 take long."""
MICRO = [model for model in all_models() if model.micro and model.framework == "pytorch"]
OF_FORMATS = next(format_ for format_ in all_formats() if format_.mnemonic == "onnx").tolerances


def tolerance(model: Model, name: str) -> Tolerance:
    return model.tolerances.get(name) or OF_FORMATS[name]


def relative_error(expected: Arrays, found: Arrays) -> float | None:
    """The conversion test's relative error; None for a model without floating-point outputs."""
    names = [name for name, values in expected.items() if values.dtype.kind == "f"]
    errors = [np.abs(found[name] - expected[name]).max() / np.abs(expected[name]).max() for name in names]
    return max(errors, default=None)


@pytest.mark.parametrize("model", MICRO, ids=lambda model: model.name)
def test_tf32_tolerance_fits_its_products(model: Model) -> None:
    """TF32's tolerance admits its error, and FP32's would not; nnU-Net has only decisions to compare."""
    network = model.load(None).network
    samples = model.samples("evaluation", None, None)
    inputs = samples.load(range(min(ROWS.get(model.name, 64), len(samples))))
    expected = model.run(network, inputs)
    with EmulatedTf32() as emulated:
        outputs = model.run(network, inputs)
    assert emulated.products > 10
    error = relative_error(expected, outputs)
    agreement = (model.decide(model.keep(outputs)) == model.decide(model.keep(expected))).mean()
    assert agreement >= tolerance(model, "tf32").agreement
    if error is not None:
        assert tolerance(model, "fp32").relative_error < error <= tolerance(model, "tf32").relative_error


class Noting(torch.nn.Module):
    """A network that notes whether PyTorch may compute its products in TF32."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.allowed: list[bool] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.allowed += [torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32]
        return x


@pytest.mark.parametrize("allowed", [True, False])
def test_framework_computes_without_tf32(allowed: bool) -> None:
    network = Noting()
    with pytorch.tf32_products(allowed=allowed):
        pytorch.run(network, {"x": np.ones((1, 1), np.float32)}, ("y",))
        assert torch.backends.cuda.matmul.allow_tf32 is allowed, "as the runtime has set it"
    assert network.allowed == [False, False]


def test_tf32_cost_applies_only_if_tf32_is_used() -> None:
    """On an A100, a right model in TF32 is off by ten to a thousand times as much as in true FP32."""
    model = next(model for model in MICRO if model.name == "resnet50-micro")
    onnx = next(format_ for format_ in all_formats() if format_.mnemonic == "onnx")
    case = Case(recognise("NVIDIA A100"), model, onnx, None, "fp32")
    weights, samples = model.load(None), model.samples("evaluation", None, None)
    samples = dataclasses.replace(samples, ids=samples.ids[:8])

    def in_tf32(inputs: Arrays) -> Arrays:
        with EmulatedTf32():
            return model.run(weights.network, inputs)

    held_to = {
        tf32: compare_conversion(case, weights, in_tf32, samples, 8, tf32=tf32) for tf32 in (True, False)
    }
    assert held_to[True].passed
    assert not held_to[False].passed
