"""Each quantity has one way to write its values."""

import pytest

from reports.record.quantities import (
    ERROR,
    GIVEN_SHARE,
    RATIO,
    SCORE,
    THROUGHPUT,
    Quantity,
)
from reports.record.schema import Estimate


@pytest.mark.parametrize(
    ("quantity", "value", "said"),
    [
        (THROUGHPUT, 0.14162, "0.142 infer/s"),
        (THROUGHPUT, 1915.52, "1,915.5 infer/s"),
        (RATIO, 0.0512, "0.051"),
        (RATIO, 1.5, "1.50"),
        (RATIO, 123.4, "123"),
        (GIVEN_SHARE, 0.025, "2.5 %"),
        (SCORE, 0.9825, "98.25 %"),
        (SCORE, 0.98, "98.0 %"),
    ],
)
def test_figure_is_rounded_to_its_precision(quantity: Quantity, value: float, said: str) -> None:
    assert quantity.text(value) == said


def test_bounds_have_enough_digits_to_differ_from_limit() -> None:
    assert RATIO.cell_with_interval(Estimate(0.95, 0.93, 0.968), 0.97) == "0.950 (0.930 to 0.968)"
    assert RATIO.cell_with_interval(Estimate(1.0, 1.0, 1.0), 1.0) == "1.00 (1.00 to 1.00)"


def test_ratio_with_an_open_interval_is_not_shown() -> None:
    assert RATIO.cell_with_interval(Estimate(12.3, 11.9, 12.8, open_above=True)) == "not shown"


@pytest.mark.parametrize(("one", "other"), [(0.93999, 0.94), (0.5, 0.9), (0.9400000001, 0.94)])
def test_different_values_render_differently(one: float, other: float) -> None:
    for quantity in (SCORE, ERROR):
        first, second = quantity.apart(one, other)
        assert first != second
