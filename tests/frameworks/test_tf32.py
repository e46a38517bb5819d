"""TF32 on a GPU: its emulated rounding is allowed only where it is used; the framework goes without."""

import dataclasses

import numpy as np
import pytest
import torch

from tests.toy import compare_conversion
from tritonproof.accuracy.limits import CaseArithmetic
from tritonproof.accuracy.precisions import limit_in
from tritonproof.formats.onnx import ONNX
from tritonproof.frameworks import pytorch
from tritonproof.frameworks.rounding import rounded_pytorch
from tritonproof.host.targets import recognise
from tritonproof.models import all_models
from tritonproof.spec import Arrays, Case


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
        pytorch.infer(network, {"x": np.ones((1, 1), np.float32)}, ("y",))
        assert torch.backends.cuda.matmul.allow_tf32 is allowed, "as the runtime has set it"
    assert network.allowed == [False, False]


def test_tf32_cost_applies_only_if_tf32_is_used() -> None:
    """On an A100, a right model in TF32 is off by ten to a thousand times as much as in true FP32."""
    model = next(model for model in all_models() if model.name == "resnet50-micro")
    case = Case(recognise("NVIDIA A100"), model, ONNX, None, "fp32")
    weights, samples = model.load_weights(None), model.samples("evaluation", None, None)
    samples = dataclasses.replace(samples, ids=samples.ids[:8])
    in_tf32, _calibrated = rounded_pytorch(weights.network, "tf32")

    def run(inputs: Arrays) -> Arrays:
        return model.infer(in_tf32, inputs)

    assert compare_conversion(case, weights, run, samples, 8, precision="tf32").passed
    assert not compare_conversion(case, weights, run, samples, 8, precision="fp32").passed


def test_tf32_is_held_to_limits_of_fp16_unless_it_has_its_own() -> None:
    models = {model.name: model for model in all_models()}
    case = Case(recognise("NVIDIA A100"), models["resnet50-micro"], ONNX, None, "fp32")
    assert CaseArithmetic(case, "tf32").tolerance == ONNX.tolerances["fp16"]
    assert CaseArithmetic(case, "fp32").tolerance == ONNX.tolerances["fp32"]
    for name, own in (("fastpitch", "fp16"), ("fastpitch-micro", "tf32")):
        limits = models[name].metrics[1].limits
        assert limit_in("tf32", limits) == limits[own]
        assert limit_in("fp32", limits) == limits["fp32"]


def test_emulated_tf32_keeps_11_bits_and_the_range_of_fp32() -> None:
    """Of FP32's 23 stored bits TF32 keeps 10, and rounds to the nearest. Source: NVIDIA A100 Tensor Core GPU
    Architecture, "TF32"; PTX ISA, cvt.rna.tf32.f32."""
    network, _calibrated = rounded_pytorch(torch.nn.Linear(1, 1, bias=False), "tf32")
    with torch.inference_mode():
        network.network.weight.fill_(1.0)
        values = torch.tensor([[1 + 2**-10], [1 + 2**-12], [1 + 3 * 2**-12], [1e30], [1e-30]])
        outputs = network(values)[:3, 0].tolist()
        large, small = network(values)[3:, 0].tolist()
    assert outputs == [1 + 2**-10, 1.0, 1 + 2**-10]
    assert (large / 1e30, small / 1e-30) == pytest.approx((1, 1), rel=1e-3)
