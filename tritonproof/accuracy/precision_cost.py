"""Measures what a precision itself costs a model, from which the limits of its answers follow (limits.py).

The framework's own network runs in FP32 with its weights and values rounded to the precision; the cost of
FP32 is its difference from FP64. Without converters and hardware, this network has none of their faults.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tritonproof.accuracy.expected import expect
from tritonproof.accuracy.outputs import (
    beyond_rounding,
    check_finite,
    check_shapes,
    differences,
    equal_fraction,
)
from tritonproof.accuracy.precisions import PRECISIONS
from tritonproof.host.machine import int8_weight_bits
from tritonproof.spec import Arrays, FrameworkModel, NetworkModel, Samples

_MAX_ROWS = 64
"""The most rows for measuring the cost; as many again calibrate INT8."""
_MAX_BYTES = 1 << 29
"""The most bytes that the inputs of these rows may take."""
_FP64_DIVISOR = 8
"""Rows and bytes for a run in FP64 are this many times fewer, as it takes many times as long."""

MIN_COST = 4e-7
"""The least mean cost: FP32's sums in another order differed by 0.8e-7 to 3.6e-7 of the mean magnitude."""


@dataclass(frozen=True, kw_only=True)
class PrecisionCost:
    """How much a precision changes a model's outputs for its first rows of evaluation data."""

    largest: Mapping[str, float]
    """The largest error of each floating-point output beyond rounding, as a share of the spread."""
    mean: Mapping[str, float]
    """By output: if floating-point, mean error over mean magnitude, or MIN_COST; else share of changes."""
    comparable_share: float
    """The share of rows whose floating-point outputs can be compared: in these, rounding changes no integer
    on which outputs may depend, such as a duration. Classes that follow from scores may change."""
    agreement: float
    """The share of decisions that stay the same."""
    rounding: float = 0.0
    """The largest error of any floating-point output, as a share of that output's largest magnitude."""


def measure_cost(
    model: NetworkModel,
    precision: str,
    framework_model: FrameworkModel,
    samples: Samples,
    calibration: Callable[[], Samples],
    batch: int,
    *,
    emulated: Callable[[Arrays], Arrays] | None = None,
) -> PrecisionCost | None:
    """What a precision costs a model on the first rows of `samples`, in any format; None if the framework has
    no network of it. `calibration` gives training data for INT8; `emulated` replaces `emulated_precision`."""
    emulated = emulated or emulated_precision(model, precision, framework_model, calibration, batch)
    if emulated is None:
        return None
    fewer = _FP64_DIVISOR if precision == "fp32" else 1
    indices = range(_count(model, len(samples), fewer))
    parts: list[list[Arrays]] = [[], []]
    for start in range(0, len(indices), batch):
        inputs = samples.read(indices[start : start + batch])
        parts[0].append(model.infer(framework_model.network, inputs))
        parts[1].append(emulated(inputs))
    outputs, emulated_outputs = (
        {name: np.concatenate([arrays[name] for arrays in part]) for name in part[0]} for part in parts
    )
    ids = samples.ids[: len(indices)]
    check_finite("framework", outputs, ids)
    check_finite(f"emulated {precision}", emulated_outputs, ids)
    check_shapes(outputs, emulated_outputs, "emulated", "in the framework")
    expected = expect(ids, outputs)
    largest, mean, rounding = {}, {}, 0.0
    is_comparable = np.ones(len(ids), bool)
    for name in expected.discrete_outputs:
        mean[name] = float((outputs[name] != emulated_outputs[name]).mean())
        if name not in expected.score_output_of:
            is_comparable &= equal_fraction(outputs[name], emulated_outputs[name]) == 1
    for name, spread in expected.spreads.items():
        values = outputs[name][is_comparable]
        errors = differences(emulated_outputs[name][is_comparable], values)
        excess = beyond_rounding(errors, spread, PRECISIONS[precision].rounding)
        largest[name] = float(excess.max(initial=0.0))
        cost = float(errors.sum() / (np.abs(values.astype(np.float64)).sum() or errors.size or 1))
        mean[name] = max(cost, MIN_COST)
        rounding = max(rounding, float(errors.max(initial=0.0)) / (spread.max_magnitude or 1.0))
    decisions = (model.decide(model.keep(arrays)) for arrays in (emulated_outputs, outputs))
    share, agreement = float(is_comparable.mean()), float(equal_fraction(*decisions).mean())
    return PrecisionCost(
        largest=largest, mean=mean, comparable_share=share, agreement=agreement, rounding=rounding
    )


def emulated_precision(
    model: NetworkModel,
    precision: str,
    framework_model: FrameworkModel,
    calibration: Callable[[], Samples],
    batch: int,
) -> Callable[[Arrays], Arrays] | None:
    """A function from inputs to outputs that computes as the framework's model would in the precision; for
    FP32 it computes in FP64. None if the framework has no network of the model."""
    network = framework_model.network
    if precision not in PRECISIONS or model.framework not in ("pytorch", "tensorflow"):
        return None
    import torch

    from tritonproof.frameworks import rounding

    is_keras = model.framework == "tensorflow"
    if not is_keras and not isinstance(network, torch.nn.Module):
        return None
    if precision == "fp32":
        exact = rounding.exact_keras(network) if is_keras else rounding.exact_pytorch(network)
        return lambda inputs: model.infer(exact, inputs)
    rounded_of = rounding.rounded_keras if is_keras else rounding.rounded_pytorch
    rounded, freeze_ranges = rounded_of(network, precision, int8_weight_bits())
    if precision == "int8":
        samples = calibration()
        chosen = np.random.default_rng(0).permutation(len(samples))[: _count(model, len(samples))].tolist()
        for start in range(0, len(chosen), batch):
            model.infer(rounded, samples.read(chosen[start : start + batch]))
        freeze_ranges()
    return lambda inputs: model.infer(rounded, inputs)


def _count(model: NetworkModel, available: int, fewer: int = 1) -> int:
    row_bytes = sum(tensor.row_bytes for tensor in model.inputs)
    return min(_MAX_ROWS // fewer, available, max(1, _MAX_BYTES // fewer // row_bytes))
