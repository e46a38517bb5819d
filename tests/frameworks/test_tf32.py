"""Emulated TF32 products stay within tolerance, and the framework computes without TF32."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from fixtures.formats import all_formats
from fixtures.frameworks import pytorch
from fixtures.host.targets import recognise
from fixtures.models import all_models
from fixtures.spec import Arrays, Case, Model, Tolerance
from tests.toy import compare_conversion

_KEPT = ~0x1FFF
_HALF = 0x1000
"""Of FP32's 23 stored bits TF32 keeps 10, and rounds to the nearest. Source: NVIDIA A100 Tensor Core GPU
Architecture, "TF32"; PTX ISA, cvt.rna.tf32.f32."""


def rounded(tensor: Any) -> Any:
    """An FP32 tensor rounded to 10 stored bits of its mantissa; anything else unchanged."""
    if not isinstance(tensor, torch.Tensor) or tensor.dtype != torch.float32:
        return tensor
    return ((tensor.contiguous().view(torch.int32) + _HALF) & _KEPT).view(torch.float32)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    **_unused: Any,
) -> torch.Tensor:
    """An attention that rounds the operands of both products."""
    assert not dropout_p
    assert not is_causal
    scores = torch.matmul(rounded(query), rounded(key).transpose(-2, -1))
    scores = scores * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if attn_mask is not None:
        hidden = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -math.inf) if hidden else scores + attn_mask
    return torch.matmul(rounded(scores.softmax(-1)), rounded(value))


def _with_rounded(product: Callable[..., Any]) -> Callable[..., Any]:
    """The product of rounded operands; its bias is added without rounding."""
    return lambda left, right, *rest, **named: product(rounded(left), rounded(right), *rest, **named)


_PRODUCTS: Mapping[Any, Callable[..., Any]] = {
    functional.scaled_dot_product_attention: _attention,
    **{
        product: _with_rounded(product)
        for product in (
            *(torch.conv1d, torch.conv2d, torch.conv3d, torch.conv_transpose2d, torch.conv_transpose3d),
            *(functional.linear, torch.matmul, torch.bmm, torch.mm),
            *(torch.Tensor.matmul, torch.Tensor.__matmul__, torch.Tensor.bmm, torch.Tensor.mm),
        )
    },
}


class EmulatedTf32(TorchFunctionMode):
    """Within it, convolutions and matrix products of FP32 round operands to 10 stored bits."""

    def __init__(self) -> None:
        super().__init__()
        self.products = 0
        """The number of products computed in this way."""

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), named: dict[str, Any] | None = None
    ) -> Any:
        product = _PRODUCTS.get(function)
        self.products += product is not None
        with torch._C.DisableTorchFunction():
            return (product or function)(*arguments, **(named or {}))


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
