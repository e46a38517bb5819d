"""Online: single requests from many clients, joined to batches by the server."""

from collections.abc import Callable
from typing import Any

import pytest

from fixtures.load import Measurement
from fixtures.plugin.entries import Entry
from fixtures.plugin.lifetimes import Recorder
from reports.record import Serving


@pytest.mark.load
def test_online(
    measure_point: Callable[[], tuple[Serving, Measurement]], recorder: Recorder, benchmark: Any, entry: Entry
) -> None:
    """Throughput and latency with one number of requests in flight."""
    serving, measured = measure_point()
    recorder.load(serving, measured.load)
    recorder.figure(entry(benchmark, measured))
    assert measured.load.throughput_per_s.value > 0
