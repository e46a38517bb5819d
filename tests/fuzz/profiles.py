"""How many examples a test of hostile input tries: a few that are the same in every run, or minutes of new ones."""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

_Value = TypeVar("_Value")

# Neither keeps a database: what is found is written down beside its parser, as `found`.
_ALWAYS = settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))
FEW = settings(_ALWAYS, max_examples=12, derandomize=True, phases=(Phase.explicit, Phase.generate))
"""Of the ordinary tests: the same examples in every run, some milliseconds each."""
MANY = settings(_ALWAYS, max_examples=200)
"""Of the campaign: new ones in each run, so many at once until its seconds are over, and the smallest that fails."""


def tried(
    check: Callable[[_Value], None],
    values: st.SearchStrategy[_Value],
    found: Sequence[_Value] = (),
    seconds: float | None = None,
) -> None:
    """Call `check` with values: with those in `found`, then with a few, or for so many seconds with new ones."""
    test = given(values)(check)
    for one in found:
        test = example(one)(test)
    if seconds is None:
        FEW(test)()
        return
    ends = time.monotonic() + seconds
    many = MANY(test)
    while time.monotonic() < ends:
        many()
