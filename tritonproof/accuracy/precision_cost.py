"""Measures what a precision itself costs a model, which decides how much its answers may differ.

The framework's own network runs in FP32 with its weights and values rounded to the precision; for FP32 it
runs in FP64, which shows FP32's own rounding. Without converters and hardware, it has none of their faults.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tritonproof.accuracy.expected import AnswerLimits, NumberLimits, expect
from tritonproof.accuracy.outputs import (
    beyond_rounding,
    check_finite,
    check_shapes,
    differences,
    equal_fraction,
    floating_outputs,
)
from tritonproof.accuracy.precisions import PRECISIONS, rounding_of, tolerance_of
from tritonproof.host.machine import int8_weight_bits
from tritonproof.spec import Arrays, Case, FrameworkModel, Model, Samples

_SAMPLES = 64
"""Samples that measure the cost, and that many for calibration."""
_MAX_BYTES = 1 << 29
"""The most bytes that the inputs of these samples may take."""
_FP64_DIVISOR = 8
"""How many times fewer samples and bytes there are in FP64, which takes many times as long."""

_DEEP_ROUNDING = 1e-5
"""What FP32's rounding may do to an element through many layers, as a share of its output's magnitude, if its
cost is unknown: a public detector's map (PP-OCR) is off by 4e-6 with ONNX Runtime's optimisations."""
LARGEST_LIMIT = 8.0
"""The largest error over the precision's largest, at most. One of thousands of values, it swings: 0.4 to 3.8
times (AOTInductor, BERT in FP16), and in that one build 2.1 times on a CPU without AVX-512."""
DECISIONS_LIMIT = 1.5
"""How many times as many decisions may differ as by the precision itself, chance aside. On nnU-Net's micro
size, whose only output they are, right builds change 0.8 (FP16) to 1.2 times (BF16) as many, half of them the
same voxels; a fault that alone changes twice as many makes 2.1 to 3.4 times with the precision's own."""
_ROW_FACTOR = 5
"""How many times the mean error of all rows one row's may be. One step of INT8 in every element is about 0.03
of the mean magnitude, and answers to two samples of one class are 0.3 apart."""
_TIE_MARGIN = 0.1
"""The share of rows that integers' ties may leave out, beyond those of the precision itself."""
MIN_COST = 4e-7
"""The least mean cost: FP32's own sums in another order, measured 0.8e-7 to 3.6e-7 of the mean magnitude."""
_MIN_LARGEST = 1e-4
"""The least that an element may differ beyond rounding, as a share of the spread. Measured in FP32: 6e-5."""

_MIN_NUMBERS = 32
"""Different numbers with a fraction from which on their last bits show a precision."""


@dataclass(frozen=True)
class PrecisionCost:
    """What a precision costs a model, on its first evaluation samples."""

    largest: Mapping[str, float]
    """The largest error of each floating-point output beyond rounding, as a share of the spread."""
    mean: Mapping[str, float]
    """Each floating-point output's mean error over its mean magnitude, MIN_COST at least; any other's share
    of differences."""
    comparable: float
    """The share of rows in which no integers differ that move the other outputs."""
    agreement: float
    """The share of equal decisions."""
    rounding: float = 0.0
    """The largest error of all floating-point outputs as a share of the output's largest magnitude."""


def measure_cost(
    model: Model,
    precision: str,
    weights: FrameworkModel,
    samples: Samples,
    calibration: Callable[[], Samples],
    batch: int,
    *,
    emulated: Callable[[Arrays], Arrays] | None = None,
) -> PrecisionCost | None:
    """What a precision costs a model on the first samples, whatever its format; None if it is no framework's
    network. INT8 takes training samples by `calibration`. `emulated` gives known answers of the precision."""
    emulated = emulated or emulated_precision(model, precision, weights, calibration, batch)
    if emulated is None:
        return None
    fewer = _FP64_DIVISOR if precision == "fp32" else 1
    indices = range(_count(model, len(samples), fewer))
    parts: list[list[Arrays]] = [[], []]
    for start in range(0, len(indices), batch):
        inputs = samples.read(indices[start : start + batch])
        parts[0].append(model.infer(weights.network, inputs))
        parts[1].append(emulated(inputs))
    right, emulated_outputs = (
        {name: np.concatenate([arrays[name] for arrays in part]) for name in part[0]} for part in parts
    )
    ids = samples.ids[: len(indices)]
    check_finite("framework", right, ids)
    check_finite(f"emulated {precision}", emulated_outputs, ids)
    check_shapes(right, emulated_outputs, "emulated", "the framework's")
    expected = expect(ids, right)
    largest, mean, rounding = {}, {}, 0.0
    is_comparable = np.ones(len(ids), bool)
    for name in expected.discrete_outputs:
        mean[name] = float((right[name] != emulated_outputs[name]).mean())
        if name not in expected.scores:
            is_comparable &= equal_fraction(right[name], emulated_outputs[name]) == 1
    for name, spread in expected.spreads.items():
        values = right[name][is_comparable]
        errors = differences(emulated_outputs[name][is_comparable], values)
        largest[name] = float(beyond_rounding(errors, spread, rounding_of(model, precision)).max(initial=0.0))
        cost = float(errors.sum() / (np.abs(values.astype(np.float64)).sum() or errors.size or 1))
        mean[name] = max(cost, MIN_COST)
        rounding = max(rounding, float(errors.max(initial=0.0)) / (spread.magnitude or 1.0))
    decisions = (model.decide(model.keep(arrays)) for arrays in (emulated_outputs, right))
    agreement = float(equal_fraction(*decisions).mean())
    return PrecisionCost(largest, mean, float(is_comparable.mean()), agreement, rounding)


def least_agreement(agreement: float, decisions: int) -> float:
    """The least share of equal decisions that passes, if the precision itself leaves `agreement` of so many.
    DECISIONS_LIMIT times its share may differ, plus two standard deviations of such a count (Poisson, by the
    square root of the count), and three, for when none differed."""
    expected = DECISIONS_LIMIT * (1 - agreement) * decisions
    return max(0.0, 1 - (expected + 2 * expected**0.5 + 3) / decisions)


@dataclass(frozen=True)
class StageLimits:
    """How far the outputs of a stage may be from those of the stage before, on all samples."""

    per_answer: AnswerLimits
    """How far the answers to one sample may differ."""
    all_rows: Mapping[str, float]
    """How far all rows of an output may differ on the mean, as a share of the mean magnitude, or the largest
    share of differing integers."""
    mean_rounding: float
    """What FP32's rounding adds to that mean, over the largest magnitude; 0 if `all_rows` was measured."""
    source: str
    """Where these limits come from, in words."""


Sizes = Mapping[str, int]
"""The number of elements of each output that are compared."""


def limits_per_answer(case: Case, precision: str, cost: PrecisionCost | None, sizes: Sizes) -> AnswerLimits:
    """How far answers to one sample by the same file may differ if other kernels may compute them."""
    share = AnswerLimits.least_compared_share if cost is None else max(0.0, cost.comparable - _TIE_MARGIN)
    return _limits(case, precision, cost, sizes, share, same_file=True).per_answer


def stage_limits(
    case: Case, precision: str, cost: PrecisionCost | None, sizes: Sizes, rows: int, *, same_file: bool
) -> StageLimits:
    """How far outputs of so many `rows` may be from those of the stage before, of the `same_file` or before
    its conversion."""
    comparable = tolerance_of(case, precision).agreement if cost is None else cost.comparable
    return _limits(case, precision, cost, sizes, least_agreement(comparable, rows), same_file=same_file)


def _limits(
    case: Case, precision: str, cost: PrecisionCost | None, sizes: Sizes, share: float, *, same_file: bool
) -> StageLimits:
    """The limits if at least this `share` of the rows has compared floating-point outputs."""
    numbers = [tensor.name for tensor in case.model.outputs if tensor.dtype.startswith(("FP", "BF"))]
    floating = [name for name in numbers if name in sizes]
    largest, mean, source = _floating_limits(case, precision, cost, floating, same_file=same_file)
    tolerated = tolerance_of(case, precision).agreement
    unequal = {
        name: 1 - (tolerated if cost is None else least_agreement(1 - cost.mean[name], count))
        for name, count in sizes.items()
        if name not in floating
    }
    rounding = rounding_of(case.model, precision)
    measured = _DEEP_ROUNDING if cost is None else LARGEST_LIMIT * min(rounding, cost.rounding)
    by_output = {name: NumberLimits(largest[name], _ROW_FACTOR * mean[name]) for name in floating}
    per_answer = AnswerLimits(
        element=max(largest.values(), default=_MIN_LARGEST),
        mean=_ROW_FACTOR * max(mean.values(), default=0.0),
        agreement=1 - max(unequal.values(), default=0.0),
        rounding=max(rounding, measured),
        least_compared_share=share,
        by_output={} if cost is None else by_output,
    )
    mean_rounding = PRECISIONS["fp32"].rounding if cost is None else 0.0
    return StageLimits(per_answer, mean | unequal, mean_rounding, source)


def _floating_limits(
    case: Case, precision: str, cost: PrecisionCost | None, names: Sequence[str], *, same_file: bool
) -> tuple[dict[str, float], dict[str, float], str]:
    """The largest and the mean error of these floating-point outputs, at most, and where the limits come
    from: a multiple of what the precision costs for a conversion, and another for the `same_file` by other
    kernels. If the cost is unknown, the case's tolerance counts for a conversion, and the precision's
    `unknown_mean` for the same file."""
    tolerance = tolerance_of(case, precision)
    if cost is not None:
        rule = PRECISIONS[precision]
        factor = rule.kernel_factor if same_file else rule.conversion_factor
        largest = {name: max(LARGEST_LIMIT * cost.largest[name], _MIN_LARGEST) for name in names}
        mean = {name: factor * cost.mean[name] for name in names}
        most = f"{LARGEST_LIMIT:g} times at most"
        source = f"{factor:g} times what {precision.upper()} itself costs this model on the mean, {most}"
        return largest, mean, source
    if same_file and precision in PRECISIONS and not tolerance.is_given:
        source = f"the same file by other kernels in {precision.upper()}"
        rule = PRECISIONS[precision]
        largest_error, mean_error = rule.unknown_largest, rule.unknown_mean
    else:
        source, largest_error = tolerance.source, tolerance.relative_error
        mean_error = largest_error if tolerance.mean_error is None else tolerance.mean_error
    return dict.fromkeys(names, largest_error), dict.fromkeys(names, mean_error), source


def inferred_limits(limits: AnswerLimits, answers: Iterable[Arrays], device: str) -> AnswerLimits:
    """How far two answers of a model of unknown precision may differ: `limits`, FP32's, or those of FP16
    or BF16 if every number of the `answers` fits it. On the device cuda products may be in TF32."""
    rule = PRECISIONS[inferred_precision(answers) or ("tf32" if device == "cuda" else "fp32")]
    return dataclasses.replace(
        limits,
        element=max(limits.element, rule.unknown_largest),
        mean=max(limits.mean, _ROW_FACTOR * rule.unknown_mean),
        rounding=max(limits.rounding, rule.rounding),
    )


def inferred_precision(answers: Iterable[Arrays]) -> str:
    """bf16 or fp16 if it can represent every floating-point number; empty if neither can, or if too few
    numbers have a fraction to show it."""
    values = [
        np.asarray(outputs[name], np.float32).ravel()
        for outputs in answers
        for name in floating_outputs(outputs)
        if outputs[name].dtype.itemsize <= 4
    ]
    numbers = np.concatenate(values) if values else np.zeros(0, np.float32)
    numbers = numbers[np.isfinite(numbers)]
    if np.unique(numbers[numbers != np.round(numbers)]).size < _MIN_NUMBERS:
        return ""
    if not (numbers.view(np.uint32) & np.uint32(0xFFFF)).any():  # the bits of FP32 that BF16 lacks
        return "bf16"
    with np.errstate(over="ignore"):
        return "fp16" if np.array_equal(numbers.astype(np.float16).astype(np.float32), numbers) else ""


def emulated_precision(
    model: Model, precision: str, weights: FrameworkModel, calibration: Callable[[], Samples], batch: int
) -> Callable[[Arrays], Arrays] | None:
    """The framework's model as it computes in a precision, from inputs to outputs; for FP32 without
    any rounding. None if it is no framework's network."""
    network = weights.network
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


def _count(model: Model, available: int, fewer: int = 1) -> int:
    row_bytes = sum(tensor.row_bytes for tensor in model.inputs)
    return min(_SAMPLES // fewer, available, max(1, _MAX_BYTES // fewer // row_bytes))
