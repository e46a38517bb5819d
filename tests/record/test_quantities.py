"""Each quantity has one way to write its values."""

import pytest

from tritonproof.record.fields import Ratio
from tritonproof.record.quantities import COST, ERROR, RATIO, SCORE


def test_bounds_have_enough_digits_to_differ_from_limit() -> None:
    assert RATIO.text_with_interval(Ratio(0.95, 0.93, 0.968), 0.97) == "0.950 (0.930 to 0.968)"
    assert RATIO.text_with_interval(Ratio(1.0, 1.0, 1.0), 1.0) == "1.00 (1.00 to 1.00)"


def test_large_figure_has_no_exponent() -> None:
    assert [COST.cell(value) for value in (0.012, 999.4, 999.6, 1403.8)] == ["0.012", "999", "1000", "1404"]


@pytest.mark.parametrize(("one", "other"), [(0.93999, 0.94), (0.5, 0.9), (0.9400000001, 0.94)])
def test_different_values_render_differently(one: float, other: float) -> None:
    for quantity in (SCORE, ERROR):
        first, second = quantity.apart(one, other)
        assert first != second
    assert SCORE.apart(0.98, 0.9825) == ("98.0 %", "98.25 %")
