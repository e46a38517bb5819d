"""Answers of every type beside the expected ones: what counts as the same, and what as wrong."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.gates.made_up_model import CLASSES, FAULTS, WIDE, Fault
from tests.helpers import present
from tritonproof.accuracy.answer_comparison import ExpectedAnswers, merge_comparisons
from tritonproof.accuracy.expected import expect, expect_by_signature
from tritonproof.accuracy.limits import AnswerLimits, CaseLimits, NumberLimits
from tritonproof.client.requests import Answer
from tritonproof.gates.context import make_single_answers
from tritonproof.record.correctness import AnswerComparison
from tritonproof.reports.correctness_text import difference_text
from tritonproof.spec import Arrays

COUNT = 20
IDS = [f"row-{n}" for n in range(COUNT)]
ROWS = np.random.default_rng(0).standard_normal((COUNT, 4)).astype(np.float32)
NANS = np.where(np.arange(4) == 1, np.float32(np.nan), ROWS)
FEW_WRONG = ROWS + (np.arange(20) < 5)[:, None].astype(np.float32)
TEXTS = np.array([[f"text {n}".encode(), b"\xff"] for n in range(COUNT)], object)
EXACT = AnswerLimits(NumberLimits(1e-4, 2e-5))


def compared(
    expected: Arrays, answers: Arrays, which: Sequence[int], limits: AnswerLimits = EXACT
) -> AnswerComparison:
    """Compare one answer to these samples with `expected`, which holds each sample's row when sent alone."""
    count = len(next(iter(expected.values())))
    rows = {n: {name: values[n] for name, values in expected.items()} for n in range(count)}
    expected_answers = ExpectedAnswers(expect_by_signature(rows, IDS), limits)
    return expected_answers.compare([Answer(np.asarray(which), answers)]).result


@pytest.mark.parametrize(
    "expected",
    [ROWS, NANS, TEXTS, np.arange(40).reshape(20, 2), ROWS > 0, ROWS[:, 0], np.zeros((20, 0), np.float32)],
    ids=["floats", "NaN", "texts", "integers", "truth", "a number for each row", "nothing detected"],
)
def test_equal_answers_match_in_any_order_and_type(expected: np.ndarray) -> None:
    same = compared({"OUT": expected}, {"OUT": expected[[5, 3, 3, 19]]}, [5, 3, 3, 19])
    assert (same.wrong, same.count, same.left_out, same.agreement) == (0, 4, 0, 1.0)
    assert same.sample == "", "none differs most"


DIFFERING: dict[str, tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]] = {
    "another value": (ROWS, lambda rows: rows + 0.3),
    "no number": (ROWS, lambda rows: rows * np.where(np.arange(4) == 2, np.nan, 1)),
    "a number for NaN": (NANS, np.nan_to_num),
    "another shape": (ROWS, lambda rows: rows[:, :3]),
    "rows swapped": (ROWS, lambda rows: rows[::-1]),
    "a row missing": (ROWS, lambda rows: rows[:1]),
    "another type": (ROWS, lambda rows: rows.astype(np.int64)),
    "another type of nothing": (TEXTS[:, :0], lambda rows: rows.astype(np.float64)),
    "numbers swapped": (ROWS[:, 0], lambda rows: rows[::-1]),
    "texts swapped": (TEXTS, lambda rows: rows[::-1]),
    "a text missing": (TEXTS, lambda rows: rows[:, :1]),
    "a text for each row": (TEXTS[:, 0], lambda rows: rows[::-1]),
    "one integer": (np.arange(400).reshape(20, 20), lambda rows: rows + (np.arange(20) == 7)),
    "truth": (ROWS > 0, lambda rows: ~rows),
}


@pytest.mark.parametrize(("expected", "change"), DIFFERING.values(), ids=DIFFERING)
def test_differing_answer_is_counted_and_its_sample_named(expected: np.ndarray, change: Any) -> None:
    entry = compared({"OUT": expected}, {"OUT": change(expected[[4, 9]])}, [4, 9])
    assert entry.wrong >= 1
    wrong = present(entry.first_wrong)
    assert entry.sample == wrong.sample in ("row-4", "row-9")
    assert wrong.expected != wrong.actual


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_faults_within_2_percent_of_magnitude_are_found(fault: tuple[Arrays, Fault]) -> None:
    expected, spoil = fault
    assert compared(expected, expected, range(12), WIDE).wrong == 0
    assert compared(expected, spoil(expected), range(12), WIDE).wrong >= 10


def test_one_wrong_text_and_a_row_that_is_off_on_the_mean_or_lacks_an_output_are_wrong() -> None:
    given = np.where(TEXTS == b"text 9", b"another", TEXTS)[[4, 9]]
    assert compared({"OUT": TEXTS}, {"OUT": given}, [4, 9]).wrong == 1
    off = ROWS[:1] + np.float32(0.03)
    assert compared({"OUT": ROWS}, {"OUT": off}, [0], ON_THE_MEAN).wrong == 1
    assert compared({"OUT": ROWS, "MORE": ROWS}, {"OUT": ROWS[:1]}, [0]).wrong == 1
    assert compared({"OUT": ROWS}, {"OUT": np.array(0.5)}, [0]).wrong == 1, "one for all"


def test_answers_of_several_shapes_are_compared_separately() -> None:
    rows = {n: {"OUT": ROWS[n, : 1 + n % 3]} for n in range(6)}
    again = [Answer(np.array([n]), {"OUT": row["OUT"][None]}) for n, row in rows.items()]
    expected = ExpectedAnswers(expect_by_signature(rows, IDS), EXACT, "recorded")
    right = expected.compare(again).result
    assert (right.count, right.wrong, right.expected_from) == (6, 0, "recorded")
    again[4] = Answer(np.array([4]), {"OUT": rows[5]["OUT"][None]})
    assert expected.compare(again).result.wrong == 1


def noisy(values: np.ndarray, share: float) -> np.ndarray:
    """Values off by up to this share of their output's largest magnitude."""
    noise = np.random.default_rng(1).uniform(-1, 1, values.shape) * share * np.abs(values).max()
    return (values + noise).astype(values.dtype)


SMALL = np.random.default_rng(2).uniform(0, 8e-4, (20, 4)).astype(np.float32)
SATURATED = np.concatenate([1 - SMALL[:, :1], SMALL], axis=1)
"""Probabilities that differ between samples by less than a unit in the last place of FP16."""
SAME = np.tile(ROWS[:1], (20, 1))
ON_THE_MEAN = AnswerLimits(NumberLimits(0.5, 0.002))
TIES = AnswerLimits(NumberLimits(0.01, 0.002), agreement_by_output={"MASK": 0.99})
HALF = AnswerLimits(NumberLimits(0.05, 0.005), rounding=1e-3)
ROUNDED: dict[str, tuple[np.ndarray, np.ndarray, AnswerLimits]] = {
    "one element of a mean": (ROWS, ROWS + np.array([0, 0.03, 0, 0], np.float32), ON_THE_MEAN),
    "kernels in FP32": (ROWS, noisy(ROWS, 5e-7), EXACT),
    "far from 0": (1000 + 10 * ROWS, noisy(1000 + 10 * ROWS, 1e-7), EXACT),
    "the same for all samples": (SAME, noisy(SAME, 5e-7), EXACT),
    "nearly 0": (np.abs(ROWS) * 1e-9, np.abs(ROWS) * 1e-9 + 1e-7, EXACT),
    "equal but for rounding": (SATURATED, noisy(SATURATED, 5e-4), HALF),
    "FP16": (ROWS, ROWS.astype(np.float16).astype(np.float32), HALF),
}


@pytest.mark.parametrize(("expected", "answer", "limits"), ROUNDED.values(), ids=ROUNDED)
def test_rounding_is_accepted(expected: np.ndarray, answer: np.ndarray, limits: AnswerLimits) -> None:
    rounded = compared({"OUT": expected}, {"OUT": answer}, range(20), limits)
    assert (rounded.wrong, rounded.count) == (0, 20)


def test_class_may_differ_only_if_scores_tie() -> None:
    scores, classes = CLASSES["SCORES"].copy(), CLASSES["CLASS"].copy()
    second = scores[3].argsort()[-2]
    scores[3, second] = scores[3].max() - 1e-4
    tied = classes.copy()
    tied[3] = second
    expected, given = ({"SCORES": scores, "CLASS": values} for values in (classes, tied))
    assert compared(expected, given, range(12), WIDE).wrong == 0
    assert compared(expected, given, range(12)).wrong == 1, "in FP32 none may differ"
    tied[3] = scores[3].argmin()
    assert compared(expected, given, range(12), WIDE).wrong == 1


ORDER = np.argsort(-CLASSES["SCORES"], axis=1)
CHOICES: dict[str, tuple[np.ndarray, bool]] = {
    "the best": (ORDER[:, 0], True),
    "the best three": (ORDER[:, :3], True),
    "the best of three rows of four": (np.where(np.arange(12) < 3, -1, ORDER[:, 0]), False),
    "a mask with the best in its corner": (np.pad(ORDER[:, :1], ((0, 0), (0, 9))), False),
    "a small mask with the best in its corner": (np.pad(ORDER[:, :1], ((0, 0), (0, 2))), False),
    "the best three in another order": (ORDER[:, [0, 2, 1]], False),
    "nothing": (ORDER[:, :0], False),
}


@pytest.mark.parametrize(("values", "are_classes"), CHOICES.values(), ids=CHOICES)
def test_classes_are_the_indices_of_the_largest_scores_alone(values: np.ndarray, are_classes: bool) -> None:
    expected = expect(IDS[:12], {"SCORES": CLASSES["SCORES"], "OUT": values})
    assert expected.score_output_of == ({"OUT": ("SCORES", 1)} if are_classes else {})
    same = expect(IDS[:12], {"SCORES": np.zeros_like(CLASSES["SCORES"]), "OUT": values})
    assert not same.score_output_of, "scores that are all equal choose nothing"


def test_integers_that_are_no_indices_are_no_classes_although_scores_are_equal() -> None:
    scores, counts = np.zeros((20, 3), np.float32), np.array([7] * 10 + [1] * 10)
    scores[-1, 1] = 1.0
    expected = {"SCORES": scores, "COUNT": counts}
    assert compared(expected, {**expected, "COUNT": np.where(counts == 1, 0, counts)}, range(20)).wrong == 10


def test_class_chosen_by_rounding_may_differ_in_every_row() -> None:
    """Two classes have the same score, up to FP32's noise."""
    scores = np.stack([ROWS[:, 0], ROWS[:, 0], ROWS[:, 0] - 1], axis=1)
    expected = {"SCORES": scores, "LABEL": np.zeros((20, 1), np.int64)}

    def wrong(label: int) -> int:
        given = {"SCORES": noisy(scores, 1e-7), "LABEL": np.full((20, 1), label)}
        return compared(expected, given, range(20)).wrong

    assert (wrong(1), wrong(2)) == (0, 20)


def test_place_of_a_mask_may_differ_only_if_its_scores_tie() -> None:
    """The other numbers of such a row are still compared."""
    scores = np.random.default_rng(3).uniform(size=(6, 3, 5, 5)).astype(np.float32)
    scores[:, 1, 2, 2], scores[:, 2, 2, 2] = 1.5, 1.5 - 1e-4
    mask = scores.argmax(axis=1)
    tied = np.where(np.arange(25).reshape(5, 5) == 12, 2, mask)
    for axes in (mask.shape, (6, 1, 5, 5)):
        expected = {"SCORES": scores, "MASK": mask.reshape(axes)}

        def wrong(scores: np.ndarray, mask: np.ndarray, expected: Arrays = expected) -> int:
            given = {"SCORES": scores, "MASK": mask.reshape(expected["MASK"].shape)}
            return compared(expected, given, range(6), WIDE).wrong

        assert wrong(scores, tied) == 0
        assert (wrong(scores, (mask + 1) % 3), wrong(scores[:, ::-1], tied)) == (6, 6)


def test_few_integers_of_a_long_output_may_differ() -> None:
    """The comparison then leaves out the row's other outputs."""
    masks = np.arange(2000).reshape(20, 100)
    expected = {"MASK": masks, "OUT": ROWS}

    def of(differing: int, change: float) -> AnswerComparison:
        mask = masks[[7]] + (np.arange(100) < differing)
        return compared(expected, {"MASK": mask, "OUT": ROWS[[7]] + np.float32(change)}, [7], TIES)

    assert (of(2, 1.0).wrong, of(2, 1.0).left_out) == (0, 1)
    assert of(2, 1.0).agreement == pytest.approx(0.98)
    assert [of(*wrong).wrong for wrong in ((2, np.nan), (50, 0.0), (0, 1.0))] == [1, 1, 1]


def test_differing_integers_are_bounded_over_all_rows() -> None:
    masks = np.arange(2000).reshape(20, 100)

    def wrong(rows: int) -> int:
        given = masks + (np.arange(20) < rows)[:, None] * (np.arange(100) < 3)
        return compared({"MASK": masks}, {"MASK": given}, range(20), TIES).wrong

    assert [wrong(rows) for rows in (6, 7, 20)] == [0, 7, 20]


@pytest.mark.parametrize("offset", [0, 1000])
def test_swapped_rows_fail_under_any_limit(offset: float) -> None:
    wide, expected = AnswerLimits(NumberLimits(4.0, np.inf)), ROWS + np.float32(offset)
    given = expected.copy()
    given[[3, 7]] = expected[[7, 3]]
    assert compared({"OUT": expected}, {"OUT": expected + np.float32(0.1)}, range(20), wide).wrong == 0
    assert compared({"OUT": expected}, {"OUT": given}, range(20), wide).wrong == 2


@pytest.mark.parametrize(("share", "wrong"), [(0.6, 0), (0.7, 1)])
def test_answer_twice_as_near_to_another_samples_is_wrong(share: float, wrong: int) -> None:
    wide, expected = AnswerLimits(NumberLimits(4.0, np.inf)), ROWS[:2]
    given = expected[:1] + np.float32(share) * (expected[1] - expected[0])
    assert compared({"OUT": expected}, {"OUT": given}, [0], wide).wrong == wrong


@pytest.mark.parametrize("min_noise", [CaseLimits.min_noise, 0.1])
@pytest.mark.parametrize(
    ("repeated", "allowed"),
    [(ROWS, 0.0), (FEW_WRONG, 0.0), (noisy(ROWS, 1e-3), 0.05), (noisy(ROWS, 0.5), 0.02)],
    ids=["none", "a few wrong answers are none", "some", "a fault, and no noise"],
)
def test_repeated_request_sets_noise_limit(repeated: np.ndarray, allowed: float, min_noise: float) -> None:
    repeats = [Answer(np.array([n]), {"OUT": repeated[[n]]}) for n in range(20)]
    limits = CaseLimits(WIDE, WIDE, min_noise=min_noise)
    alone = make_single_answers(IDS, {n: {"OUT": ROWS[n]} for n in range(20)}, limits, repeats)
    noise = alone.within_noise.limits.widest.max_element
    assert min_noise <= noise <= min(max(allowed, min_noise), alone.across_kernels.limits.widest.max_element)
    assert (noise > min_noise) == (allowed > min_noise)


@pytest.mark.parametrize(
    ("elements", "flipped", "allowed"),
    [(1000, 0, 1.0), (1000, 1, WIDE.agreement_of("OUT")), (1000, 50, 1.0), (1, 1, 1.0)],
    ids=["steady", "a tie in a mask", "a fault", "a class"],
)
def test_repeated_request_shows_ties_of_integers(elements: int, flipped: int, allowed: float) -> None:
    """On an H200 one voxel in two million of nnU-Net's masks changed, without scores that show noise."""
    masks, again = np.zeros((2, 20, elements), np.int64)
    again[4, :flipped] = 1
    repeats = [Answer(np.array([n]), {"OUT": again[[n]]}) for n in range(20)]
    rows = {n: {"OUT": masks[n]} for n in range(20)}
    singles = make_single_answers(IDS, rows, CaseLimits(WIDE, WIDE), repeats)
    assert singles.within_noise.limits.agreement_of("OUT") == allowed
    passes = not singles.within_noise.compare(repeats).result.wrong
    assert passes == (not flipped or allowed < 1)


def test_equal_answers_for_all_samples_are_reported() -> None:
    alike = np.zeros_like(ROWS), np.tile(TEXTS[:1], (20, 1)), np.abs(ROWS) * 1e-7  # of shares, 1 at most
    entries = [compared({"OUT": rows}, {"OUT": rows}, range(20)) for rows in (ROWS, TEXTS, *alike)]
    assert [entry.tells_apart for entry in entries] == [True, True, False, False, False]
    expected = expect(IDS, {"OUT": (texts := TEXTS.copy())})
    assert expected.tells_apart(1e-6)
    texts[:] = texts[0]
    assert expected.tells_apart(1e-6), "kept: for 64 masks it takes longer than an answer"


def test_merged_comparisons_have_the_worst_of_all() -> None:
    good = AnswerComparison(40, 0, 3e-3, 1e-2, 1.0, 1, "a")
    bad = AnswerComparison(30, 4, 2e-3, 1e-4, 0.5, 2, "b", tells_apart=False)
    texts = AnswerComparison(2, agreement=1.0)

    worst = merge_comparisons([good, bad])
    assert worst == merge_comparisons([bad, good])
    assert (worst.count, worst.left_out, worst.tells_apart) == (70, 3, True)
    assert (worst.agreement, worst.wrong, worst.sample, worst.relative_difference) == (0.5, 4, "b", 2e-3)
    assert worst.limit == 1e-4, "its own, which the difference exceeds"
    tied = AnswerComparison(40, 0, 0.0, agreement=0.4)
    assert difference_text(tied) == "60.00 % of the elements"
    merged = merge_comparisons([tied, bad])
    assert (merged.agreement, merged.sample) == (0.4, "b")
    assert merge_comparisons([texts, texts]).relative_difference is None
    assert merge_comparisons([texts, good]).relative_difference == 3e-3
    nothing, infinite = AnswerComparison(0), AnswerComparison(1, 1, None, 1e-2, 1.0)
    assert merge_comparisons([nothing, tied]).agreement == 0.4
    assert merge_comparisons([tied, infinite, bad]).relative_difference is None, "one is not finite"
