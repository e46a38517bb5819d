"""Which row of an answer is named, and how many are counted, where some are right and some are wrong."""

from typing import Any

import numpy as np
import pytest

from fixtures.gates.sameness import Sameness, compare, joined, rows_of
from fixtures.prove.sameness import Answer, Closeness
from reports.record.schema import SameAnswers

IDS = [f"row-{n}" for n in range(6)]
NEAR = Closeness(0.01, 0.01, 1.0)
SCORES = np.arange(12, dtype=np.float32).reshape(6, 2)
TEXTS = np.array([[f"text {n}".encode()] for n in range(6)], object)


def compared(samples: list[int], **outputs: Any) -> Sameness:
    """What is said of one answer to these samples, where SCORES and TEXTS are right."""
    alone = rows_of(
        [Answer(np.array([n]), {"SCORES": SCORES[n][None], "TEXTS": TEXTS[n][None]}) for n in range(6)]
    )
    right = {"SCORES": SCORES[samples], "TEXTS": TEXTS[samples]}
    return compare(NEAR, IDS, alone, [Answer(np.array(samples), right | outputs)])


def test_of_several_texts_the_wrong_one_is_named() -> None:
    texts = TEXTS[[1, 3, 5]].copy()
    texts[1] = b"another"
    found = compared([1, 3, 5], TEXTS=texts)

    assert found.wrong == 1
    assert found.first_wrong is not None
    assert (found.first_wrong.sample, found.first_wrong.output) == ("row-3", "TEXTS[0]")
    assert "text 3" in found.first_wrong.expected
    assert "another" in found.first_wrong.given


def test_wrong_texts_and_wrong_numbers_add_up() -> None:
    texts, scores = TEXTS[[0, 1, 2, 3]].copy(), SCORES[[0, 1, 2, 3]].copy()
    texts[0] = b"another"
    scores[2] += 5
    found = compared([0, 1, 2, 3], TEXTS=texts, SCORES=scores)

    assert found.wrong == 2
    assert found.found.answers == 4
    assert not found.found.passed
    texts[3], scores[1] = b"one more", scores[1] + 5
    assert compared([0, 1, 2, 3], TEXTS=texts, SCORES=scores).wrong == 4


def test_an_answer_wrong_in_two_ways_is_one_wrong_answer() -> None:
    found = compared([4], TEXTS=np.array([[b"another"]], object), SCORES=SCORES[[4]] + 5)

    assert found.wrong == 1


def test_the_largest_difference_is_a_share_of_the_largest_value_and_names_its_sample() -> None:
    scores = SCORES[[1, 2, 3]].copy()
    scores[1, 0] += 0.011
    found = compared([1, 2, 3], SCORES=scores)

    assert found.wrong == 0
    assert found.found.relative_difference is not None
    np.testing.assert_allclose(found.found.relative_difference, 0.011 / 11, rtol=1e-3)
    assert found.found.sample == "row-2"


def test_of_several_ways_the_worst_counts() -> None:
    good, bad = (
        SameAnswers(8, 40, 1e-6, 1.0, passed=True, sample="a"),
        SameAnswers(6, 30, 2e-3, 0.5, passed=False, sample="b"),
    )

    found = joined([good, bad])

    assert found == joined([bad, good])
    assert (found.samples, found.answers, found.agreement, found.passed, found.sample) == (
        8,
        70,
        0.5,
        False,
        "b",
    )
    assert found.relative_difference == 2e-3
    texts = SameAnswers(2, 2, None, 1.0, passed=True)
    assert joined([texts, texts]).relative_difference is None
    assert joined([texts, good]).relative_difference == 1e-6


def one_answer(right: Any, given: Any, sample: int = 2) -> Sameness:
    """What is said of an output of one sample, where another was given alone."""
    alone = rows_of([Answer(np.array([sample]), {"OUT": np.asarray(right)[None]})])
    return compare(NEAR, IDS, alone, [Answer(np.array([sample]), {"OUT": np.asarray(given)[None]})])


@pytest.mark.filterwarnings("error")
def test_a_sample_without_any_element_has_the_same_answer_as_itself() -> None:
    """Nothing was detected in it."""
    for kind in (object, np.int64, np.float32):
        found = one_answer(np.zeros(0, kind), np.zeros(0, kind))
        assert (found.wrong, found.found.agreement) == (0, 1.0)


@pytest.mark.parametrize(
    "given", [["a"], ["a", "b", "c"], [["a", "b"]]], ids=["fewer", "more", "another rank"]
)
def test_texts_of_another_shape_are_told_by_their_shapes(given: Any) -> None:
    found = one_answer(np.array(["a", "b"], object), np.array(given, object))

    assert found.first_wrong is not None
    assert (found.first_wrong.expected, found.first_wrong.given) == ("(2,)", str(np.shape(given)))
    assert found.found.agreement == 0.0


def test_one_number_for_a_whole_batch_is_no_answer_to_a_sample_of_it() -> None:
    alone = rows_of([Answer(np.array([1]), {"OUT": SCORES[[1]], "LOSS": np.array(0.5)})])
    assert alone[1].keys() == {"OUT"}

    found = compare(NEAR, IDS, alone, [Answer(np.array([1]), {"OUT": np.array(0.5)})])

    assert found.wrong == 1


def test_the_sample_that_is_named_is_a_wrong_one_however_far_a_right_one_is_apart() -> None:
    texts, scores = TEXTS[[1, 3]].copy(), SCORES[[1, 3]].copy()
    texts[1], scores[0, 0] = b"another", scores[0, 0] + 0.011
    right = {n: {"TEXTS": TEXTS[n], "SCORES": SCORES[n]} for n in range(6)}

    found = compare(NEAR, IDS, right, [Answer(np.array([1, 3]), {"TEXTS": texts, "SCORES": scores})])

    assert found.wrong == 1
    assert found.found.sample == "row-3"


def test_a_long_text_is_cut_where_it_is_told() -> None:
    found = one_answer(np.array(["x" * 500], object), np.array(["y" * 500], object))

    assert found.first_wrong is not None
    assert 40 < len(found.first_wrong.given) < 100
    assert 40 < len(found.first_wrong.expected) < 100


def test_an_output_of_one_number_for_each_row_is_compared_too() -> None:
    alone = rows_of([Answer(np.array([n]), {"CLASS": np.array([n])}) for n in range(6)])

    def wrong(classes: list[int]) -> int:
        return compare(NEAR, IDS, alone, [Answer(np.array([1, 4]), {"CLASS": np.array(classes)})]).wrong

    assert [wrong([1, 4]), wrong([1, 3]), wrong([2, 3])] == [0, 1, 2]
