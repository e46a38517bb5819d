"""Waiting for what another process or thread brings about."""

import time
from collections.abc import Callable


def wait_until(
    is_so: Callable[[], object], limit_s: float = 60.0, said: Callable[[], object] = lambda: ""
) -> None:
    """Wait until something is so, which takes seconds; the limit bounds a hang. Raises AssertionError with what is `said`
    then."""
    deadline = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < deadline, said() or f"it is not so after {limit_s:g} s"
        time.sleep(0.02)
