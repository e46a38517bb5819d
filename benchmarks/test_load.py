"""The speed at each load point: online, single requests from many clients, which the server joins to batches;
and offline, one request of a whole batch at a time, without dynamic batching."""

from typing import Any

import pytest

from benchmarks.assertions import prove_speed
from fixtures.plugin.recorder import Recorder
from fixtures.run.case_run import CaseRun
from fixtures.spec import LoadPoint


@pytest.mark.load
@pytest.mark.stage("online")
def test_online(run: CaseRun, point: LoadPoint, recorder: Recorder, benchmark: Any) -> None:
    """Measures throughput and latency at a concurrency or a request rate; fails if it is shown to be slower
    than allowed."""
    prove_speed(run, point, recorder, benchmark)


@pytest.mark.load
@pytest.mark.stage("offline")
def test_offline(run: CaseRun, point: LoadPoint, recorder: Recorder, benchmark: Any) -> None:
    """Measures throughput and latency at a batch size; fails if it is shown to be slower than allowed."""
    prove_speed(run, point, recorder, benchmark)
