"""How far answers may differ: multiples of what the precision costs the model, else of its rounding."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from tritonproof.accuracy.outputs import floating_outputs
from tritonproof.accuracy.precision_cost import PrecisionCost
from tritonproof.accuracy.precisions import PRECISIONS, rounding_of, tolerance_of
from tritonproof.spec import Arrays, Case

DEEP_ROUNDING = 1e-5
"""What FP32's rounding may do to an element through many layers, as a share of its output's magnitude, if its
cost is unknown: a public detector's map (PP-OCR) is off by 4e-6 with ONNX Runtime's optimisations."""
LARGEST_FACTOR = 8.0
"""The largest error over the precision's largest, at most. One of thousands of values, it swings: 0.4 to 3.8
times (AOTInductor, BERT in FP16), and in that one build 2.1 times on a CPU without AVX-512."""
DECISIONS_FACTOR = 1.5
"""How many times as many decisions may differ as by the precision itself, chance aside. On nnU-Net's micro
size, whose only output they are, right builds change 0.8 (FP16) to 1.2 times (BF16) as many, half of them the
same voxels; a fault that alone changes twice as many makes 2.1 to 3.4 times with the precision's own."""
_ROW_MEAN_FACTOR = 5
"""How many times the mean error of all rows one row's may be. One step of INT8 in every element is about 0.03
of the mean magnitude, and answers to two samples of one class are 0.3 apart."""
_TIE_MARGIN = 0.1
"""The share of rows that integers' ties may leave out, beyond those of the precision itself."""
_MIN_LARGEST = 1e-4
"""The least that an element may differ beyond rounding, as a share of the spread. Measured in FP32: 6e-5."""
NOISE_FACTOR = 10.0
"""The largest unexplained difference, as a multiple of a repeated request's typical noise. Of 10,000 normally
distributed differences the largest is 6 times the median of each row's largest."""
MIN_NOISE = 1e-5
"""The least noise allowed, as a share of the spread. Right models on a CPU repeat every bit."""
_MIN_NUMBERS = 32
"""The fewest different numbers with a fraction whose last bits show in which precision they were computed."""


class NumberLimits(NamedTuple):
    """How far the numbers of a floating-point output may differ."""

    max_element: float
    """The most that an element may differ, over its scale (`compare_rows`)."""
    max_mean: float
    """The most that a row may differ on the mean, as a share of the output's mean magnitude."""

    def or_wider(self, other: "NumberLimits") -> "NumberLimits":
        return NumberLimits(*map(max, self, other))


@dataclass(frozen=True)
class AnswerLimits:
    """How far two answers to the same sample may differ."""

    default: NumberLimits
    """Of each floating-point output without limits in `by_output`."""
    min_agreement: float = 1.0
    """The least share of equal elements, from 0 to 1, over all rows of each other output without its own."""
    agreement_by_output: Mapping[str, float] = field(default_factory=dict)
    """The same of single outputs: three of ten classes are no share of a mask's elements."""
    rounding: float = PRECISIONS["fp32"].rounding
    """What rounding may do to an element, as a share of the output's largest magnitude."""
    min_compared_share: float = 0.5
    """The least share of rows with compared floating-point outputs: a tie of integers leaves a row out."""
    by_output: Mapping[str, NumberLimits] = field(default_factory=dict)
    """Of single outputs that need less than the rest."""
    of_conversion: "AnswerLimits | None" = None
    """How far answers of the model's other formats and precisions may differ; None for as far."""
    inferred_on: str = ""
    """The device, cpu or cuda, if only answers show the precision; empty if known, or if limits are given."""

    def of_output(self, output: str) -> NumberLimits:
        return self.by_output.get(output, self.default)

    def agreement_of(self, output: str) -> float:
        return self.agreement_by_output.get(output, self.min_agreement)

    def or_wider(self, other: "AnswerLimits") -> "AnswerLimits":
        """The limits that allow whatever either allows."""
        names = self.by_output.keys() | other.by_output.keys()
        discrete = self.agreement_by_output.keys() | other.agreement_by_output.keys()
        return AnswerLimits(
            default=self.default.or_wider(other.default),
            min_agreement=min(self.min_agreement, other.min_agreement),
            rounding=max(self.rounding, other.rounding),
            min_compared_share=min(self.min_compared_share, other.min_compared_share),
            by_output={name: self.of_output(name).or_wider(other.of_output(name)) for name in names},
            agreement_by_output={n: min(self.agreement_of(n), other.agreement_of(n)) for n in discrete},
        )

    def at_least(self, max_element: float) -> "AnswerLimits":
        """The same, with at least this `max_element` for every output."""
        return self.or_wider(replace(self, default=NumberLimits(max_element, 0.0), by_output={}))


def min_agreement_for(agreement: float, decisions: int) -> float:
    """The least share of equal decisions that passes, if the precision itself leaves `agreement` of so many.
    DECISIONS_FACTOR times its share may differ, plus two standard deviations of such a count (Poisson, by the
    square root of the count), and three, for when none differed."""
    expected = DECISIONS_FACTOR * (1 - agreement) * decisions
    return max(0.0, 1 - (expected + 2 * expected**0.5 + 3) / decisions)


@dataclass(frozen=True)
class StageLimits:
    """How far the outputs of a stage may be from those of the stage before, on all samples."""

    per_answer: AnswerLimits
    """How far the answers to one sample may differ."""
    max_mean_by_output: Mapping[str, float]
    """How far all rows of an output may differ on the mean, as a share of the mean magnitude, or the largest
    share of differing integers."""
    mean_rounding: float
    """What FP32's rounding adds to that mean, over the largest magnitude; 0 if the cost was measured."""
    source: str
    """Where these limits come from, in words."""


Sizes = Mapping[str, int]
"""The number of elements of each output that are compared."""


def limits_per_answer(case: Case, precision: str, cost: PrecisionCost | None, sizes: Sizes) -> AnswerLimits:
    """How far answers to one sample by the same file may differ if other kernels may compute them."""
    share = AnswerLimits.min_compared_share if cost is None else max(0.0, cost.comparable - _TIE_MARGIN)
    stages = (stage_limits(case, precision, cost, sizes, 1, same_file=is_same) for is_same in (True, False))
    same, converted = (replace(stage.per_answer, min_compared_share=share) for stage in stages)
    is_known = precision or tolerance_of(case, precision).is_given
    return replace(same, of_conversion=converted) if is_known else replace(same, inferred_on=case.answers_on)


def stage_limits(
    case: Case, precision: str, cost: PrecisionCost | None, sizes: Sizes, rows: int, *, same_file: bool
) -> StageLimits:
    """How far outputs of so many `rows` may be from those of the stage before, which may be the same file."""
    numbers = [tensor.name for tensor in case.model.outputs if tensor.dtype.startswith(("FP", "BF"))]
    floating = [name for name in numbers if name in sizes]
    largest, mean, source = _floating_limits(case, precision, cost, floating, same_file=same_file)
    tolerated = tolerance_of(case, precision).min_agreement
    texts = {tensor.name: 0.0 for tensor in case.model.outputs if tensor.dtype == "BYTES"}
    unequal = {
        name: 1 - (tolerated if cost is None else min_agreement_for(1 - cost.mean[name], count))
        for name, count in sizes.items()
        if name not in floating
    } | texts
    rounding = rounding_of(case.model, precision)
    measured = DEEP_ROUNDING if cost is None else LARGEST_FACTOR * min(rounding, cost.rounding)
    by_output = {name: NumberLimits(largest[name], _ROW_MEAN_FACTOR * mean[name]) for name in floating}
    of_none = NumberLimits(_MIN_LARGEST, 0.0)
    per_answer = AnswerLimits(
        default=functools.reduce(NumberLimits.or_wider, by_output.values() or [of_none]),
        min_agreement=1 - max(unequal.values(), default=0.0),
        rounding=max(rounding, measured),
        min_compared_share=min_agreement_for(tolerated if cost is None else cost.comparable, rows),
        by_output={} if cost is None else by_output,
        agreement_by_output={name: 1 - share for name, share in unequal.items()},
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
    tolerance, rule = tolerance_of(case, precision), PRECISIONS.get(precision)
    if cost is not None and rule is not None:
        factor = rule.kernel_factor if same_file else rule.conversion_factor
        largest = {name: max(LARGEST_FACTOR * cost.largest[name], _MIN_LARGEST) for name in names}
        mean = {name: factor * cost.mean[name] for name in names}
        most = f"{LARGEST_FACTOR:g} times at most"
        source = f"{factor:g} times what {precision.upper()} itself costs this model on the mean, {most}"
        return largest, mean, source
    if same_file and rule is not None and not tolerance.is_given:
        source = f"the same file by other kernels in {precision.upper()}"
        largest_error, mean_error = rule.unknown_largest, rule.unknown_mean
    else:
        source, largest_error = tolerance.source, tolerance.max_relative_error
        mean_error = largest_error if tolerance.max_mean_error is None else tolerance.max_mean_error
    return dict.fromkeys(names, largest_error), dict.fromkeys(names, mean_error), source


def inferred_limits(limits: AnswerLimits, answers: Iterable[Arrays]) -> AnswerLimits:
    """How far two answers may differ. If only they show the model's precision: `limits`, FP32's, or those of
    FP16 or BF16 if every number of the `answers` fits it. On the device cuda products may be in TF32."""
    if not limits.inferred_on:
        return limits
    rule = PRECISIONS[inferred_precision(answers) or ("tf32" if limits.inferred_on == "cuda" else "fp32")]
    inferred = NumberLimits(rule.unknown_largest, _ROW_MEAN_FACTOR * rule.unknown_mean)
    default, rounding = limits.default.or_wider(inferred), max(limits.rounding, rule.rounding)
    return replace(limits, default=default, rounding=rounding, inferred_on="")


def inferred_precision(answers: Iterable[Arrays]) -> str:
    """bf16 or fp16 if it represents all floats; empty if neither does, or too few numbers have a fraction."""
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
