"""Online: single requests from many clients, joined to batches by the server."""

from collections.abc import Callable

import pytest


@pytest.mark.load
@pytest.mark.stage("online")
def test_online(prove_speed: Callable[[], None]) -> None:
    """Throughput and latency with one number of requests in flight, or at one rate; not slower than asked for."""
    prove_speed()
