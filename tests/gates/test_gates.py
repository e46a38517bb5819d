"""Each gate of the record has a check, in the order in which reports show them."""

from tritonproof.gates import GATE_CHECKS
from tritonproof.record.schema import GATES


def test_every_gate_has_a_check() -> None:
    assert [*GATE_CHECKS, "baseline"] == [*GATES]
