"""How far two answers to one sample may differ. All such limits are set here, one way for each situation:

    Two answers                               Their limits                  A number may be off by
    of the framework and the converted model  CaseLimits.conversion         `conversion_factor` times the cost
    of the converted model and the server     CaseLimits.kernels            `kernel_factor` times the cost
    to a sample alone, and in batch or load   CaseLimits.across_kernels()   as `kernels`, at least the noise
    to a request, and to the same again       CaseLimits.within_noise()     ten times noise, up to `kernels`
    to a request, and as recorded             CaseLimits.beside_recorded()  the wider limits of both cases
    of two servers                            limits_between_servers()      ten times noise, of either server
    to a conversation, and to the same again  conversation_limits()         ten times noise, up to 0.002

The cost is measured: how far a precision alone moves the outputs of the framework's own network. If the
cost is unknown, `conversion` is the tolerance, which a person chose for a format or a model. `kernels` is
then the tolerance if a user gave it, else constants of the precision; `inferred` finds an unknown precision.
The noise is how far answers to a repeated request differ. `_min_agreement` limits integers.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from tritonproof.accuracy.outputs import inferred_precision
from tritonproof.accuracy.precision_cost import PrecisionCost
from tritonproof.accuracy.precisions import DEEP_ROUNDING, PRECISIONS, limit_in
from tritonproof.spec import Arrays, Case, Device, Tolerance

_LARGEST_FACTOR = 8.0
"""How many times an output's largest error may be the largest that the precision costs. As one of thousands
of values it varies: 0.4 to 3.8 times (AOTInductor, BERT in FP16; on a CPU without AVX-512 2.1 times)."""
_DECISIONS_FACTOR = 1.5
"""How many times as many decisions may differ as the precision itself changes, chance aside. nnU-Net's micro
size outputs only decisions: right builds change 0.8 (FP16) to 1.2 times (BF16) as many, half of them the same
voxels; a fault that alone changes twice as many changes, with the precision, 2.1 to 3.4 times as many."""
_TIE_MARGIN = 0.1
"""The share of rows that ties of integers may leave out, besides those that the precision leaves out."""
_MIN_LARGEST = 1e-4
"""The least limit of an element's difference beyond rounding, over the spread. Measured in FP32: 6e-5."""
_NOISE_FACTOR = 10.0
"""The largest difference that noise explains, as a multiple of a repeated request's typical noise. Of 10,000
normally distributed differences the largest is 6 times the median of each row's largest."""
_MIN_NOISE = 1e-5
"""The noise that is always allowed, as a share of the spread. Right models on a CPU repeat every bit."""
_MAX_CONVERSATION_NOISE = 2e-3
"""The most that noise lets a conversation's answers differ, as a share of the spread: twice FP16's own."""


class NumberLimits(NamedTuple):
    """How far the numbers of a floating-point output may differ."""

    max_element: float
    """The largest difference of an element, as a share of its scale (see `compare_rows`)."""
    max_mean: float
    """The largest mean difference over all rows, as a share of the output's mean magnitude. The mean
    difference of a single row may be larger (see `compare_rows`)."""


@dataclass(frozen=True)
class AnswerLimits:
    """How far answers to the same samples may differ, singly and all together; in a stage as under load."""

    widest: NumberLimits
    """The limits of each floating-point output that is not in `by_output`, where no limits are wider."""
    agreement_by_output: Mapping[str, float] = field(default_factory=dict)
    """The least share of equal elements over all rows of an output without floating-point numbers, from 0 to
    1; 1 if it is not named. Each has its own: a share that suits ten classes is far too much of a mask."""
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
    """Where the limits come from, in words. The wider of two `AnswerLimits` has the source of the first."""

    def of_output(self, output: str) -> NumberLimits:
        return self.by_output.get(output, self.widest)

    def agreement_of(self, output: str) -> float:
        return self.agreement_by_output.get(output, 1.0)


@dataclass(frozen=True)
class CaseLimits:
    """How far an answer of a case may be from another one to the same sample."""

    kernels: AnswerLimits
    """The limits if the same artifact gave both answers, perhaps by other kernels."""
    conversion: AnswerLimits
    """The limits if the other answer is of the framework, or another of the model's formats or precisions."""
    inferred_on: Device | None = None
    """The device that answered, if the precision must be read from the answers (`inferred`); None if the
    precision is known or a user gave the tolerance."""
    min_noise: float = _MIN_NOISE
    """The noise that is always allowed, as a share of the spread; more than the default if a user says so."""

    def inferred(self, answers: Iterable[Arrays]) -> "CaseLimits":
        """These limits; if the precision is unknown, widened to those of the precision that the `answers`
        show: FP16 or BF16 if that can hold every number in them, else FP32, or TF32 if the device is cuda."""
        if self.inferred_on is None:
            return self
        rule = PRECISIONS[inferred_precision(answers) or ("tf32" if self.inferred_on == "cuda" else "fp32")]
        shown = AnswerLimits(NumberLimits(rule.unknown_largest, rule.unknown_mean), rounding=rule.rounding)
        kernels, conversion = _wider(self.kernels, shown), _wider(self.conversion, shown)
        return replace(self, kernels=kernels, conversion=conversion, inferred_on=None)

    def across_kernels(self, noise: float = 0.0) -> AnswerLimits:
        """The limits where other kernels may compute an answer, as in a batch or under load: no narrower than
        `within_noise`."""
        return _at_least(self.kernels, self.within_noise(noise).widest.max_element)

    def within_noise(self, noise: float, *, has_ties: bool = False) -> AnswerLimits:
        """The limits where only noise may change an answer. Noise beyond what other kernels may cause is a
        fault, and widens nothing. Integers must be equal, unless a repeated request's differ (`has_ties`)."""
        largest = max(self.min_noise, min(_NOISE_FACTOR * noise, self.kernels.widest.max_element))
        agreement = self.kernels.agreement_by_output if has_ties else {}
        return AnswerLimits(NumberLimits(largest, np.inf), agreement)

    def beside_recorded(self, recorded: "CaseLimits", *, by_same_case: bool) -> AnswerLimits:
        """The limits of answers beside recorded ones: the wider of this case's and of the `recorded` case's
        limits. The same case may have other kernels since then; any other case is another conversion."""
        here, there = (each.kernels if by_same_case else each.conversion for each in (self, recorded))
        return _at_least(_wider(here, there), self.min_noise)


def limits_between_servers(
    repeated: Sequence[AnswerLimits], noises: Sequence[float], precisions: Sequence[str]
) -> AnswerLimits:
    """The limits of the answers of two servers: the wider of their limits for `repeated` requests, and at
    least ten times the smaller of their `noises`, mostly 0. If only one server is noisier than other kernels
    explain, that is a difference in itself; if both are, the model is noisy. If the answers of both show FP16
    or BF16 (`precisions`), last bits may differ, as they do when sums are added up in another order."""
    limits = _at_least(functools.reduce(_wider, repeated), _NOISE_FACTOR * min(noises))
    shown = precisions[0] if len(set(precisions)) == 1 else ""
    return replace(limits, rounding=max(limits.rounding, PRECISIONS[shown or "fp32"].rounding))


def conversation_limits(tolerances: Iterable[Tolerance] = (), noise: float = 0.0) -> AnswerLimits:
    """The limits of answers to a repeated conversation: its noise, or a user's tolerance if that is wider."""
    by_user = [tolerance.max_relative_error for tolerance in tolerances if tolerance.is_given]
    within_noise = min(_NOISE_FACTOR * noise, _MAX_CONVERSATION_NOISE)
    return AnswerLimits(NumberLimits(max(_MIN_NOISE, within_noise, *by_user), np.inf))


@dataclass(frozen=True)
class CaseArithmetic:
    """How a case computes, from which the limits of its answers follow."""

    case: Case
    precision: str
    """The precision that the case computes in (`arithmetic_precision`); empty if nothing tells it."""
    cost: PrecisionCost | None = None
    """What this precision costs the model; None if the suite has no network of the model to measure."""

    @property
    def tolerance(self) -> Tolerance:
        """The model's own tolerance in this precision, else the format's."""
        tolerance = limit_in(self.precision, {**self.case.format.tolerances, **self.case.model.tolerances})
        assert tolerance is not None, f"{self.case} has no tolerance in {self.precision}"
        return tolerance

    def decision_limit(self, decisions: int) -> float:
        """The least share of `decisions` in which the converted model must agree with the framework."""
        least, cost = self.tolerance.min_agreement, self.cost
        return least if cost is None else max(least, _min_agreement(cost.agreement, decisions))

    def case_limits(self, element_counts: Mapping[str, int], rows: int | None = None) -> CaseLimits:
        """The limits of answers whose outputs have `element_counts` elements in the evaluation set, such as
        {"mask": 500}: chance changes a smaller share of more elements. `rows` is how many rows are compared
        together; with None these may be few, so that ties may leave out a larger share of them."""
        tolerance = self.tolerance
        limits = functools.partial(self._limits, element_counts, rows)
        inferred_on = None if self.precision or tolerance.is_given else self.case.answers_on
        min_noise = max(_MIN_NOISE, tolerance.max_relative_error if tolerance.is_given else 0.0)
        return CaseLimits(limits(kernels_only=True), limits(kernels_only=False), inferred_on, min_noise)

    def _limits(self, counts: Mapping[str, int], rows: int | None, kernels_only: bool) -> AnswerLimits:
        """The limits of other kernels (`kernels_only`) or of a conversion: by the cost, else by tolerance."""
        types = {tensor.name: tensor.dtype for tensor in self.case.model.outputs}
        floating = [name for name in types if name in counts and types[name].startswith(("FP", "BF"))]
        texts = [name for name in types if types[name] == "BYTES"]  # texts must be equal
        integers = {name: count for name, count in counts.items() if name not in (*floating, *texts)}
        if (cost := self.cost) is None:
            return self._limits_by_tolerance(floating, integers, rows, kernels_only)
        rule, mean, share = PRECISIONS[self.precision], cost.mean, cost.comparable_share
        factor = rule.kernel_factor if kernels_only else rule.conversion_factor
        largest = {name: max(_LARGEST_FACTOR * cost.largest[name], _MIN_LARGEST) for name in floating}
        by_output = {name: NumberLimits(largest[name], factor * mean[name]) for name in floating}
        its_cost = f"what {self.precision.upper()} itself costs this model"
        return AnswerLimits(
            widest=functools.reduce(_wider_numbers, by_output.values(), NumberLimits(_MIN_LARGEST, 0.0)),
            agreement_by_output={n: _min_agreement(1 - mean[n], count) for n, count in integers.items()},
            rounding=max(rule.rounding, _LARGEST_FACTOR * min(rule.rounding, cost.rounding)),
            min_compared_share=_min_agreement(share, rows) if rows else max(0.0, share - _TIE_MARGIN),
            by_output=by_output,
            source=f"{factor:g} times {its_cost} on the mean, {_LARGEST_FACTOR:g} times at most",
        )

    def _limits_by_tolerance(
        self, floating: list[str], integers: Mapping[str, int], rows: int | None, kernels_only: bool
    ) -> AnswerLimits:
        """The limits by tolerance; of other kernels by a known precision's constants, if no user gave it."""
        tolerance, rule = self.tolerance, PRECISIONS.get(self.precision)
        largest, mean, source = tolerance.max_relative_error, tolerance.max_mean_error, tolerance.source
        if kernels_only and rule is not None and not tolerance.is_given:
            largest, mean = rule.unknown_largest, rule.unknown_mean
            source = f"the same file by other kernels in {self.precision.upper()}"
        numbers = NumberLimits(largest, largest if mean is None else mean)
        share = tolerance.min_agreement
        types = {tensor.dtype.lower() for tensor in self.case.model.outputs} & {"fp16", "bf16"}
        names = {self.precision} if self.precision else types  # half-precision types round the outputs
        return AnswerLimits(
            widest=numbers if floating else NumberLimits(_MIN_LARGEST, 0.0),
            agreement_by_output=dict.fromkeys(integers, share),
            rounding=max([DEEP_ROUNDING, *(PRECISIONS[name].rounding for name in names)]),
            mean_rounding=PRECISIONS["fp32"].rounding,
            min_compared_share=_min_agreement(share, rows) if rows else AnswerLimits.min_compared_share,
            source=source,
        )


def _min_agreement(agreement: float, decisions: int) -> float:
    """The least share of `decisions` that must be equal, if the precision itself leaves the share `agreement`
    equal. Of 600 decisions and an agreement of 0.96, the precision changes 24. Times _DECISIONS_FACTOR, 36
    may differ, with two standard deviations of such a count (Poisson: its square root), 12, and three in
    case the precision changes none: 51 in all, so that 0.915 must be equal."""
    expected = _DECISIONS_FACTOR * (1 - agreement) * decisions
    return max(0.0, 1 - (expected + 2 * expected**0.5 + 3) / decisions)


def _wider(first: AnswerLimits, second: AnswerLimits) -> AnswerLimits:
    """The limits that allow whatever either allows."""
    names = first.by_output.keys() | second.by_output.keys()
    discrete = first.agreement_by_output.keys() | second.agreement_by_output.keys()
    return replace(
        first,
        widest=_wider_numbers(first.widest, second.widest),
        rounding=max(first.rounding, second.rounding),
        mean_rounding=max(first.mean_rounding, second.mean_rounding),
        min_compared_share=min(first.min_compared_share, second.min_compared_share),
        by_output={name: _wider_numbers(first.of_output(name), second.of_output(name)) for name in names},
        agreement_by_output={n: min(first.agreement_of(n), second.agreement_of(n)) for n in discrete},
    )


def _wider_numbers(first: NumberLimits, second: NumberLimits) -> NumberLimits:
    return NumberLimits(*map(max, first, second))


def _at_least(limits: AnswerLimits, max_element: float) -> AnswerLimits:
    """The `limits`, widened so that every output has at least this `max_element`."""
    return _wider(limits, replace(limits, widest=NumberLimits(max_element, 0.0), by_output={}))
