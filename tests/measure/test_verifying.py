"""Checks of answers under load against those in process."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests import toy
from tests.helpers import present
from tritonproof.accuracy.answer_comparison import ExpectedAnswers, merge_comparisons
from tritonproof.accuracy.expected import expect
from tritonproof.accuracy.limits import AnswerLimits, CaseLimits, NumberLimits
from tritonproof.client.input_data import InputData
from tritonproof.client.requests import Answer
from tritonproof.measure.verifying import expect_in_process, verifying
from tritonproof.record import correctness, speed
from tritonproof.spec import Arrays, Tensor

ROWS = np.arange(24, dtype=np.float32).reshape(6, 4)
LIMITS = AnswerLimits(NumberLimits(0.01, 0.004))
SAMPLES = np.array([4, 1, 2])
SPREAD = ROWS[:, 0].std()


def answers_of(limits: AnswerLimits = LIMITS, **outputs: np.ndarray) -> ExpectedAnswers:
    """These outputs, expected."""
    return toy.expected_answers(toy.samples_of(outputs).ids, outputs, limits)


EXPECTED, LONG = answers_of(OUT=ROWS), ROWS[:, [0, 1, 2, 3, 0]]
OF_BOTH_SHAPES = {**EXPECTED.by_signature, "longer": expect("abcdef", {"OUT": LONG}, range(6, 12))}
EXPECTED = dataclasses.replace(EXPECTED, by_signature=OF_BOTH_SHAPES)
NAN_EXPECTED = answers_of(OUT=np.where(ROWS[SAMPLES[0], 0] == ROWS, np.nan, ROWS))


def answer(values: np.ndarray | None = None, **outputs: Any) -> Answer:
    """An answer to a request of three samples."""
    return Answer(SAMPLES, outputs or {"OUT": ROWS[SAMPLES] if values is None else values})


def changed(row: int, column: int, value: float) -> np.ndarray:
    values = ROWS[SAMPLES].copy()
    values[row, column] = value
    return values


def compare(expected: ExpectedAnswers, *answers: Answer) -> correctness.AnswerComparison:
    return expected.compare(answers, only_finite=True).result


GIVEN: dict[str, tuple[Answer, int]] = {
    "right": (answer(), 0),
    "near": (answer(ROWS[SAMPLES] + 0.009 * SPREAD), 0),
    "far": (answer(ROWS[SAMPLES] + 0.011 * SPREAD), 3),
    "infinite": (answer(changed(1, 2, np.inf)), 1),
    "swapped": (answer(ROWS[[1, 4, 2]]), 2),
    "too few rows": (answer(ROWS[:2]), 3),
    "another shape": (answer(ROWS[SAMPLES][:, :2]), 3),
    "another output": (answer(OTHER=ROWS[SAMPLES]), 3),
    "longer": (Answer(SAMPLES + 6, {"OUT": LONG[SAMPLES]}), 0),
    "longer and swapped": (Answer(SAMPLES + 6, {"OUT": LONG[[1, 4, 2]]}), 2),
}


@pytest.mark.parametrize(("given", "count"), GIVEN.values(), ids=GIVEN)
def test_wrong_rows_are_counted(given: Answer, count: int) -> None:
    result = compare(EXPECTED, answer(), given)
    assert (result.count, result.wrong) == (6, count)


@pytest.mark.parametrize(
    ("expected", "value", "shown"),
    [
        (ROWS, -7.0, ("6", "-7")),
        (np.where(ROWS == 6, np.nan, ROWS), np.nan, ("nan", "nan")),
        (np.where(ROWS == 6, np.inf, ROWS), np.inf, ("inf", "inf")),
    ],
    ids=["another number", "NaN even if expected", "infinity even if expected"],
)
def test_wrong_answer_is_recorded_with_sample_and_values(
    expected: np.ndarray, value: float, shown: tuple[str, str]
) -> None:
    first = present(compare(answers_of(OUT=expected), answer(changed(1, 2, value))).first_wrong)
    assert (first.sample, first.output, first.expected, first.actual) == ("row-1", "OUT[2]", *shown)


def test_near_ties_may_move_outputs_but_not_swap_samples() -> None:
    durations = np.random.default_rng(0).integers(1, 9, (6, 20))
    limits = dataclasses.replace(LIMITS, agreement_by_output={"DURATIONS": 0.999, "SUM": 0.999})
    of_speech = answers_of(limits, DURATIONS=durations, MEL=ROWS, SUM=durations.sum(axis=1))
    rounded = durations[SAMPLES].copy()
    rounded[1, 7] += 1
    sums = {"SUM": rounded.sum(axis=1)}

    moved = compare(of_speech, answer(DURATIONS=rounded, MEL=ROWS[SAMPLES] + [[0.0], [9], [0]], **sums))
    assert (moved.wrong, moved.left_out) == (0, 1)
    for mel in ([[0.0], [np.nan], [0]], [[9.0], [0], [0]]):
        assert compare(of_speech, answer(DURATIONS=rounded, MEL=ROWS[SAMPLES] + mel, **sums)).wrong == 1
    swapped = {"DURATIONS": durations[[1, 4, 2]], "SUM": durations[[1, 4, 2]].sum(axis=1)}
    assert compare(of_speech, answer(MEL=ROWS[[1, 4, 2]], **swapped)).wrong == 2


@pytest.mark.parametrize(("columns", "every", "count"), [(1, 70, 72), (20, 70, 72), (20, 64, 0)])
def test_share_of_few_integers_excuses_no_answers_under_load(columns: int, every: int, count: int) -> None:
    """Three of the evaluated classes, or durations, may differ: those of one of 64 samples, however often."""
    integers, numbers = np.random.default_rng(0).integers(0, 9, (64, columns)), np.arange(5000)
    limits = dataclasses.replace(LIMITS, agreement_by_output={"OUT": 1 - 3 / (190 * columns)})
    given = integers[numbers % 64] + (np.arange(columns) == 0) * (numbers % every == 0)[:, None]
    assert compare(answers_of(limits, OUT=integers), Answer(numbers % 64, {"OUT": given})).wrong == count


@pytest.mark.parametrize(("compared", "expected"), [(0.7, (0, 6)), (0.75, (6, 0))])
def test_rows_left_out_for_ties_are_bounded(compared: float, expected: tuple[int, int]) -> None:
    """In six of 20 rows INT8 changes a duration by one, and the spectrogram with it."""
    durations = np.random.default_rng(0).integers(1, 9, (20, 40))
    mel = np.random.default_rng(1).standard_normal((20, 4))
    indices = np.arange(20)
    ties = (np.arange(40) == 3) & (indices[:, None] < 6)
    outputs = {"DURATIONS": durations + ties, "MEL": mel + 5 * ties.any(axis=1)[:, None]}
    limits = AnswerLimits(LIMITS.widest, {"DURATIONS": 0.95}, rounding=1e-3, min_compared_share=compared)
    result = compare(answers_of(limits, DURATIONS=durations, MEL=mel), Answer(indices, outputs))
    assert (result.wrong, result.left_out) == expected


def test_swapped_answers_of_one_class_are_found_in_int8() -> None:
    """INT8 kernels may change an element by more than half the spread between samples of a class."""
    scores = np.array([[10.0, 1, 2, 0], [8.0, 2, 0, 1], [0.0, 9, 9, 3]])
    limits = AnswerLimits(NumberLimits(2.0, 0.1), rounding=8e-3)
    of_scores = answers_of(limits, OUT=scores)
    assert compare(of_scores, Answer(np.arange(3), {"OUT": scores + 0.08})).wrong == 0
    assert compare(of_scores, Answer(np.arange(3), {"OUT": scores[[1, 0, 2]]})).wrong == 2


def test_each_output_is_limited_by_its_precision_cost() -> None:
    """One output may be off by a hundredth of its spread; the other may not."""
    limits = dataclasses.replace(LIMITS, by_output={"SECOND": NumberLimits(1e-4, 4e-5)})
    reference = answers_of(limits, OUT=ROWS, SECOND=ROWS)
    off = ROWS[SAMPLES] + np.float32(0.01)
    near = compare(reference, answer(OUT=off, SECOND=ROWS[SAMPLES] + np.float32(4e-4)))
    nearest = pytest.approx(4e-4 / SPREAD, rel=0.1)  # to its limit, though OUT's difference is larger
    assert (near.wrong, near.relative_difference, near.limit) == (0, nearest, 1e-4)
    result = compare(reference, answer(OUT=ROWS[SAMPLES], SECOND=off))
    assert result.wrong == 3
    assert present(result.first_wrong).output.startswith("SECOND")
    assert CaseLimits(limits, limits, min_noise=0.01).across_kernels().of_output("SECOND") == (0.01, 4e-5)


def test_comparisons_add_up_and_keep_the_first_fault() -> None:
    right, broken = compare(EXPECTED, answer()), compare(EXPECTED, answer(changed(0, 0, np.nan)))
    total = merge_comparisons([right, broken, right])
    assert (total.count, total.wrong) == (9, 1)
    assert total.first_wrong == broken.first_wrong


@pytest.mark.parametrize(("batch", "sizes"), [(2, [1, 2, 2, 2]), (8, [1, 3, 3])])
def test_batches_in_process_are_bounded_by_real_answers(
    batch: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests of 16 bytes get answers of 64, whose dimensions are open."""
    taken, rows = list[int](), np.zeros((7, 4), np.float32)
    monkeypatch.setattr("tritonproof.measure.verifying._MAX_BYTES", 3 * (16 + 64))

    def mask(inputs: Arrays) -> Arrays:
        taken.append(len(inputs["IN"]))
        return {"OUT": np.ones((taken[-1], 4, 4), np.float32)}

    outputs, limits = (Tensor("OUT", "FP32", (-1, -1)),), CaseLimits(LIMITS, LIMITS, min_noise=0.5)
    data = InputData([f"row-{n}" for n in range(7)], {"IN": rows})
    expected = expect_in_process(outputs, data, mask, batch, limits)
    assert (taken, expected.expected_from) == (sizes, "in process")
    assert expected.limits.widest.max_element == 0.5, "the noise that gates allow"


def passes_of(
    count: int, request_s: float = 0.0, expected: ExpectedAnswers | None = NAN_EXPECTED
) -> tuple[list[Any], list[float]]:
    """Passes over a fake server that gives NaN, which is wrong, and the seconds of each request for answers."""
    seconds: list[float] = []

    def ask(_job: object, asked_s: float) -> list[Answer]:
        seconds.append(asked_s)
        return [answer(changed(0, 0, np.nan))]

    job = toy.job(speed.LoadPoint("online", 1, 2), request_s=request_s, expected_answers=expected)
    run_pass = verifying(toy.SimulatedServer().run_pass, ask)
    return [run_pass(job, 0.12) for _ in range(count)], seconds


def test_checking_answers_takes_a_tenth_of_the_time() -> None:
    results, seconds = passes_of(20)
    (unchecked, *_), none = passes_of(1, expected=None)
    assert (unchecked.answers_under_load, none) == (None, []), "without a reference"
    assert (results[0].answers_under_load.count, results[0].answers_under_load.wrong) == (3, 1)
    assert results[0].elapsed_s == unchecked.elapsed_s
    spent_s = sum(result.elapsed_s for result in results)
    assert 0.08 * spent_s < sum(seconds) < 0.12 * spent_s
    assert len(seconds) < 12
    assert len(passes_of(10, request_s=30.0)[1]) == 1, "slow requests are checked less often"
