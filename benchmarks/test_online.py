"""Online: single requests from many clients, joined to batches by the server."""

from collections.abc import Callable
from typing import Any

import pytest

from fixtures.errors import SpeedError
from fixtures.measure.load_points import Measurement
from fixtures.plugin.benchmark_entries import Entry
from fixtures.plugin.recorder import Recorder
from reports.record.verdicts import comparison_text


@pytest.mark.load
@pytest.mark.stage("online")
def test_online(
    measure_point: Callable[[], Measurement], recorder: Recorder, benchmark: Any, entry: Entry
) -> None:
    """Throughput and latency with one number of requests in flight, or at one rate; not slower than asked for."""
    measured = measure_point()
    recorder.figure(entry(benchmark, measured))
    assert measured.load.throughput_per_s.value > 0
    compared = measured.load.comparison
    if compared is not None and compared.verdict == "slower":
        raise SpeedError(comparison_text(compared))
