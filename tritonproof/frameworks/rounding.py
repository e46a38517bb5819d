"""Emulates a precision for a network of PyTorch or Keras: computes in FP32, and rounds values to the
precision. It needs neither such hardware nor the converters that it helps to judge."""

import copy
import re
import threading
from collections.abc import Callable
from typing import Any

from tritonproof.frameworks.tensorflow import import_tensorflow

_HALVES = {"fp16": "float16", "bf16": "bfloat16"}
_TF32_STEP = 1 << 13
"""TF32 lacks 13 of FP32's 23 fraction bits."""


def _shortened(x: Any) -> Any:
    import torch

    short = ((x.contiguous().view(torch.int32) + _TF32_STEP // 2) & -_TF32_STEP).view(torch.float32)
    return torch.where(torch.isfinite(short), short, x)


def _rounded_weight(weight: Any, precision: str, bits: int, channel: int) -> Any:
    """A PyTorch tensor of weights rounded to the precision. For INT8, each output channel on the axis
    `channel` has its own step, and vectors stay as they are."""
    import torch

    if precision == "tf32":
        return _shortened(weight)
    if precision in _HALVES:
        return weight.to(getattr(torch, _HALVES[precision])).to(weight.dtype)
    if weight.dim() < 2:
        return weight
    others = [axis for axis in range(weight.dim()) if axis != channel]
    step = (weight.abs().amax(others, keepdim=True) / (2 ** (bits - 1) - 1)).clamp(min=1e-30)
    return (weight / step).round() * step


# --- PyTorch ------------------------------------------------------------------------------------------------

_MOVING = re.compile(
    "view|_unsafe_view|reshape|transpose|permute|t|numpy_T|expand|expand_as|unsqueeze|squeeze|flatten|unflatten|"
    "slice|select|chunk|split|narrow|clone|alias|detach|contiguous|_to_copy|to|copy_|arange|as_strided"
)
"""Operations that only move values."""
_FUSED = re.compile("(native_|cudnn_)?batch_norm|_native_batch_norm_legit_no_training|relu_?")
"""Operations that 8-bit libraries make part of the convolution before them, without rounding."""


def _within(mode_of: Callable[[], Any], network: Any) -> Any:
    """A network that calls `network` within a new dispatch mode, whose `take` also changes the results."""
    import torch
    from torch.utils._pytree import tree_map

    class Within(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, *inputs: torch.Tensor) -> Any:
            with mode_of() as mode:
                result = self.network(*inputs)
            return tree_map(mode.take, result)

    return Within().eval()


def exact_pytorch(network: Any) -> Any:
    """A copy of a network that computes in FP64, by which the rounding of FP32 can be measured."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    class Widening(TorchDispatchMode):
        """Turns FP32 operands into FP64, and has operations that would make FP32 constants make FP64 ones."""

        def take(self, x: Any) -> Any:
            return x.double() if isinstance(x, torch.Tensor) and x.dtype == torch.float32 else x

        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            args, named = tree_map(self.take, (args, kwargs or {}))
            if named.get("dtype") == torch.float32:
                named["dtype"] = torch.float64
            return operation(*args, **named)

    return _within(Widening, copy.deepcopy(network).double())


def rounded_pytorch(network: Any, precision: str, weight_bits: int = 8) -> tuple[Any, Callable[[], object]]:
    """A copy of a network that computes as in `precision` (tf32, fp16, bf16, or int8 with weights of
    `weight_bits` bits), and a function that ends its calibration.

    For INT8, run the copy on calibration samples first: it computes in FP32 and records the range of each
    activation. After a call of the function it rounds to these ranges. Other precisions need no calibration.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    simulated = copy.deepcopy(network)
    _round_weights(simulated, precision, weight_bits)
    weights = (*simulated.parameters(), *simulated.buffers())
    storages = {tensor.untyped_storage().data_ptr() for tensor in weights}
    ranges: dict[int, tuple[float, float]] = {}
    is_calibrated = threading.Event()

    def rounded(x: torch.Tensor, number: int) -> torch.Tensor:
        if precision == "tf32":
            return _shortened(x)
        if precision in _HALVES:
            half = getattr(torch, _HALVES[precision])
            # Values beyond the range stay finite: in a real FP16 model, a mask that holds FP32's minimum
            # holds FP16's.
            return x.clamp(torch.finfo(half).min, torch.finfo(half).max).to(half).to(x.dtype)
        low, high = ranges.get(number, (0.0, 0.0))
        if not is_calibrated.is_set():
            ranges[number] = min(low, float(x.min())), max(high, float(x.max()))
            return x
        # 256 steps, one of them zero: ONNX Runtime's UINT8.
        step = (high - low) / 255 or 1.0
        zero = round(-low / step)
        return ((x / step).round().add(zero).clamp(0, 255) - zero) * step

    class Rounding(TorchDispatchMode):
        """Rounds the operands of each operation; their numbers, in order of use, identify their ranges."""

        number = 0

        def take(self, x: Any) -> Any:
            is_value = isinstance(x, torch.Tensor) and x.dtype == torch.float32 and x.numel() > 0
            if not is_value or x.untyped_storage().data_ptr() in storages:
                return x
            self.number += 1
            return rounded(x, self.number)

        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = operation.overloadpacket.__name__
            is_fused = precision == "int8" and _FUSED.fullmatch(name)
            if not is_fused and not _MOVING.fullmatch(name):
                if operation._schema.is_mutable:
                    args[0].copy_(self.take(args[0]))  # the caller goes on with that tensor
                    args = (args[0], *tree_map(self.take, args[1:]))
                else:
                    args = tree_map(self.take, args)
            return operation(*args, **(kwargs or {}))

    return _within(Rounding, simulated), is_calibrated.set


def _round_weights(network: Any, precision: str, bits: int) -> None:
    """Round all weights to fewer bits; for INT8 the kernels and matrices."""
    import torch
    from torch import nn

    tensors = [(tensor, 0) for tensor in (*network.parameters(), *network.buffers())]
    if precision == "int8":
        products = (nn.Linear, nn.modules.conv._ConvNd)
        layers = [module for module in network.modules() if isinstance(module, products)]
        tensors = [(layer.weight, int(getattr(layer, "transposed", False))) for layer in layers]
    with torch.no_grad():
        for tensor, channel in tensors:
            if tensor.dtype == torch.float32:
                tensor.copy_(_rounded_weight(tensor, precision, bits, channel))


# --- Keras --------------------------------------------------------------------------------------------------


def exact_keras(network: Any) -> Any:
    """A copy of a network that computes in FP64, by which the rounding of FP32 can be measured."""
    import_tensorflow()
    import keras

    def widened(layer: Any) -> Any:
        if not isinstance(layer, keras.layers.Layer):
            return layer  # an operation, such as a difference, computes in the type of its inputs
        return type(layer).from_config({**layer.get_config(), "dtype": "float64"})

    copied = keras.models.clone_model(network, clone_function=widened)
    copied.set_weights(network.get_weights())
    return copied


def rounded_keras(network: Any, precision: str, weight_bits: int = 8) -> tuple[Any, Callable[[], object]]:
    """The same as `rounded_pytorch`, for a Keras network."""
    import torch

    tf = import_tensorflow()
    import keras

    is_calibrating = tf.Variable(precision == "int8", trainable=False, name="is_calibrating")
    # As for PyTorch, 8-bit libraries make these part of the convolution before them, without rounding.
    exempt = ("BatchNormalization", "Relu", "ReLU") if precision == "int8" else ()

    class Rounding(keras.layers.Layer):
        """Rounds values to the precision, or records their range during calibration."""

        def build(self, _shape: Any) -> None:
            self.low = self.add_weight(shape=(), initializer="zeros", trainable=False)
            self.high = self.add_weight(shape=(), initializer="zeros", trainable=False)

        def call(self, x: Any) -> Any:
            if precision in _HALVES:
                return tf.cast(tf.cast(x, _HALVES[precision]), x.dtype)
            if precision == "tf32":
                bits = tf.bitwise.bitwise_and(tf.bitcast(x, tf.int32) + _TF32_STEP // 2, -_TF32_STEP)
                return tf.bitcast(bits, tf.float32)
            low = tf.where(is_calibrating, tf.minimum(self.low, tf.reduce_min(x)), self.low)
            high = tf.where(is_calibrating, tf.maximum(self.high, tf.reduce_max(x)), self.high)
            self.low.assign(low)
            self.high.assign(high)
            step = tf.where(high > low, (high - low) / 255.0, 1.0)
            zero = tf.round(-low / step)
            quantised = (tf.clip_by_value(tf.round(x / step) + zero, 0.0, 255.0) - zero) * step
            return tf.where(is_calibrating, x, quantised)

    def take(x: Any) -> Any:
        is_value = isinstance(x, keras.KerasTensor) and x.dtype == "float32"
        return Rounding()(x) if is_value else x

    def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
        if type(layer).__name__ in exempt:
            return layer(*args, **kwargs)
        return layer(*keras.tree.map_structure(take, args), **kwargs)

    copied = keras.models.clone_model(network, call_function=call)
    for layer in network.layers:
        tensors = [torch.from_numpy(values) for values in layer.get_weights()]
        # The output channel of a kernel is its last axis.
        rounded = [_rounded_weight(x, precision, weight_bits, x.dim() - 1).numpy() for x in tensors]
        copied.get_layer(layer.name).set_weights(rounded)
    return copied, lambda: is_calibrating.assign(False)
