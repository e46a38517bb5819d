"""Real servers of known speed under the real load generator. All tests hold on a busy machine too."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.measure import timed_server
from tests.measure.timed_server import SHAPES, Timed, service_times_ms
from tritonproof.measure.stopping import MeasuringPlan
from tritonproof.record.speed import LoadPoint, PointResult

(SERVICE_MS,) = service_times_ms("fixed")
ONLINE = LoadPoint("online", 1, 8)


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Timed]:
    """A server of known service times that measures its own rate under load."""
    with timed_server.served(tmp_path_factory.mktemp("known")) as server:
        yield server
    assert not list(Path("/dev/shm").glob(f"*_{os.getpid()}_IN*"))


def known(timed: Timed, shape: str, point_budget_s: float, least: float, most: float) -> PointResult:
    """A load point whose throughput is that of the server's own log, which has when it began each request.
    What may differ is twice the 95 % interval, beyond which a right estimate lies once in a thousand times,
    but no less and no more than these shares."""
    result = timed.run(shape, ONLINE, MeasuringPlan(point_budget_s=point_budget_s))
    rate, name = result.throughput_per_s, timed_server.name_of(shape)
    truth_per_s = timed_server.busy_rate_per_s(timed.repository, name, result.requests)
    allowed_per_s = np.clip(rate.high - rate.low, least * truth_per_s, most * truth_per_s)
    assert abs(rate.value - truth_per_s) < allowed_per_s
    in_flight = rate.value * result.latency_ms["avg"].value / 1e3
    assert in_flight == pytest.approx(ONLINE.concurrency, rel=most), "Little's law"
    return result


@pytest.mark.parametrize("shape", ["fixed", "bimodal"])
def test_known_service_time_is_measured(timed: Timed, shape: str) -> None:
    """On a busy machine the server's own rate leaves out gaps longer than any request."""
    mean_ms = float(np.mean(service_times_ms(shape)))
    result = known(timed, shape, 2, 0.2, 0.4)
    rate, latency_ms = result.throughput_per_s, result.latency_ms["avg"].value
    assert sum(result.components_ms.values()) == pytest.approx(latency_ms)
    assert rate.low <= 1e3 / mean_ms * 1.05, "no faster than the server can be"
    assert result.components_ms["server_queue"] > mean_ms, "seven wait while one is served"


def test_excessive_rate_raises_latency_and_mark(timed: Timed) -> None:
    too_fast = LoadPoint("online", 1, 0, 300.0, "poisson")
    result = timed.run("fixed", too_fast, MeasuringPlan(point_budget_s=0.5))
    assert "overloaded" in [mark.code for mark in result.marks]
    assert result.throughput_per_s.value < 205
    # A generator that waits would show one service time.
    assert result.latency_ms["p99"].value > 10 * SERVICE_MS


@pytest.mark.campaign
@pytest.mark.parametrize("shape", SHAPES)
def test_known_speed_is_found_within_2_percent_when_idle(timed: Timed, shape: str) -> None:
    """The interval may be wide, as that of a drifting server, but the truth is that of the same requests."""
    known(timed, shape, 3, 0.02, 0.05)


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("slowdown", "repeats", "fewest", "most"), [(0.0, 40, 0, 2), (0.05, 10, 9, 10)], ids=["a-a", "a-b"]
)
def test_alarms_separate_equal_and_slower_builds(
    slowdown: float, repeats: int, fewest: int, most: int, tmp_path: Path
) -> None:
    plan, point = MeasuringPlan(point_budget_s=120.0), LoadPoint("online", 1, 2)
    comparisons = [
        timed_server.compare(tmp_path / str(number), slowdown, point, plan) for number in range(repeats)
    ]
    assert fewest <= sum(comparison.verdict == "failed" for comparison in comparisons) <= most, comparisons


@pytest.mark.campaign
@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_cover_the_truth_on_a_live_server(timed: Timed, shape: str) -> None:
    """Throughput, p50 and p99; takes ten minutes a shape on an idle machine."""
    hits = timed_server.coverage(timed, shape, MeasuringPlan(), 100)
    print(f"{shape}: 95 % intervals that held the truth in 100 measurements: {hits}")
    # Three standard errors of the share of 100 are 6.5 points, of the mean of three figures fewer.
    assert min(hits.values()) >= 88, hits
    mean = np.mean(list(hits.values()))
    assert mean >= 92, hits
    # A drift with a period of a few passes makes passes differ by more than the error of their mean.
    assert mean <= 98.5 or shape == "drifting", hits
