"""Does a sentence about a wrong case give each number the place that its words say: found beside allowed, expected beside given?"""

import re

import pytest

from reports.record.schema import AnswerGate, Disagreement, OutputDifference
from reports.text.correctness import accuracy_sentence, gate_failures, gate_text, ledger_failures
from tests import samples

NUMBER = r"([\d.e-]+)"


def failure(kind: str, **changes: object) -> str:
    """What is said of a served output whose worst place should hold 1.5 and holds 2.25."""
    fields = {"largest": 0.75, "largest_limit": 0.5, "mean": 0.25, "mean_limit": 0.1} | changes
    one = OutputDifference("OUT__0", kind, **fields, sample="row-7", expected=1.5, given=2.25, source="s")  # type: ignore[arg-type]
    (said,) = ledger_failures(samples.accuracy(outputs=(one,), passed=False))
    return said


def test_an_output_that_is_off_says_by_how_much_and_how_much_it_may_be() -> None:
    said = failure("error")

    numbers = re.search(
        rf"mean {NUMBER}, limit {NUMBER}; at most {NUMBER} of the spread, limit {NUMBER}; worst in sample row-7: "
        rf"expected {NUMBER}, given {NUMBER};",
        said,
    )
    assert numbers is not None, said
    assert [float(one) for one in numbers.groups()] == pytest.approx([0.25, 0.1, 0.75, 0.5, 1.5, 2.25])
    assert "OUT__0" in said


def test_integers_that_differ_are_told_as_a_share_of_all_with_the_share_that_may() -> None:
    shares = re.search(rf"{NUMBER} % of its integers differ, limit {NUMBER} %", failure("differing"))

    assert shares is not None
    assert [float(one) for one in shares.groups()] == [25, 10]


def test_samples_that_were_lost_are_not_told_as_gained() -> None:
    differ = Disagreement(("converted", "served"), 5, 4, 1, ("row-7",), 0.99, 0.9)
    said = accuracy_sentence(samples.record(accuracy=samples.accuracy(disagreements=(differ,))))

    assert "5 between converted and served (4 lost, 1 gained)" in said


def test_stages_that_decide_differently_say_how_far_they_agree_and_how_far_they_have_to() -> None:
    differ = Disagreement(("converted", "served"), 20, 0, 0, ("row-7",), 0.8, 0.9)
    (said,) = ledger_failures(samples.accuracy(disagreements=(differ,), passed=False))

    shares = re.search(rf"converted and served .*agreement {NUMBER} %, limit {NUMBER} %", said)
    assert shares is not None
    assert [float(one) for one in shares.groups()] == [80, 90]


# --- gates -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "is_apart"),
    [(samples.gate(), True), (samples.gate("malformed", same=None), False), (samples.gate(wrong="x"), False)],
)
def test_a_gate_says_what_it_tried_and_how_far_answers_were_apart(found: AnswerGate, is_apart: bool) -> None:
    assert found.tried in gate_text(found)
    assert ("2e-07" in gate_text(found)) == is_apart


def test_failures_come_in_the_order_of_the_gates_with_their_names() -> None:
    found = [
        samples.gate("malformed", "answered"),
        samples.gate("batches", "differs"),
        samples.gate("repeated"),
    ]

    assert gate_failures(found) == ["differs (gate batches)", "answered (gate malformed)"]
