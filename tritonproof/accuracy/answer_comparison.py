"""One rule of sameness: how far two answers to one sample may be apart, from the conversion to the load.

- Floating-point numbers: the scale of a difference is the spread of its column over all samples, which tells
  samples apart, and not the largest magnitude: outputs of 1000 +- 10 are held to the 10. Rounding at the
  output's own magnitude is always allowed, so that columns that hardly vary raise no alarm.
- Integers are equal, but for ties. Scores beside classes show each tie. Elsewhere as many elements of a row
  may differ as the precision allows; its numbers are then not compared, as an integer moves them: a duration
  that is rounded up moves all that follows. Limits hold for the share of elements that differ over all
  samples, and for the share of rows that are left out.
- Row identity: an answer is nearer to its own sample's expected answer than to any other's, and one or two
  integers, such as a class, are no tie by themselves. This holds for the samples of the gates and of the
  load, not for the conversion and the evaluation set: there a right INT8 changes classes, and is off by up to
  3.8 times the measured cost, and two samples count as told apart only from twice that on.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from msgspec import structs

from tritonproof.accuracy.expected import ExpectedOutputs, scores_of, standardize
from tritonproof.accuracy.limits import AnswerLimits
from tritonproof.accuracy.outputs import Spread, beyond_rounding, differences
from tritonproof.accuracy.precisions import PRECISIONS
from tritonproof.client.requests import Answer
from tritonproof.record.correctness import AnswerComparison, GateResult, WrongAnswer
from tritonproof.spec import Arrays

_TIED_ELEMENTS = 2
"""Elements of an integer output that may differ by near ties even if the allowed share is smaller."""
_ROW_MEAN_FACTOR = 5
"""How many times the limit of all rows' mean error one row's may be. One step of INT8 in every element is
about 0.03 of the mean magnitude, and answers to two samples of one class are 0.3 apart."""
_ROW_SHARE_FACTOR = 3
"""How many times the allowed share of unequal integers over all rows one row may have, plus three standard
deviations. In BF16, 73 voxels differ in 24 masks of nnU-Net's micro size, 7 in one mask, where 28 may."""


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """A whole wrong answer, by which it is described and reproduced."""

    batch: Sequence[str]
    """The samples of the request, by their ids."""
    row: int
    """The index in the batch of the sample with the wrong answer."""
    expected: Arrays
    """The expected outputs of this sample, without the batch axis; `actual` has the same form."""
    actual: Arrays


_Result = TypeVar("_Result", AnswerComparison, GateResult)


@dataclass(frozen=True)
class AnswerFinding(Generic[_Result]):
    """What comparing answers, or a whole gate, gives: for the record, and for the reproducer."""

    result: _Result
    mismatch: Mismatch | None = None
    """The first wrong answer as a whole; None if none is wrong, or not a single one is at fault."""


@dataclass(frozen=True)
class ExpectedAnswers:
    """The expected answers to samples, and how near actual answers must be."""

    by_signature: Mapping[object, ExpectedOutputs]
    """For each signature, the expected outputs of the answers that have it."""
    limits: AnswerLimits
    expected_from: str = "in process"
    """Where the expected answers are from, as in `AnswerComparison`."""

    def compare(
        self, answers: Sequence[Answer], *, only_finite: bool = False
    ) -> AnswerFinding[AnswerComparison]:
        """Compare each row of the answers with the expected answer to its sample; see `compare_answers`."""
        every = self.by_signature.values()
        parts = [compare_answers(each, answers, self.limits, only_finite=only_finite) for each in every]
        finding = merge_findings(parts)
        tells_apart = len(parts) > 1 or finding.result.tells_apart
        result = structs.replace(finding.result, tells_apart=tells_apart, expected_from=self.expected_from)
        return replace(finding, result=result)


@dataclass(frozen=True)
class RowDifferences:
    """What the rule finds in each row of one answer. Equal outputs have no entries, or zeros."""

    answer: Answer
    left_out: np.ndarray
    """Rows whose floating-point outputs are not compared, because integers differ by ties, [rows]."""
    shares: Arrays
    """The differences of each floating-point output, as shares of their scales, [rows, elements]."""
    means: Arrays
    """The mean difference in each row of the same outputs, [rows]."""
    unequal: Arrays
    """Which elements differ in each other output, [rows, elements]."""
    wrong_rows: Arrays
    """Which rows of each output are wrong, [rows]."""
    largest: Arrays
    """The largest of `shares` in each row of each floating-point output, [rows]: 0 if the row is left out,
    infinity without numbers to compare."""


def compare_rows(
    expected: ExpectedOutputs,
    answer: Answer,
    limits: AnswerLimits,
    *,
    only_finite: bool = False,
    checks_identity: bool = True,
) -> RowDifferences:
    """Compare every output of every row of an answer with the expected one, by the rule above but for its
    bounds on all rows together. With `only_finite`, numbers must be finite even where the expected ones are
    not. Without `checks_identity`, a row may be nearer to another sample's expected answer."""
    count = len(answer.sample_indices)
    left_out = np.zeros(count, bool)
    all_shares, means, unequal, wrong = {}, {}, {}, {}
    largest = {name: np.zeros(count) for name in expected.spreads}
    for name in expected.discrete_outputs:
        compared = _compare_discrete(expected, answer, name, limits, left_out, checks_identity)
        if compared is not None:
            unequal[name], wrong[name], left_out = compared
    for name, spread in expected.spreads.items():
        expected_rows, actual = expected.outputs[name][answer.sample_indices], answer.outputs.get(name)
        if actual is None or actual.shape != expected_rows.shape or actual.dtype.kind != "f":
            wrong[name], largest[name] = np.ones(count, bool), np.full(count, np.inf)
            continue
        if np.array_equal(actual, expected_rows) and (not only_finite or np.isfinite(actual).all()):
            continue
        errors = differences(actual, expected_rows)
        bounds = limits.of_output(name)
        rounding = limits.rounding * spread.max_magnitude
        # A share within `max_element` of this scale is within that of the spread, rounding aside.
        scale = np.asarray(spread.column_scales + rounding / bounds.max_element)
        shares = np.divide(errors, scale, out=errors.copy(), where=scale > 0).reshape(count, -1)
        all_shares[name], means[name] = shares, errors.reshape(count, -1).mean(axis=1)
        is_finite = np.isfinite(shares)
        if only_finite:
            is_finite &= np.isfinite(actual).reshape(count, -1)
        largest[name] = shares.max(axis=1, initial=0.0)
        is_far = largest[name] > bounds.max_element
        is_far |= means[name] > _ROW_MEAN_FACTOR * bounds.max_mean * spread.mean_magnitude + rounding
        wrong[name] = ~is_finite.all(axis=1) | (is_far & ~left_out)
        largest[name][left_out & ~wrong[name]] = 0.0
    has_all = all(name in all_shares or name not in wrong for name in expected.spreads)
    if checks_identity and all_shares and has_all:
        differing = np.flatnonzero(np.any([rows > 0 for rows in largest.values()], axis=0))
        wrong[next(iter(all_shares))] |= _nearer_to_another(expected, answer, differing, limits) & ~left_out
    return RowDifferences(answer, left_out, all_shares, means, unequal, wrong, largest)


def allowed_ties_per_row(size: int, agreement: float) -> float:
    """How many of a row's `size` integers may be ties, where no scores show them, for this `agreement`."""
    typical = _ROW_SHARE_FACTOR * (1 - agreement) * size
    return max(_TIED_ELEMENTS, typical + 3 * typical**0.5) if agreement < 1 else 0.0


def _compare_discrete(
    expected: ExpectedOutputs,
    answer: Answer,
    name: str,
    limits: AnswerLimits,
    left_out: np.ndarray,
    checks_identity: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Compare one output of texts, integers or truth values: which elements differ, [rows, elements], which
    rows are wrong, and `left_out` with the rows that differ by ties, [rows] each. None if all are equal."""
    count = len(left_out)
    expected_rows, actual = expected.outputs[name][answer.sample_indices], answer.outputs.get(name)
    is_text = expected_rows.dtype == object
    if actual is None or actual.shape != expected_rows.shape or (actual.dtype == object) != is_text:
        return np.ones((count, 1), bool), np.ones(count, bool), left_out
    unequal = np.asarray(actual != expected_rows, bool).reshape(count, -1)
    differing = unequal.sum(axis=1)
    if not differing.any():
        return None
    is_tied = np.zeros(count, bool)
    if not is_text and name in expected.score_output_of:
        is_tied = left_out | _is_tie_of_scores(expected, answer, name, limits)
    elif not is_text and checks_identity and unequal.shape[1] <= _TIED_ELEMENTS:
        is_tied = left_out  # as a duration that is rounded up moves the sum of all
    elif not is_text:
        is_tied = differing <= allowed_ties_per_row(unequal.shape[1], limits.agreement_of(name))
        left_out = left_out | (is_tied & (differing > 0))
    return unequal, (differing > 0) & ~is_tied, left_out


def _is_tie_of_scores(
    expected: ExpectedOutputs, answer: Answer, name: str, limits: AnswerLimits
) -> np.ndarray:
    """Whether the scores beside classes show a tie, [rows]: the scores of each expected and actual class are
    no further apart than twice the tolerance of a score."""
    scores_name, axis = expected.score_output_of[name]
    spread, scores = expected.spreads[scores_name], expected.outputs[scores_name][answer.sample_indices]
    actual, expected_rows = answer.outputs[name], expected.outputs[name][answer.sample_indices]
    apart = np.abs(scores_of(actual, scores, axis) - scores_of(expected_rows, scores, axis))
    max_share, rounding = limits.of_output(scores_name).max_element, limits.rounding * spread.max_magnitude
    tolerance = max_share * float(np.max(spread.column_scales)) + rounding
    is_tie = (actual == expected_rows).reshape(len(scores), -1)
    is_tie |= (apart <= 2 * tolerance).reshape(len(scores), -1)
    return np.asarray(is_tie.all(axis=1))


def compare_answers(
    expected: ExpectedOutputs, answers: Sequence[Answer], limits: AnswerLimits, *, only_finite: bool = False
) -> AnswerFinding[AnswerComparison]:
    """Compare the answers to the expected samples, row by row and together; see `compare_rows`."""
    answers = _answers_to(expected, answers)
    results = [compare_rows(expected, answer, limits, only_finite=only_finite) for answer in answers]
    rows = sum(len(result.left_out) for result in results)
    sample_count = len({sample for answer in answers for sample in answer.sample_indices.tolist()})
    left_out = sum(int(result.left_out.sum()) for result in results)
    too_many = left_out > max(_TIED_ELEMENTS, (1 - limits.min_compared_share) * rows)
    beyond = set()
    for name in expected.discrete_outputs:
        # Each sample counts once, however often it was sent: the share is that of different samples.
        changed = [result for result in results if name in result.unequal]
        differing = np.zeros(len(expected.ids))
        for result in changed:
            np.maximum.at(differing, result.answer.sample_indices, result.unequal[name].sum(axis=1))
        # If all must be equal, those that differ are wrong already unless their scores show a tie.
        share = 1 - limits.agreement_of(name)
        elements = sample_count * expected.outputs[name][:1].size
        allowed = max(_TIED_ELEMENTS, share * elements) if share > 0 else np.inf
        if too_many or differing.sum() > allowed:
            beyond.add(name)
    return merge_findings([_summary(expected, result, beyond, limits) for result in results])


def _answers_to(expected: ExpectedOutputs, answers: Sequence[Answer]) -> list[Answer]:
    """The rows of answers to the samples of `expected`, with their indices among these samples."""
    index_of = {sample: index for index, sample in enumerate(expected.samples)}
    matching = []
    for answer in answers:
        rows = np.array([index_of.get(int(sample), -1) for sample in answer.sample_indices], int)
        if (is_wanted := rows >= 0).all() and len(rows):
            matching.append(Answer(rows, answer.outputs))
        elif is_wanted.any():
            outputs = {name: values[is_wanted] for name, values in answer.outputs.items()}
            matching.append(Answer(rows[is_wanted], outputs))
    return matching


def _summary(
    expected: ExpectedOutputs, result: RowDifferences, beyond: Collection[str], limits: AnswerLimits
) -> AnswerFinding[AnswerComparison]:
    """The finding about one answer, with its worst wrong row. A row is also wrong if an output in `beyond`,
    which differs too much over all rows, differs in it."""
    unequal = {name: rows.any(axis=1) for name, rows in result.unequal.items() if name in beyond}
    result = replace(result, wrong_rows={**result.wrong_rows, **unequal})
    answer = result.answer
    pairs = [(rows, limits.of_output(name).max_element) for name, rows in result.largest.items()]
    nearness = np.max([np.zeros(len(result.left_out)), *(rows / limit for rows, limit in pairs)], axis=0)
    nearest, limit = max(pairs, key=lambda pair: pair[0].max() / pair[1], default=(None, None))
    wrong = np.any([np.zeros_like(result.left_out), *result.wrong_rows.values()], axis=0)
    equal = [1 - differs.mean(axis=1) for differs in result.unequal.values()]
    agreement = np.min([np.ones(len(wrong)), *equal], axis=0)
    worst = int(np.lexsort((-nearness, agreement, ~wrong))[0])
    sample, mismatch, first = "", None, None
    if wrong[worst] or nearness[worst] > 0 or agreement[worst] < 1:
        sample = str(expected.ids[answer.sample_indices[worst]])
    if wrong[worst]:
        name = next(name for name, rows in result.wrong_rows.items() if rows[worst])
        batch = [str(expected.ids[i]) for i in answer.sample_indices]
        expected_row = {key: values[answer.sample_indices[worst]] for key, values in expected.outputs.items()}
        actual = {key: values[worst] for key, values in answer.outputs.items()}
        first = _wrong_answer(sample, name, expected_row[name], actual.get(name), expected.spreads.get(name))
        mismatch = Mismatch(batch=batch, row=worst, expected=expected_row, actual=actual)
    comparison = AnswerComparison(
        count=len(wrong),
        wrong=int(wrong.sum()),
        relative_difference=None if nearest is None or np.isinf(nearest.max()) else float(nearest.max()),
        limit=limit,
        agreement=float(agreement.min()),
        left_out=int((result.left_out & ~wrong).sum()),
        sample=sample,
        first_wrong=first,
        tells_apart=expected.tells_apart(limits.rounding),
    )
    return AnswerFinding(comparison, mismatch)


def merge_findings(parts: Sequence[AnswerFinding[AnswerComparison]]) -> AnswerFinding[AnswerComparison]:
    """One finding about all answers of these; with nothing compared, if there are none."""
    if not parts:
        return AnswerFinding(AnswerComparison(0, tells_apart=False))
    mismatch = next((part.mismatch for part in parts if part.mismatch is not None), None)
    return AnswerFinding(merge_comparisons([part.result for part in parts]), mismatch)


def merge_comparisons(parts: Sequence[AnswerComparison]) -> AnswerComparison:
    """The worst of these comparisons, with the figures of all."""

    def share_of_limit(part: AnswerComparison) -> float:
        if part.relative_difference is None:
            return -1.0 if part.limit is None else np.inf  # of a number that is not finite
        return part.relative_difference / (part.limit or 1.0)

    def badness(part: AnswerComparison) -> tuple[bool, float, float]:
        return part.wrong > 0, -1.0 if part.agreement is None else -part.agreement, share_of_limit(part)

    worst = max(parts, key=badness)
    farthest = max(parts, key=share_of_limit)
    first = next((part for part in parts if part.first_wrong is not None), parts[0])
    return structs.replace(
        worst,
        count=sum(part.count for part in parts),
        wrong=sum(part.wrong for part in parts),
        relative_difference=farthest.relative_difference,
        limit=farthest.limit,
        agreement=min((part.agreement for part in parts if part.agreement is not None), default=None),
        left_out=sum(part.left_out for part in parts),
        first_wrong=first.first_wrong,
        expected_from=first.expected_from,
        tells_apart=any(part.tells_apart for part in parts),
    )


def typical_difference(expected: ExpectedOutputs, answers: Sequence[Answer]) -> float:
    """The typical difference from the expected answers beyond FP32's rounding, as a share of the spread: the
    median over rows of a row's largest difference, so that a few wrong answers do not count as noise."""
    parts = []
    for answer in _answers_to(expected, answers):
        largest = np.zeros(len(answer.sample_indices))
        for name, spread in expected.spreads.items():
            expected_rows, actual = expected.outputs[name][answer.sample_indices], answer.outputs.get(name)
            if actual is not None and actual.shape == expected_rows.shape and actual.dtype.kind == "f":
                errors = differences(actual, expected_rows)
                beyond = beyond_rounding(errors, spread, PRECISIONS["fp32"].rounding)
                largest = np.maximum(largest, beyond.reshape(len(largest), -1).max(axis=1, initial=0.0))
        parts.append(largest)
    return float(np.median(np.concatenate(parts))) if parts else 0.0


def _wrong_answer(
    sample: str, name: str, expected: np.ndarray, actual: np.ndarray | None, spread: Spread | None
) -> WrongAnswer:
    """The element of a wrong output that differs most; `spread` is None unless it holds numbers."""
    if actual is None or np.shape(actual) != np.shape(expected):
        shape = "no row of this sample" if actual is None else str(np.shape(actual))
        return WrongAnswer(sample, name, expected=str(np.shape(expected)), actual=shape)
    if not np.size(actual):  # of the same shape, and of another type
        return WrongAnswer(sample, name, expected=str(expected.dtype), actual=str(actual.dtype))
    if spread is not None and actual.dtype.kind == "f":
        errors = beyond_rounding(differences(actual, expected), spread, 0.0)
        errors = errors if errors.any() else ~np.isfinite(actual)
    else:
        errors = np.asarray(actual != expected, np.float64)
    position = np.unravel_index(int(np.nan_to_num(errors, nan=np.inf).argmax()), np.shape(errors))
    where = ", ".join(str(int(index)) for index in position)
    shown = []
    for value in (np.asarray(array)[position] for array in (expected, actual)):
        plain = value.item() if isinstance(value, np.generic) else value
        shown.append(f"{plain:.6g}" if isinstance(plain, float) else ascii(plain)[:60])
    return WrongAnswer(sample, f"{name}[{where}]" if where else name, *shown)


_MIN_COLUMNS = 4
"""Shorter rows are not compared with other samples' rows: noise alone may bring them near another."""
_DISTINCT_SHARE = 0.25
"""How far apart the expected answers of two samples must be before one can be mistaken for the other, as a
share of what kernels may change. Of two nearer ones, rounding decides which is nearest."""


def _nearer_to_another(
    expected: ExpectedOutputs, answer: Answer, rows: np.ndarray, limits: AnswerLimits
) -> np.ndarray:
    """Which of the `rows` of an answer, which has every output, are nearer to another sample's expected
    answer than to their own: a mask of all its rows. A precision's cost makes no answer another sample's."""
    mistaken = np.zeros(len(answer.sample_indices), bool)
    total = sum(np.prod(expected.outputs[name].shape[1:], dtype=int) for name in expected.spreads)
    if not rows.size or total < _MIN_COLUMNS:
        return mistaken
    own, all_expected = answer.sample_indices[rows], expected.standardized
    standardized = standardize(expected, {name: answer.outputs[name][rows] for name in expected.spreads})
    # The square of the distance, but for the row's own square.
    nearest = (np.square(all_expected).sum(axis=1) - 2 * standardized @ all_expected.T).argmin(axis=1)
    to_own, to_nearest = (np.linalg.norm(standardized - all_expected[i], axis=1) for i in (own, nearest))
    for index in np.flatnonzero((nearest != own) & (2 * to_nearest < to_own)):
        mistaken[rows[index]] = _are_distinct(expected, int(own[index]), int(nearest[index]), limits)
    return mistaken


def _are_distinct(expected: ExpectedOutputs, sample: int, other: int, limits: AnswerLimits) -> bool:
    """Whether the expected answers to two samples differ by more than other kernels may change."""
    for name, spread in expected.spreads.items():
        errors = differences(expected.outputs[name][sample], expected.outputs[name][other])
        beyond = beyond_rounding(errors, spread, limits.rounding)
        if beyond.max(initial=0.0) > _DISTINCT_SHARE * limits.of_output(name).max_element:
            return True
    return False
