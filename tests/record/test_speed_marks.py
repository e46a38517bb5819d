"""Who adds a number to the record decides whether it tells a speed, which a case not proven right hides."""

from collections.abc import Set
from typing import Any, get_args, get_type_hints

import pytest

from tritonproof.record import Record, Soak, fields
from tritonproof.record.speed import Efficiency, LoadPoint, PointResult, Search

NO_SPEED: dict[type, Set[str]] = {
    # If a search has found the rate, `publishable` empties it.
    LoadPoint: {"batch", "concurrency", "request_rate_per_s"},
    PointResult: {"requests", "warm_up_s", "samples"},
    Search: {"latency_budget_ms", "configurations", "pass_count", "duration_s"},
    Soak: {"requests", "pass_count", "failed_attempt_count", "loadings"},
    Efficiency: set(),
}
"""The numbers that tell no speed: settings, how much was measured, and times of more than requests."""


def is_number(hint: Any) -> bool:
    """Whether a field holds a number or an estimate, alone or in a mapping or tuple."""
    if parts := get_args(hint):
        return any(map(is_number, parts))
    return isinstance(hint, type) and issubclass(hint, int | float | fields.Estimate) and hint is not bool


def is_marked(hint: Any) -> bool:
    return fields.SPEED in getattr(hint, "__metadata__", ())


@pytest.mark.parametrize("part", NO_SPEED)
def test_unmarked_numbers_tell_no_speed(part: type) -> None:
    """An efficiency is hidden as a whole, by the mark of its field in the record."""
    hints = get_type_hints(part, include_extras=True)
    is_hidden = part is Efficiency and is_marked(get_type_hints(Record, include_extras=True)["efficiency"])
    speeds = {name for name, hint in hints.items() if is_hidden or is_marked(hint)}
    numbers = {name for name, hint in hints.items() if is_number(hint)}
    assert numbers - speeds == NO_SPEED[part], "mark a speed with SPEED; list other numbers in NO_SPEED"
