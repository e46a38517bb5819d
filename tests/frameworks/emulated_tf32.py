"""TF32 on a CPU: PyTorch that rounds the operands of its products as the tensor cores of a GPU do."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

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
