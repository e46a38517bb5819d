"""What the rule of sameness finds in many answers: which are wrong, in gates and under load, and how far each
output of a stage is from the same output of the stage before, over all rows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, TypeVar

import numpy as np
from msgspec import structs

from tritonproof.accuracy.expected import ExpectedGroup, expect
from tritonproof.accuracy.limits import AnswerLimits, CaseArithmetic
from tritonproof.accuracy.outputs import CHUNK_BYTES, Spread, beyond_rounding, check_shapes, differences
from tritonproof.accuracy.sameness import TIED_ELEMENTS, ComparedAnswer, allowed_ties_per_row, compare_rows
from tritonproof.client.requests import Answer
from tritonproof.record.correctness import AnswerComparison, GateResult, OutputDifference, WrongAnswer
from tritonproof.spec import Arrays, OnProgress


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """A wrong answer with its whole request, from which it is described and reproduced."""

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
    """What a comparison or a gate finds: a result for the record, and a mismatch for the reproducer."""

    result: _Result
    mismatch: Mismatch | None = None
    """The first wrong answer; None if none is wrong, or if the fault is not that of a single answer."""


@dataclass(frozen=True)
class ExpectedAnswers:
    """The expected answers to samples, and how near to them actual answers must be."""

    by_signature: Mapping[object, ExpectedGroup]
    limits: AnswerLimits
    expected_from: str = "in process"
    """Where the expected answers are from, as in `AnswerComparison.expected_from`."""

    def compare(
        self, answers: Sequence[Answer], *, only_finite: bool = False
    ) -> AnswerFinding[AnswerComparison]:
        """Compare answers with the expected ones, row by row (see `compare_rows`) and all rows together."""
        groups = self.by_signature.values()
        parts = [_compare_group(group, answers, self.limits, only_finite=only_finite) for group in groups]
        finding = merge_findings(parts)
        tells_apart = len(parts) > 1 or finding.result.tells_apart
        result = structs.replace(finding.result, tells_apart=tells_apart, expected_from=self.expected_from)
        return replace(finding, result=result)


def _compare_group(
    expected: ExpectedGroup, answers: Sequence[Answer], limits: AnswerLimits, *, only_finite: bool
) -> AnswerFinding[AnswerComparison]:
    answers = expected.rows_in(answers)
    compared = [compare_rows(expected, answer, limits, only_finite=only_finite) for answer in answers]
    sample_count = len({sample for answer in answers for sample in answer.sample_indices.tolist()})
    left_out = [is_left_out for each in compared for is_left_out in each.left_out.tolist()]
    too_many = sum(left_out) > max(TIED_ELEMENTS, (1 - limits.min_compared_share) * len(left_out))
    beyond = set()
    for name in expected.discrete_outputs:
        # Each sample counts once, however often it was sent: the share is taken over different samples.
        differing = np.zeros(len(expected.ids))
        for each in compared:
            if (unequal := each.outputs[name].elements) is not None:
                np.maximum.at(differing, each.answer.sample_indices, unequal.sum(axis=1))
        # If all elements must be equal, unequal ones are wrong already unless their scores show a tie.
        share = 1 - limits.agreement_of(name)
        elements = sample_count * expected.outputs[name][:1].size
        allowed = max(TIED_ELEMENTS, share * elements) if share > 0 else np.inf
        if too_many or differing.sum() > allowed:
            beyond.add(name)
    return merge_findings([_finding(expected, each, beyond, limits) for each in compared])


def _finding(
    expected: ExpectedGroup, compared: ComparedAnswer, beyond: Collection[str], limits: AnswerLimits
) -> AnswerFinding[AnswerComparison]:
    """The finding about one answer, with its worst wrong row. `beyond` names the outputs that differ too much
    over all rows; a row in which one of these differs is wrong too."""
    answer, outputs = compared.answer, compared.outputs
    wrong_rows = {name: output.wrong_rows for name, output in outputs.items()}
    wrong_rows.update({name: outputs[name].distances > 0 for name in beyond})
    wrong = np.any([np.zeros_like(compared.left_out), *wrong_rows.values()], axis=0)
    pairs = [(outputs[name].distances, limits.of_output(name).max_element) for name in expected.spreads]
    nearness = np.max([np.zeros(len(wrong)), *(rows / limit for rows, limit in pairs)], axis=0)
    nearest, limit = max(pairs, key=lambda pair: pair[0].max() / pair[1], default=(None, None))
    equal = [1 - outputs[name].distances for name in expected.discrete_outputs]
    agreement = np.min([np.ones(len(wrong)), *equal], axis=0)
    worst = int(np.lexsort((-nearness, agreement, ~wrong))[0])
    sample, mismatch, first = "", None, None
    if wrong[worst] or nearness[worst] > 0 or agreement[worst] < 1:
        sample = str(expected.ids[answer.sample_indices[worst]])
    if wrong[worst]:
        name = next(name for name, rows in wrong_rows.items() if rows[worst])
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
        left_out=int((compared.left_out & ~wrong).sum()),
        sample=sample,
        first_wrong=first,
        tells_apart=expected.tells_apart(limits.rounding),
    )
    return AnswerFinding(comparison, mismatch)


def _wrong_answer(
    sample: str, name: str, expected: np.ndarray, actual: np.ndarray | None, spread: Spread | None
) -> WrongAnswer:
    """The element of a wrong output that differs most; `spread` is that of a floating-point output."""
    if actual is None or np.shape(actual) != np.shape(expected):
        shape = "no row of this sample" if actual is None else str(np.shape(actual))
        return WrongAnswer(sample, name, expected=str(np.shape(expected)), actual=shape)
    if not np.size(actual):  # empty and of the right shape, so the type is wrong
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


def merge_findings(parts: Sequence[AnswerFinding[AnswerComparison]]) -> AnswerFinding[AnswerComparison]:
    """One finding about the answers of all `parts`; without parts, a finding that compared nothing."""
    if not parts:
        return AnswerFinding(AnswerComparison(0, tells_apart=False))
    mismatch = next((part.mismatch for part in parts if part.mismatch is not None), None)
    return AnswerFinding(merge_comparisons([part.result for part in parts]), mismatch)


def merge_comparisons(parts: Sequence[AnswerComparison]) -> AnswerComparison:
    """One comparison: the worst of these, with the counts of all and their extreme differences."""

    def share_of_limit(part: AnswerComparison) -> float:
        if part.relative_difference is None:
            return -1.0 if part.limit is None else np.inf  # a number is not finite
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


@dataclass
class _OutputTotals:
    """The differences of one output, over the rows compared so far."""

    sum_of_errors: float = 0.0
    """The sum of numbers' absolute differences; for outputs of other types the number of unequal elements."""
    sum_of_values: float = 0.0
    """The sum of expected numbers' magnitudes; for outputs of other types the number of elements."""
    largest: float = 0.0
    """The largest difference of a number, as a share of its column's scale; for outputs of other types the
    largest share of unequal elements in a row. Any wrong row counts as larger than all others."""
    is_wrong: bool = False
    """Whether the integers of any row differ by more than ties."""
    sample: str = ""
    expected: float = 0.0
    actual: float = 0.0


@dataclass
class StageComparison:
    """Compares the outputs of a stage with those of the stage before: the converted model's with the
    framework's, the served model's with the converted one's. `add` takes rows in any order."""

    stage: Literal["converted", "served"]
    ids: Sequence[str]
    earlier_outputs: Arrays
    """All outputs of the stage before, a row for each of `ids`."""
    arithmetic: CaseArithmetic
    """How the case computes, from which the limits follow."""
    by_output: dict[str, _OutputTotals] = field(default_factory=dict)
    """The differences so far, by the name of the output."""
    rows: int = 0
    left_out: int = 0
    """Rows whose floating-point outputs were not compared, because integers beside them differ."""

    def __post_init__(self) -> None:
        self.expected = expect(self.ids, self.earlier_outputs)
        elements = {name: values.size for name, values in self.earlier_outputs.items()}
        limits = self.arithmetic.case_limits(elements, len(self.ids))
        self.limits = limits.kernels if self.stage == "served" else limits.conversion

    def add(self, outputs: Arrays, row_indices: Sequence[int]) -> None:
        """Compare these rows' outputs. Raises AccuracyError if an output is missing or has another shape."""
        chosen = np.asarray(row_indices)
        expected_outputs = {name: values[chosen] for name, values in self.expected.outputs.items()}
        expected_from = "in process" if self.stage == "served" else "in the framework"
        check_shapes(expected_outputs, outputs, self.stage, expected_from)
        compared = compare_rows(self.expected, Answer(chosen, outputs), self.limits, checks_identity=False)
        is_kept = ~compared.left_out
        self.rows += len(chosen)
        self.left_out += int(compared.left_out.sum())
        for name, values in expected_outputs.items():
            totals = self.by_output.setdefault(name, _OutputTotals())
            output, is_floating = compared.outputs[name], name in self.expected.spreads
            magnitudes = np.abs(values[is_kept].astype(np.float64)).sum() if is_floating else values.size
            totals.sum_of_values += float(magnitudes)
            if (elements := output.elements) is None:
                continue
            if output.means is None:
                errors, is_wrong = elements.sum(), output.wrong_rows
            else:
                errors = output.means[is_kept].sum() * elements.shape[1]
                is_wrong = np.zeros(len(chosen), bool)
            totals.sum_of_errors += float(errors)
            row = int(np.lexsort((-output.distances, ~is_wrong))[0])
            worst = bool(is_wrong[row]), float(output.distances[row])
            if worst > (totals.is_wrong, totals.largest):
                index = int(elements[row].argmax())
                totals.is_wrong, totals.largest = worst
                totals.sample = str(self.expected.ids[chosen[row]])
                if values.dtype != object:  # the record has no field for texts
                    totals.expected = float(np.ravel(values[row])[index])
                    totals.actual = float(np.ravel(outputs[name][row])[index])

    def add_all(self, outputs: Arrays, on_progress: OnProgress) -> None:
        """Compare the outputs of all rows, so many at once as fit into memory."""
        count, row_bytes = len(self.ids), sum(values[:1].nbytes for values in self.earlier_outputs.values())
        step = max(1, CHUNK_BYTES // max(1, row_bytes))
        for start in range(0, count, step):
            rows = range(start, min(start + step, count))
            self.add({name: values[rows.start : rows.stop] for name, values in outputs.items()}, rows)
            on_progress(f"{rows.stop:,} of {count:,}")

    @property
    def differences(self) -> tuple[OutputDifference, ...]:
        """The differences of each output, with its limits."""
        return tuple(self._difference(name, totals) for name, totals in self.by_output.items())

    def _difference(self, name: str, totals: _OutputTotals) -> OutputDifference:
        limits, spread = self.limits, self.expected.spreads.get(name)
        if spread is None:
            size = self.expected.outputs[name][:1].size
            agreement = limits.agreement_of(name)
            mean_limit = 1 - agreement
            of_row = 1.0 if name in self.expected.score_output_of else agreement
            largest_limit = allowed_ties_per_row(size, of_row) / size if totals.is_wrong else 1.0
            compared_share = compared_share_limit = 1.0
        else:
            largest_limit, mean_limit = limits.of_output(name)
            mean_limit += limits.mean_rounding * spread.max_magnitude / (spread.mean_magnitude or 1.0)
            compared_share = (self.rows - self.left_out) / self.rows
            # At least one row must be compared, even if the precision changes integers in nearly all rows.
            compared_share_limit = max(limits.min_compared_share, 1 / self.rows)
        return OutputDifference(
            output=name,
            kind="differing" if spread is None else "error",
            largest=totals.largest,
            largest_limit=largest_limit,
            mean=totals.sum_of_errors / (totals.sum_of_values or 1),
            mean_limit=mean_limit,
            sample=totals.sample,
            expected=totals.expected,
            actual=totals.actual,
            source=limits.source,
            compared_share=compared_share,
            compared_share_limit=compared_share_limit,
        )
