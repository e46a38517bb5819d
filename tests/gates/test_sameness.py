"""Do answers to one sample equal each other? Answers made up, of every type, and what is said of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fixtures.gates.sameness import Sameness, compare, rows_of, with_same_answers
from fixtures.prove.sameness import Answer, Closeness
from reports.words.answers import same_answers_text
from reports.words.rightness import ledger_failures
from tests import samples

ROWS = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
IDS = [f"row-{n}" for n in range(20)]
NEAR = Closeness(0.01, 0.01, 1.0)
TEXTS = np.array([[f"text {n}".encode(), b"\xff"] for n in range(20)], object)


def compared(outputs: Any, which: Sequence[int], right: Any = ROWS, near: Closeness = NEAR) -> Sameness:
    """What is said of one answer to these samples, where `right` was given to each alone."""
    alone = rows_of([Answer(np.array([n]), {"OUT": right[n][None]}) for n in range(len(right))])
    return compare(near, IDS, alone, [Answer(np.asarray(which), {"OUT": outputs})])


@pytest.mark.parametrize(
    "right",
    [ROWS, TEXTS, np.arange(40).reshape(20, 2), ROWS > 0],
    ids=["floats", "texts", "integers", "truth"],
)
def test_equal_answers_are_the_same_in_any_order_and_any_type(right: np.ndarray) -> None:
    found = compared(right[[5, 3, 3, 19]], [5, 3, 3, 19], right)

    assert (found.wrong, found.found.answers, found.found.agreement, found.found.passed) == (0, 4, 1.0, True)
    assert found.found.sample == "", "none differs most"


@pytest.mark.parametrize(
    ("right", "change"),
    [
        (ROWS, lambda rows: rows + 0.3),
        (ROWS, lambda rows: rows * np.where(np.arange(4) == 2, np.nan, 1)),
        (ROWS, lambda rows: rows[:, :3]),
        (ROWS, lambda rows: rows[::-1]),
        (ROWS, lambda rows: rows[:1]),
        (TEXTS, lambda rows: rows[::-1]),
        (np.arange(400).reshape(20, 20), lambda rows: rows + (np.arange(20) == 7)),
        (ROWS > 0, lambda rows: ~rows),
    ],
    ids=[
        "another value",
        "no number",
        "another shape",
        "rows swapped",
        "a row missing",
        "texts",
        "one integer",
        "truth",
    ],
)
def test_an_answer_that_differs_is_counted_and_its_sample_named(right: np.ndarray, change: Any) -> None:
    found = compared(change(right[[4, 9]]), [4, 9], right)

    assert found.wrong >= 1
    assert found.first_wrong is not None
    assert found.first_wrong.sample in ("row-4", "row-9")
    assert found.first_wrong.expected != found.first_wrong.given
    (failure,) = ledger_failures(with_same_answers(samples.accuracy(), found.found))
    assert found.found.sample in failure


def test_an_output_that_is_gone_is_another_answer() -> None:
    alone = rows_of([Answer(np.array([0]), {"OUT": ROWS[:1], "MORE": ROWS[:1]})])

    found = compare(NEAR, IDS, alone, [Answer(np.array([0]), {"OUT": ROWS[:1]})])

    assert found.wrong == 1
    assert found.first_wrong is not None
    assert found.first_wrong.output.startswith("MORE")


def test_rounding_passes_and_is_told_in_one_figure() -> None:
    found = compared(ROWS[[1, 2]] * np.float32(1 + 1e-5), [1, 2]).found

    assert found.passed
    assert found.relative_difference is not None
    assert 0 < found.relative_difference < 2e-5
    assert "e-0" in same_answers_text(found) or "0.0000" in same_answers_text(found)
    assert with_same_answers(samples.accuracy(), found).passed


def test_some_integers_may_differ_where_the_model_s_tolerance_lets_some_decisions() -> None:
    masks = np.arange(2000).reshape(20, 100)
    near = Closeness(0.01, 0.01, 0.99)
    few, many = masks[[0]] + (np.arange(100) < 2), masks[[0]] + (np.arange(100) < 50)

    assert compared(few, [0], masks, near).found.passed
    assert compared(few, [0], masks, near).found.agreement == pytest.approx(0.98)
    assert compared(many, [0], masks, near).wrong == 1


def test_no_number_twice_is_the_same_answer() -> None:
    right = ROWS.copy()
    right[:, 1] = np.nan

    assert compared(right[[3]], [3], right).wrong == 0


def test_answers_of_several_shapes_are_held_to_their_own() -> None:
    rows = {n: ROWS[n, : 1 + n % 3] for n in range(6)}
    alone = rows_of([Answer(np.array([n]), {"OUT": row[None]}) for n, row in rows.items()])
    again = [Answer(np.array([n]), {"OUT": row[None]}) for n, row in rows.items()]

    assert compare(NEAR, IDS, alone, again).found.answers == 6
    assert compare(NEAR, IDS, alone, again).wrong == 0
    again[4] = Answer(np.array([4]), {"OUT": rows[5][None]})
    assert compare(NEAR, IDS, alone, again).wrong == 1


@pytest.mark.parametrize(("before", "same"), [(True, False), (False, True), (True, True)])
def test_a_ledger_holds_where_it_held_before_and_its_samples_get_the_same_answers(
    before: bool, same: bool
) -> None:
    ledger = samples.accuracy() if before else samples.failed_accuracy()
    found = compared(ROWS[[1]] + np.float32(0 if same else 1), [1]).found

    assert with_same_answers(ledger, found).passed is (before and same)


def test_of_an_output_that_is_nothing_but_zeros_the_difference_itself_is_told() -> None:
    zeros = np.zeros((20, 4), np.float32)

    assert compared(zeros[[1]], [1], zeros).found.relative_difference == 0.0
    assert compared(zeros[[1]] + np.float32(0.5), [1], zeros).found.relative_difference == 0.5
