"""The offline scenario: one request of a whole batch at a time, without dynamic batching."""

from collections.abc import Callable

import pytest


@pytest.mark.load
@pytest.mark.stage("offline")
def test_offline(prove_speed: Callable[[], None]) -> None:
    """Measures throughput and latency at a batch size; fails if it is shown to be slower than allowed."""
    prove_speed()
