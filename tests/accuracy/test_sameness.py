"""How many integers of a row may differ, by the share that the precision changes over all rows."""

import pytest

from tritonproof.accuracy.sameness import allowed_in_a_row


@pytest.mark.parametrize(
    ("size", "agreement", "allowed"),
    [(1000, 1.0, 0.0), (4, 0.99, 2.0), (1000, 0.999, 8.2), (1000, 0.9, 352.0)],
)
def test_row_may_differ_by_three_times_the_share_and_chance(
    size: int, agreement: float, allowed: float
) -> None:
    assert allowed_in_a_row(size, agreement) == pytest.approx(allowed, rel=0.01)
