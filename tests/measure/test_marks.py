"""Marks of disturbances: each appears with its cause, and only then."""

from typing import Any

import numpy as np
import pytest
from msgspec import structs

from tests import sample_records
from tritonproof.host.processor_use import CpuTime
from tritonproof.measure.marks import marks_of_cpu, marks_of_schedule
from tritonproof.measure.passes import SteadyPart
from tritonproof.measure.point_result import cpu_use
from tritonproof.record.speed import COMPONENTS, CpuUse

WELL = CpuUse(cores=4, load_generator=0.3, server=2.5, others=0.1, stolen=0.0)
OUTSIDE = {"server_queue": 0.1, "server_compute_infer": 1.0, "network_server_send_recv": 3.0}
"""Milliseconds of a request that spends little time in the server."""


def codes(use: CpuUse = WELL, concurrency: int = 16, **components: float) -> list[str]:
    """The marks of a request that spends most of its time in the server, but for the changes."""
    usual = {"server_queue": 3.0, "server_compute_infer": 6.0, "network_server_send_recv": 0.5}
    marks = marks_of_cpu(use, dict.fromkeys(COMPONENTS, 0.0) | usual | components, concurrency)
    return [mark.code for mark in marks]


@pytest.mark.parametrize(
    ("concurrency", "components", "found"),
    [
        (16, {}, []),
        (16, OUTSIDE, ["client-bound"]),
        (2, OUTSIDE, ["client-bound"]),
        (1, OUTSIDE, []),  # a single request is never late
        (16, OUTSIDE | {"server_queue": 1.0}, []),  # requests wait for the server
        # even if only a tenth of them do
        (16, OUTSIDE | {"server_queue": 0.44, "network_server_send_recv": 3.5}, []),
        (2, OUTSIDE | {"server_queue": 0.0, "network_server_send_recv": 0.9}, []),  # half is not most
    ],
)
def test_client_that_starves_server_is_the_bottleneck(
    concurrency: int, components: dict[str, float], found: list[str]
) -> None:
    assert codes(WELL, concurrency, **components) == found


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"server": 3.6}, []),
        ({"load_generator": 1.2, "server": 1.0}, []),  # some cores are free
        ({"load_generator": 1.1, "server": 2.6, "others": 0.0}, ["client-bound"]),
        ({"load_generator": 0.9, "server": 2.9, "others": 0.0}, []),
        ({"load_generator": 1.1, "server": 2.0, "others": 0.3}, []),
        ({"load_generator": 1.1, "others": 0.0, "stolen": 0.6}, ["client-bound", "cpu-stolen"]),
        ({"load_generator": 1.1, "server": None, "others": 2.6}, ["client-bound"]),
        ({"others": 3.0, "server": None}, []),  # they include the server's share
        ({"others": 0.35}, []),
        ({"others": 0.45}, ["cpu-shared"]),
        ({"stolen": 0.15}, []),
        ({"stolen": 0.25}, ["cpu-stolen"]),
        ({"others": 0.5, "stolen": 0.3}, ["cpu-shared", "cpu-stolen"]),
    ],
)
def test_core_shares_have_limits(changes: dict[str, Any], found: list[str]) -> None:
    """With 4 cores, and with 8 at twice the use."""
    use = structs.replace(WELL, **changes)
    twice = {key: None if value is None else 2 * value for key, value in structs.asdict(use).items()}
    assert codes(use) == codes(CpuUse(**twice)) == found  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ([CpuTime(1, 0.2, 1, 1.5, 0), CpuTime(3, 0.2, 2, 2.5, 0.4)], CpuUse(2, 0.1, 0.75, 0.15, 0.1)),
        ([CpuTime(1.0, 0.7, 1.0, 1.5, 0.0)], CpuUse(2, 0.7, 1.0, 0.0, 0.0)),  # never below nothing
        # The server is elsewhere in one of them.
        ([CpuTime(1, 0.2, 1, 1.5, 0), CpuTime(1, 0.2, None, 1.5, 0)], CpuUse(2, 0.2, None, 1.3, 0.0)),
    ],
)
def test_core_use_is_mean_over_passes(times: list[CpuTime], found: CpuUse) -> None:
    assert cpu_use(times, 2) == found


@pytest.mark.parametrize(
    ("completed", "slip_ms", "latency_ms", "found"),
    [
        ((96, 95), 0.1, 5.0, []),
        ((94, 95), 0.1, 5.0, ["overloaded"]),
        ((100,), 0.9, 5.0, []),  # a millisecond is little, however short the latency
        ((100,), 1.1, 5.0, ["schedule-slipped"]),
        ((100,), 1.1, 50.0, []),
    ],
)
def test_missed_schedule_is_marked(
    completed: tuple[float, ...], slip_ms: float, latency_ms: float, found: list[str]
) -> None:
    parts = [SteadyPart(count, 1.0, np.ones(10), np.zeros(10), due=100) for count in completed]
    marks = marks_of_schedule(parts, slip_ms, sample_records.estimate(latency_ms))
    assert [mark.code for mark in marks] == found
