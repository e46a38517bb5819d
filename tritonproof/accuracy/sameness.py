"""One rule of sameness: how far two answers to one sample may be apart, from the conversion to the load.

- Floating-point numbers: the scale of a difference is the spread of its column over all samples, which tells
  samples apart, and not the largest magnitude: outputs of 1000 +- 10 are held to the 10. Rounding at the
  output's own magnitude is always allowed, so that columns that hardly vary raise no alarm.
- Integers are equal, but for ties. If an output has the scores of classes, these scores show each tie.
  Elsewhere as many integers of a row may differ as the precision allows; the numbers of that row are then
  left out, as integers move them: a duration that is rounded up moves all that follows. Over all samples, the
  share of integers that differ and the share of rows that are left out have limits.
- Row identity: an answer is nearer to its own sample's expected answer than to any other's, and one or two
  integers, such as a class, are no tie by themselves. This holds for the samples of the gates and of the
  load, not for the conversion and the evaluation set: there a right INT8 model changes classes, its numbers
  are off by up to 3.8 times the measured cost, and two samples count as told apart only from twice that on.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tritonproof.accuracy.expected import ExpectedGroup, nearer_to_another, scores_of
from tritonproof.accuracy.limits import AnswerLimits
from tritonproof.accuracy.outputs import beyond_rounding, differences
from tritonproof.client.requests import Answer

TIED_ELEMENTS = 2
"""Elements of an integer output that may differ by near ties even if the allowed share is smaller."""
_ROW_MEAN_FACTOR = 5
"""How many times the limit on the mean error over all rows the mean error of one row may be. A step of INT8
in each element is about 0.03 of the mean magnitude, and answers to two samples of one class are 0.3 apart."""
_ROW_SHARE_FACTOR = 3
"""One row may have this many times the share of unequal integers allowed over all rows, plus three standard
deviations. In BF16, 73 voxels differ in 24 masks of nnU-Net's micro size, 7 in one mask, where 28 may."""
_DISTINCT_SHARE = 0.25
"""How far apart the expected answers of two samples must be before one can be mistaken for the other, as a
share of what kernels may change. If two are nearer, rounding decides which of them is nearest."""


@dataclass(frozen=True)
class ComparedOutput:
    """An output of an answer beside the expected one."""

    wrong_rows: np.ndarray
    """Which rows are wrong, [rows]."""
    distances: np.ndarray
    """The largest difference of a number in each row, as a share of its scale, [rows]: 0 if the row is left
    out, infinity if no numbers can be compared. For other types, the share of a row that differs."""
    elements: np.ndarray | None = None
    """The difference of each number as a share of its scale, or for other types whether each element differs,
    [rows, elements]; None if all elements are equal, or if no numbers can be compared."""
    means: np.ndarray | None = None
    """The mean difference of a row's numbers, [rows]; None for other types, and where `elements` is None."""


@dataclass(frozen=True)
class ComparedAnswer:
    """What the rule finds in each row of one answer."""

    answer: Answer
    left_out: np.ndarray
    """Which rows' floating-point outputs are not compared, as their integers differ by ties, [rows]."""
    outputs: Mapping[str, ComparedOutput]
    """The comparison of each output, by its name; outputs of integers, truth values and texts come first."""


def compare_rows(
    expected: ExpectedGroup,
    answer: Answer,
    limits: AnswerLimits,
    *,
    only_finite: bool = False,
    checks_identity: bool = True,
) -> ComparedAnswer:
    """Compare every output of every row of an answer with the expected one, by this module's rule except its
    limits over all rows. With `only_finite`, numbers must be finite even where the expected ones are not.
    Without `checks_identity`, a row may be nearer to another sample's expected answer."""
    left_out = np.zeros(len(answer.sample_indices), bool)
    outputs: dict[str, ComparedOutput] = {}
    for name in expected.discrete_outputs:
        outputs[name], left_out = _compare_discrete(expected, answer, name, limits, left_out, checks_identity)
    for name in expected.spreads:
        outputs[name] = _compare_numbers(expected, answer, name, limits, left_out, only_finite)
    numbers = [outputs[name] for name in expected.spreads]
    differing = [output for output in numbers if output.elements is not None]
    has_all = not any(output.elements is None and output.wrong_rows.any() for output in numbers)
    if checks_identity and differing and has_all:
        wrong_rows = differing[0].wrong_rows
        rows = np.flatnonzero(np.any([output.distances > 0 for output in numbers], axis=0))
        for row, own, other in nearer_to_another(expected, answer, rows):
            wrong_rows[row] |= not left_out[row] and _are_distinct(expected, own, other, limits)
    return ComparedAnswer(answer, left_out, outputs)


def _compare_numbers(
    expected: ExpectedGroup,
    answer: Answer,
    name: str,
    limits: AnswerLimits,
    left_out: np.ndarray,
    only_finite: bool,
) -> ComparedOutput:
    """Compare one floating-point output; in rows that are `left_out`, check only that it is finite."""
    count, spread = len(left_out), expected.spreads[name]
    expected_rows, actual = expected.outputs[name][answer.sample_indices], answer.outputs.get(name)
    if actual is None or actual.shape != expected_rows.shape or actual.dtype.kind != "f":
        return ComparedOutput(np.ones(count, bool), np.full(count, np.inf))
    if np.array_equal(actual, expected_rows) and (not only_finite or np.isfinite(actual).all()):
        return ComparedOutput(np.zeros(count, bool), np.zeros(count))
    errors = differences(actual, expected_rows)
    bounds = limits.of_output(name)
    rounding = limits.rounding * spread.max_magnitude
    # A difference of `max_element` times this scale is `max_element` times the spread, plus rounding.
    scale = np.asarray(spread.column_scales + rounding / bounds.max_element)
    shares = np.divide(errors, scale, out=errors.copy(), where=scale > 0).reshape(count, -1)
    means = errors.reshape(count, -1).mean(axis=1)
    is_finite = np.isfinite(shares)
    if only_finite:
        is_finite &= np.isfinite(actual).reshape(count, -1)
    largest = shares.max(axis=1, initial=0.0)
    is_far = largest > bounds.max_element
    is_far |= means > _ROW_MEAN_FACTOR * bounds.max_mean * spread.mean_magnitude + rounding
    wrong_rows = ~is_finite.all(axis=1) | (is_far & ~left_out)
    largest[left_out & ~wrong_rows] = 0.0
    return ComparedOutput(wrong_rows, largest, shares, means)


def _compare_discrete(
    expected: ExpectedGroup,
    answer: Answer,
    name: str,
    limits: AnswerLimits,
    left_out: np.ndarray,
    checks_identity: bool,
) -> tuple[ComparedOutput, np.ndarray]:
    """Compare an output that is not floating-point. Returns also `left_out`, now with the rows of ties."""
    count = len(left_out)
    expected_rows, actual = expected.outputs[name][answer.sample_indices], answer.outputs.get(name)
    is_text = expected_rows.dtype == object
    if actual is None or actual.shape != expected_rows.shape or (actual.dtype == object) != is_text:
        return ComparedOutput(np.ones(count, bool), np.ones(count), np.ones((count, 1), bool)), left_out
    unequal = np.asarray(actual != expected_rows, bool).reshape(count, -1)
    differing = unequal.sum(axis=1)
    if not differing.any():
        return ComparedOutput(np.zeros(count, bool), np.zeros(count)), left_out
    is_tied = np.zeros(count, bool)
    if not is_text and name in expected.score_output_of:
        is_tied = left_out | _is_tie_of_scores(expected, answer, name, limits)
    elif not is_text and checks_identity and unequal.shape[1] <= TIED_ELEMENTS:
        is_tied = left_out  # as a duration that is rounded up moves the sum of all
    elif not is_text:
        is_tied = differing <= allowed_ties_per_row(unequal.shape[1], limits.agreement_of(name))
        left_out = left_out | (is_tied & (differing > 0))
    return ComparedOutput((differing > 0) & ~is_tied, unequal.mean(axis=1), unequal), left_out


def _is_tie_of_scores(expected: ExpectedGroup, answer: Answer, name: str, limits: AnswerLimits) -> np.ndarray:
    """For an output of classes, whether their scores show that each row differs only by ties, [rows]: the
    scores of the expected and the actual class are no further apart than twice the tolerance of a score."""
    scores_name, axis = expected.score_output_of[name]
    spread, scores = expected.spreads[scores_name], expected.outputs[scores_name][answer.sample_indices]
    actual, expected_rows = answer.outputs[name], expected.outputs[name][answer.sample_indices]
    apart = np.abs(scores_of(actual, scores, axis) - scores_of(expected_rows, scores, axis))
    max_share, rounding = limits.of_output(scores_name).max_element, limits.rounding * spread.max_magnitude
    tolerance = max_share * float(np.max(spread.column_scales)) + rounding
    is_tie = (actual == expected_rows).reshape(len(scores), -1)
    is_tie |= (apart <= 2 * tolerance).reshape(len(scores), -1)
    return np.asarray(is_tie.all(axis=1))


def allowed_ties_per_row(size: int, agreement: float) -> float:
    """How many of a row's `size` integers may be ties, where no scores show them, for this `agreement`."""
    typical = _ROW_SHARE_FACTOR * (1 - agreement) * size
    return max(TIED_ELEMENTS, typical + 3 * typical**0.5) if agreement < 1 else 0.0


def _are_distinct(expected: ExpectedGroup, sample: int, other: int, limits: AnswerLimits) -> bool:
    """Whether an element of two samples' expected answers differs by over _DISTINCT_SHARE of its limit."""
    for name, spread in expected.spreads.items():
        errors = differences(expected.outputs[name][sample], expected.outputs[name][other])
        beyond = beyond_rounding(errors, spread, limits.rounding)
        if beyond.max(initial=0.0) > _DISTINCT_SHARE * limits.of_output(name).max_element:
            return True
    return False
