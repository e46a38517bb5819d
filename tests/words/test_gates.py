"""What is said of the gates that need no labels: in a test's line, in a table, and where a speed would stand."""

from reports.page.interval_tables import accuracy_text
from reports.record.schema import GATES
from reports.text.correctness import gate_failures, gate_text
from reports.text.publishable import publishable
from tests import samples
from tests.rendered import gates_table


def test_a_gate_says_what_it_tried_and_how_far_answers_were_apart() -> None:
    assert "32 of 32 batch sizes" in gate_text(samples.gate())
    assert "e-07" in gate_text(samples.gate())
    assert "differ" in gate_text(samples.gate())
    assert "differ" not in gate_text(samples.gate("malformed", same=None))


def test_failures_come_in_the_order_of_the_gates_with_their_names() -> None:
    found = [
        samples.gate("malformed", "answered"),
        samples.gate("batches", "differs"),
        samples.gate("repeated"),
    ]

    assert [text.split(" ")[0] for text in gate_failures(found)] == ["differs", "answered"]
    assert all(
        name in text for name, text in zip(("batches", "malformed"), gate_failures(found), strict=True)
    )


def test_the_table_has_a_row_for_each_gate_and_harmless_text() -> None:
    found = [samples.gate(name) for name in GATES] + [samples.gate("malformed", "<b>|\n")]

    rows = gates_table(found).splitlines()

    assert len(rows) == 2 + len(GATES) + 1
    assert sum("passed" in row for row in rows) == len(GATES)
    assert "<b>" not in "".join(rows).replace("\\<b>", "")
    assert gates_table([]) == ""


def test_a_page_shows_the_gates_and_a_failed_one_hides_the_speed() -> None:
    right, wrong = (
        samples.record(gates=(samples.gate(),)),
        samples.record(gates=(samples.gate(wrong="it differs"),)),
    )

    assert "32 of 32 batch sizes" in accuracy_text(right)
    assert publishable(right).loads
    assert not publishable(wrong).loads
    assert "it differs" in publishable(wrong).no_speed
