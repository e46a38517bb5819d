"""Offline: data are at hand, one request of a whole batch at a time, no dynamic batching."""

from collections.abc import Callable

import pytest


@pytest.mark.load
@pytest.mark.stage("offline")
def test_offline(prove_speed: Callable[[], None]) -> None:
    """Throughput and latency at one batch size; not slower than asked for."""
    prove_speed()
