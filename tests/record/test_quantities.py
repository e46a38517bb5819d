"""Each quantity has one way to write its values."""

import pytest

from reports.record.quantities import (
    AGREEMENT,
    DURATION,
    ERROR,
    GIVEN_SHARE,
    LATENCY,
    RATIO,
    SCORE,
    SHARE,
    THROUGHPUT,
    Quantity,
)
from reports.record.schema import Estimate


@pytest.mark.parametrize(
    ("quantity", "value", "said"),
    [
        (THROUGHPUT, 0.14162, "0.142 infer/s"),
        (THROUGHPUT, 9.5, "9.5 infer/s"),
        (THROUGHPUT, 1915.52, "1,915.5 infer/s"),
        (LATENCY, 2.0461, "2.046 ms"),
        (RATIO, 0.0512, "0.051"),
        (RATIO, 1.5, "1.50"),
        (RATIO, 123.4, "123"),
        (SHARE, 0.972, "97 %"),
        (SHARE, 0.0512, "5.1 %"),
        (GIVEN_SHARE, 0.95, "95 %"),
        (GIVEN_SHARE, 0.025, "2.5 %"),
        (DURATION, 0.21, "0.21 s"),
        (DURATION, 3725.0, "3,725 s"),
        (SCORE, 0.9825, "98.25 %"),
        (SCORE, 0.98, "98.0 %"),
        (ERROR, 0.0124567, "0.01246"),
        (AGREEMENT, 1.0, "100.00 %"),
    ],
)
def test_figure_is_rounded_to_its_precision(quantity: Quantity, value: float, said: str) -> None:
    assert quantity.text(value) == said


def test_interval_has_digits_of_its_value() -> None:
    assert THROUGHPUT.cell_with_interval(Estimate(10.04, 9.8765, 10.2)) == "10.0 (9.9 to 10.2)"
    assert RATIO.cell_with_interval(Estimate(0.11, 0.095, 0.125)) == "0.11 (0.10 to 0.12)"


def test_bounds_have_enough_digits_to_differ_from_limit() -> None:
    assert RATIO.cell_with_interval(Estimate(0.95, 0.93, 0.968), 0.97) == "0.950 (0.930 to 0.968)"
    assert RATIO.cell_with_interval(Estimate(0.95, 0.93, 0.96), 0.97) == "0.95 (0.93 to 0.96)"
    assert RATIO.cell_with_interval(Estimate(1.0, 1.0, 1.0), 1.0) == "1.00 (1.00 to 1.00)"


def test_open_interval_is_shown_as_open() -> None:
    p99 = Estimate(12.3, 11.9, 12.8, open_above=True)
    assert LATENCY.cell_with_interval(p99) == "12.300 (11.900 or more)"
    assert LATENCY.text_with_interval(p99) == "12.300 ms (11.900 or more)"
    assert RATIO.cell_with_interval(p99) == "not shown"


@pytest.mark.parametrize(("one", "other"), [(0.93999, 0.94), (0.5, 0.9), (0.9400000001, 0.94)])
def test_different_values_render_differently(one: float, other: float) -> None:
    for quantity in (SCORE, ERROR):
        first, second = quantity.apart(one, other)
        assert first != second
