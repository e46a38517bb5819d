"""The online scenario: single requests from many clients, which the server joins to batches."""

from collections.abc import Callable

import pytest


@pytest.mark.load
@pytest.mark.stage("online")
def test_online(prove_speed: Callable[[], None]) -> None:
    """Measures throughput and latency at a concurrency or a request rate; fails if it is shown to be slower
    than allowed."""
    prove_speed()
