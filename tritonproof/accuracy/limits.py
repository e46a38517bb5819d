"""How far two answers to one sample may differ, in four words. All limits of answers are composed here.

The tolerance is chosen by a person, for a format or a model: how far a conversion may be from its framework.
The cost is measured: how far a precision alone moves the outputs of the framework's own network.
The limits are what comparisons enforce: multiples of the cost, or where none is measured the tolerance; for
the same artifact on other kernels, constants of the precision in its place, unless a user gave the tolerance.
The noise is how far answers to a repeated request differ: where nothing may change an answer, a multiple of
it is the only limit.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from tritonproof.accuracy.outputs import floating_outputs
from tritonproof.accuracy.precision_cost import PrecisionCost
from tritonproof.accuracy.precisions import PRECISIONS, limit_in, rounding_of
from tritonproof.spec import Arrays, Case, Device, Tolerance

DEEP_ROUNDING = 1e-5
"""How far FP32's rounding may move an element through many layers, as a share of its output's magnitude, if
the cost is unknown: a public detector's map (PP-OCR) is off by 4e-6 with ONNX Runtime's optimisations."""
_LARGEST_FACTOR = 8.0
"""The limit of the largest error, over the cost's largest. One of thousands of values, it varies: 0.4 to 3.8
times (AOTInductor, BERT in FP16), and in that one build 2.1 times on a CPU without AVX-512."""
_DECISIONS_FACTOR = 1.5
"""How many times as many decisions may differ as the precision itself changes, chance aside. nnU-Net's micro
size has no other outputs: right builds change 0.8 (FP16) to 1.2 times (BF16) as many, half of them the same
voxels; a fault that alone changes twice as many makes 2.1 to 3.4 times with the precision's own."""
_TIE_MARGIN = 0.1
"""The share of rows that ties of integers may leave out, beyond those by the precision itself."""
_MIN_LARGEST = 1e-4
"""The least limit of an element's difference beyond rounding, over the spread. Measured in FP32: 6e-5."""
_NOISE_FACTOR = 10.0
"""The largest difference that noise explains, as a multiple of a repeated request's typical noise. Of 10,000
normally distributed differences the largest is 6 times the median of each row's largest."""
MIN_NOISE = 1e-5
"""The noise that is always allowed, as a share of the spread. Right models on a CPU repeat every bit."""
_MAX_CONVERSATION_NOISE = 2e-3
"""The most that noise allows answers of a conversation, as a share of the spread: twice FP16's rounding."""
_MIN_NUMBERS = 32
"""The fewest different numbers with a fraction whose last bits tell the precision that computed them."""


class NumberLimits(NamedTuple):
    """How far the numbers of a floating-point output may differ."""

    max_element: float
    """The largest difference of an element, as a share of its scale (see `compare_rows`)."""
    max_mean: float
    """The largest mean difference over all rows, as a share of the output's mean magnitude. That of a single
    row may be larger (see `compare_rows`)."""

    def or_wider(self, other: "NumberLimits") -> "NumberLimits":
        return NumberLimits(*map(max, self, other))


@dataclass(frozen=True)
class AnswerLimits:
    """How far answers to the same samples may differ, each and all together, in a stage as under load."""

    widest: NumberLimits
    """The limits of each floating-point output that is not in `by_output`; none in it are wider."""
    agreement_by_output: Mapping[str, float] = field(default_factory=dict)
    """The least share of equal elements over all rows of each other output, from 0 to 1; 1 if it is not in
    here. Each has its own: a share of ten classes would be far too much of a mask."""
    rounding: float = PRECISIONS["fp32"].rounding
    """How far rounding may move an element, as a share of the output's largest magnitude."""
    mean_rounding: float = 0.0
    """What FP32's rounding adds to the limit of the mean over all rows, as a share of the output's largest
    magnitude; 0 if the cost is known."""
    min_compared_share: float = 0.5
    """The least share of rows whose floating-point outputs are compared: a tie leaves a row out."""
    by_output: Mapping[str, NumberLimits] = field(default_factory=dict)
    """The limits of floating-point outputs that need less than `widest`, by name."""
    source: str = ""
    """Where the limits come from, in words. Of two limits, `or_wider` keeps the first's."""

    def of_output(self, output: str) -> NumberLimits:
        return self.by_output.get(output, self.widest)

    def agreement_of(self, output: str) -> float:
        return self.agreement_by_output.get(output, 1.0)

    def or_wider(self, other: "AnswerLimits") -> "AnswerLimits":
        """The limits that allow whatever either allows."""
        names = self.by_output.keys() | other.by_output.keys()
        discrete = self.agreement_by_output.keys() | other.agreement_by_output.keys()
        return replace(
            self,
            widest=self.widest.or_wider(other.widest),
            rounding=max(self.rounding, other.rounding),
            mean_rounding=max(self.mean_rounding, other.mean_rounding),
            min_compared_share=min(self.min_compared_share, other.min_compared_share),
            by_output={name: self.of_output(name).or_wider(other.of_output(name)) for name in names},
            agreement_by_output={n: min(self.agreement_of(n), other.agreement_of(n)) for n in discrete},
        )

    def at_least(self, max_element: float) -> "AnswerLimits":
        """These limits, with a `max_element` of at least this one for every output."""
        return self.or_wider(replace(self, widest=NumberLimits(max_element, 0.0), by_output={}))


@dataclass(frozen=True)
class CaseLimits:
    """How far a served answer of a case may be from another one to the same sample."""

    kernels: AnswerLimits
    """The limits if the same artifact gave both, perhaps by other kernels."""
    conversion: AnswerLimits
    """The limits if the other answer is of another of the model's formats or precisions."""
    inferred_on: Device | None = None
    """The device that answered, if the precision must be read from the answers (`inferred`); None if it is
    known or a user gave the tolerance."""
    min_noise: float = MIN_NOISE
    """The noise that is always allowed, as a share of the spread; more than the default if a user says so."""

    def inferred(self, answers: Iterable[Arrays]) -> "CaseLimits":
        """These limits; if the precision is not known, widened to those of the precision that the `answers`
        show: FP16 or BF16 if it holds every number, else FP32, or on the device cuda TF32."""
        if self.inferred_on is None:
            return self
        rule = PRECISIONS[inferred_precision(answers) or ("tf32" if self.inferred_on == "cuda" else "fp32")]
        numbers = NumberLimits(rule.unknown_largest, rule.unknown_mean)
        shown = AnswerLimits(numbers, rounding=rule.rounding)
        kernels, conversion = self.kernels.or_wider(shown), self.conversion.or_wider(shown)
        return replace(self, kernels=kernels, conversion=conversion, inferred_on=None)

    def across_kernels(self, noise: float = 0.0) -> AnswerLimits:
        """The limits where other kernels may compute an answer, as in a batch or under load: no narrower than
        where nothing may change one."""
        return self.kernels.at_least(self.within_noise(noise).widest.max_element)

    def within_noise(self, noise: float, *, has_ties: bool = False) -> AnswerLimits:
        """The limits where nothing may change an answer. More noise than other kernels may cause is a fault,
        and allows nothing more. Integers are equal, unless those of a repeated request tie (`has_ties`)."""
        largest = max(self.min_noise, min(_NOISE_FACTOR * noise, self.kernels.widest.max_element))
        agreement = self.kernels.agreement_by_output if has_ties else {}
        return AnswerLimits(NumberLimits(largest, np.inf), agreement)

    def recorded(self, earlier: "CaseLimits", *, by_same_case: bool) -> AnswerLimits:
        """The limits of answers beside recorded ones: the wider of this case's and of the one's that gave
        those. The same case may have other kernels since; any other is another conversion."""
        here, there = (each.kernels if by_same_case else each.conversion for each in (self, earlier))
        return here.or_wider(there).at_least(self.min_noise)


@dataclass(frozen=True)
class CaseArithmetic:
    """How a case computes, from which the limits of its answers follow."""

    case: Case
    precision: str
    """The precision that it computes in (`arithmetic_precision`); empty if nothing tells it."""
    cost: PrecisionCost | None = None
    """What this precision costs the model; None if the suite has no network of it to measure that with."""

    @property
    def tolerance(self) -> Tolerance:
        """The model's own tolerance in this precision, else the format's."""
        case = self.case
        tolerance = limit_in(self.precision, {**case.format.tolerances, **case.model.tolerances})
        assert tolerance is not None, f"{case} has no tolerance in {self.precision}"
        return tolerance

    def case_limits(self, element_counts: Mapping[str, int]) -> CaseLimits:
        """The limits of answers whose outputs have `element_counts` elements in the evaluation set."""
        tolerance = self.tolerance
        limits = functools.partial(self.output_limits, element_counts, None)
        inferred_on = None if self.precision or tolerance.is_given else self.case.answers_on
        min_noise = max(MIN_NOISE, tolerance.max_relative_error if tolerance.is_given else 0.0)
        return CaseLimits(limits(kernels_only=True), limits(kernels_only=False), inferred_on, min_noise)

    def output_limits(
        self, element_counts: Mapping[str, int], rows: int | None, *, kernels_only: bool
    ) -> AnswerLimits:
        """How far outputs may be from other outputs for the same rows: from those of the same artifact if
        `kernels_only`, else from the framework's. `element_counts` says how many elements each output has in
        all rows, as {"mask": 500}: of more, chance changes a smaller share. `rows` are compared together;
        None says that there may be few, of which ties leave out more."""
        types = {tensor.name: tensor.dtype for tensor in self.case.model.outputs}
        floating = [name for name in types if name in element_counts and types[name].startswith(("FP", "BF"))]
        texts = [name for name in types if types[name] == "BYTES"]  # always equal
        integers = {name: count for name, count in element_counts.items() if name not in (*floating, *texts)}
        if (cost := self.cost) is None:
            return self._limits_by_tolerance(floating, integers, rows, kernels_only)
        rule, mean, share = PRECISIONS[self.precision], cost.mean, cost.comparable_share
        factor = rule.kernel_factor if kernels_only else rule.conversion_factor
        largest = {name: max(_LARGEST_FACTOR * cost.largest[name], _MIN_LARGEST) for name in floating}
        by_output = {name: NumberLimits(largest[name], factor * mean[name]) for name in floating}
        least = NumberLimits(_MIN_LARGEST, 0.0)
        its_cost = f"what {self.precision.upper()} itself costs this model"
        return AnswerLimits(
            widest=functools.reduce(NumberLimits.or_wider, by_output.values(), least),
            agreement_by_output={n: min_agreement_for(1 - mean[n], count) for n, count in integers.items()},
            rounding=max(rule.rounding, _LARGEST_FACTOR * min(rule.rounding, cost.rounding)),
            min_compared_share=min_agreement_for(share, rows) if rows else max(0.0, share - _TIE_MARGIN),
            by_output=by_output,
            source=f"{factor:g} times {its_cost} on the mean, {_LARGEST_FACTOR:g} times at most",
        )

    def _limits_by_tolerance(
        self, floating: list[str], integers: Mapping[str, int], rows: int | None, kernels_only: bool
    ) -> AnswerLimits:
        """The tolerance; for other kernels constants of a known precision, unless a user gave the former."""
        tolerance, rule = self.tolerance, PRECISIONS.get(self.precision)
        largest, mean, source = tolerance.max_relative_error, tolerance.max_mean_error, tolerance.source
        if kernels_only and rule is not None and not tolerance.is_given:
            largest, mean = rule.unknown_largest, rule.unknown_mean
            source = f"the same file by other kernels in {self.precision.upper()}"
        numbers = NumberLimits(largest, largest if mean is None else mean)
        share = tolerance.min_agreement
        return AnswerLimits(
            widest=numbers if floating else NumberLimits(_MIN_LARGEST, 0.0),
            agreement_by_output=dict.fromkeys(integers, share),
            rounding=max(rounding_of(self.case.model, self.precision), DEEP_ROUNDING),
            mean_rounding=PRECISIONS["fp32"].rounding,
            min_compared_share=min_agreement_for(share, rows) if rows else AnswerLimits.min_compared_share,
            source=source,
        )


def limits_between_servers(
    repeated: Sequence[AnswerLimits], noises: Sequence[float], precisions: Sequence[str]
) -> AnswerLimits:
    """The limits of the answers of two servers, by each one's limits of `repeated` requests, noise, and
    precision that its answers show: the noise of either, mostly none. If only one is noisier than other
    kernels explain, that is a difference in itself; if both are, the model is noisy. If both show FP16 or
    BF16, last bits may differ, as they do when sums are added up in another order."""
    limits = functools.reduce(AnswerLimits.or_wider, repeated).at_least(_NOISE_FACTOR * min(noises))
    shown = precisions[0] if len(set(precisions)) == 1 else ""
    return replace(limits, rounding=max(limits.rounding, PRECISIONS[shown or "fp32"].rounding))


def conversation_limits(tolerances: Iterable[Tolerance] = (), noise: float = 0.0) -> AnswerLimits:
    """The limits of answers to a conversation that is repeated: within the noise, or as a user tolerates."""
    by_user = [tolerance.max_relative_error for tolerance in tolerances if tolerance.is_given]
    at_most = AnswerLimits(NumberLimits(_MAX_CONVERSATION_NOISE, np.inf))
    return CaseLimits(at_most, at_most, min_noise=max([MIN_NOISE, *by_user])).within_noise(noise)


def min_agreement_for(agreement: float, decisions: int) -> float:
    """The least share of `decisions` that must be equal, if the precision itself leaves the share `agreement`
    equal. Of 600 decisions and an agreement of 0.96, the precision changes 24. Times _DECISIONS_FACTOR, 36
    may differ, with two standard deviations of such a count (Poisson: its square root), 12, and three in
    case the precision changes none: 51 in all, so that 0.915 must be equal."""
    expected = _DECISIONS_FACTOR * (1 - agreement) * decisions
    return max(0.0, 1 - (expected + 2 * expected**0.5 + 3) / decisions)


def inferred_precision(answers: Iterable[Arrays]) -> str:
    """bf16 or fp16 if it represents every number; empty if neither does, or too few have a fraction."""
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
