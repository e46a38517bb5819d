"""How long a pass is, and its steady part, checked against simulated servers of known speed."""

import heapq
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.helpers import present
from tritonproof.measure import estimates, passes
from tritonproof.measure.passes import SteadyPart, cut_closed_loop, cut_open_loop, warm_up_window_s
from tritonproof.record.speed import LoadPoint

Service = Callable[[np.random.Generator], float]

POINT = LoadPoint("online", 1, 4)
GAP_S = 1e-5
"""Seconds from an answer to the client's next request."""


def gamma(mean_s: float, variation: float) -> Service:
    """Service times of a mean and a coefficient of variation."""
    return lambda generator: mean_s * generator.gamma(variation**-2, variation**2)


def simulate(
    service: Service,
    length_s: float,
    *,
    concurrency: int = 1,
    group: int = 1,
    instances: int = 1,
    start_up: float = 1.0,
    seed: int = 0,
) -> SteadyPart:
    """A closed loop: each client sends its next request when it has its answer. Each instance of the server
    takes whole groups of waiting requests, in order, and ends them at once. The first group takes `start_up`
    times as long. Requests in flight at the close are not recorded."""
    generator = np.random.default_rng(seed)
    numbers = itertools.count()
    arrivals = [(client * 1e-6, next(numbers)) for client in range(concurrency)]
    free_at = [0.0] * instances
    records: list[tuple[float, float]] = []
    slowness = start_up
    while True:
        taken = [heapq.heappop(arrivals)[0] for _ in range(group)]
        begin = max(heapq.heappop(free_at), taken[-1])
        if begin > length_s:
            break
        end = begin + service(generator) * slowness
        slowness = 1.0
        heapq.heappush(free_at, end)
        records += [(start, end) for start in taken]
        for _ in taken:
            heapq.heappush(arrivals, (end + GAP_S, next(numbers)))
    starts, ends = (np.array(times) * 1e9 for times in zip(*records, strict=True))
    order = np.random.default_rng(0).permutation(np.flatnonzero(ends <= length_s * 1e9))
    starts, ends = starts[order].astype(np.int64), ends[order].astype(np.int64)
    return cut_closed_loop(starts, ends, (0, int(length_s * 1e9)), concurrency)


def simulated(passes: int, service: Service, length_s: float, **server: Any) -> list[SteadyPart]:
    """Those of independent passes whose lengths differ by up to a third, as perf_analyzer's do."""
    lengths = length_s * (1 + np.random.default_rng(7).uniform(0, 0.3, passes))
    return [simulate(service, length, seed=seed, **server) for seed, length in enumerate(lengths)]


def requests(*times_ms: tuple[float, float], closed_ms: float, clients: int) -> SteadyPart:
    """That of a pass written by hand."""
    starts, ends = (np.array([round(t * 1e6) for t in side]) for side in zip(*times_ms, strict=True))
    return cut_closed_loop(starts, ends, (0, round(closed_ms * 1e6)), clients)


@pytest.mark.parametrize(
    ("truth_per_s", "service", "length_s", "server"),
    [
        pytest.param(10, gamma(0.1, 0.1), 0.9, {}, id="eight long requests"),
        pytest.param(10, gamma(0.1, 0.1), 1.5, {"start_up": 5}, id="slow first request"),
        pytest.param(160, gamma(0.1, 0.1), 0.9, {"concurrency": 16, "group": 16}, id="one group of 16"),
        pytest.param(80, gamma(0.1, 0.1), 1.6, {"concurrency": 16, "group": 8}, id="two groups of 8"),
        pytest.param(10, gamma(0.1, 0.1), 6.4, {"concurrency": 16}, id="a queue of 16"),
        pytest.param(1000, gamma(0.001, 1.0), 0.3, {"concurrency": 4}, id="short requests"),
        pytest.param(800, gamma(0.01, 0.3), 0.3, {"concurrency": 8, "instances": 8}, id="eight instances"),
    ],
)
def test_throughput_matches_simulated_server(
    truth_per_s: float, service: Service, length_s: float, server: dict[str, float]
) -> None:
    parts = simulated(300, service, length_s, **server)
    # The standard error of 300 passes is at most a quarter of a percent in each case.
    assert estimates.requests_per_s(parts) == pytest.approx(truth_per_s, rel=0.01)


@pytest.mark.parametrize("server", [{}, {"concurrency": 4, "instances": 4}], ids=["1 client", "4 clients"])
def test_long_requests_keep_their_share_in_passes(server: dict[str, float]) -> None:
    """The close of a pass falls into a long request more often than into a short one."""

    def service(generator: np.random.Generator) -> float:
        return 0.06 if generator.random() < 0.02 else 0.005

    parts = simulated(1500, service, 0.36, **server)

    latencies_ms = np.concatenate([part.latencies_ms for part in parts])
    # Three standard errors of one client's share are 7 %.
    assert np.mean(latencies_ms > 30) == pytest.approx(0.02, rel=0.07)
    if server:  # with four clients the standard error is 0.23 %
        mean_s = 0.02 * 0.06 + 0.98 * 0.005 + GAP_S
        assert estimates.requests_per_s(parts) == pytest.approx(4 / mean_s, rel=0.01)


@pytest.mark.parametrize(
    ("times", "closed_ms", "clients", "steady"),
    [
        ([(1, 11)], 12, 1, (1.0, 10, {10.0})),  # one request counts whole
        ([(0, 90), (0, 95)], 100, 2, (2.0, 95, {90.0, 95.0})),  # requests fill the pass: all count
        ([(0, 10)], 500, 1, (1.0, 10, {10.0})),  # a server that hangs after the start has a value
        # A slow start is cut off.
        ([(0, 50), (1, 60), *((t, t + 10) for t in range(60, 100, 10))], 105, 2, (3.5, 35, {10.0})),
        # It lasts until every client is answered, even one that began late.
        ([(0, 30), (5.5, 40), *((t, t + 4) for t in range(40, 80, 4))], 82, 2, (9.5, 38, {4.0})),
        # Requests in flight at the close lie outside.
        ([(t, t + 10) for t in range(0, 90, 10)], 99, 1, (7.9, 79, {10.0})),
        # One across an edge counts by the time that it was in flight inside.
        ([(t, t + 10) for t in range(0, 40, 10)], 45, 1, (2.5, 25, {10.0})),
    ],
)
def test_steady_part_excludes_start_up_and_tail(
    times: list[tuple[float, float]], closed_ms: float, clients: int, steady: tuple[float, float, set[float]]
) -> None:
    """Requests, milliseconds, and the latencies that count."""
    completed, duration_ms, latencies_ms = steady
    cut = requests(*times, closed_ms=closed_ms, clients=clients)
    assert (cut.completed, 1e3 * cut.duration_s) == pytest.approx((completed, duration_ms))
    assert set(cut.latencies_ms) == latencies_ms


def scheduled(
    due_ms: Sequence[float], sent_ms: Sequence[float], ended_ms: Sequence[float], closed_ms: float
) -> SteadyPart:
    """That of a scheduled pass written by hand; the record omits later requests that are due."""
    offsets, starts, ends = (np.array([round(t * 1e6) for t in side]) for side in (due_ms, sent_ms, ended_ms))
    windows = (10**15, 10**15 + round(closed_ms * 1e6))
    return cut_open_loop(starts + 10**15, ends + 10**15, windows, offsets)


def test_latencies_count_from_due_times() -> None:
    """The server stands still from 50 to 80 ms; a generator that waits sends late and hardly notices."""
    due = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    sent = [5, 15, 25, 35, 45, 55, 82, 82, 85, 95, 105]
    ended = [7, 17, 27, 37, 47, 81, 83, 84, 87, 97, 107]
    steady = scheduled(due, sent, ended, closed_ms=140)
    assert steady.latencies_ms.tolist() == [2, 2, 26, 18, 9, 2, 2, 2], "of those due after the first quarter"
    assert present(steady.slips_ms).tolist() == [0, 0, 0, 17, 7, 0, 0, 0]
    assert (steady.completed, steady.due) == (8, 7)
    assert steady.duration_s == pytest.approx(0.105)


def test_requests_due_before_close_do_not_count() -> None:
    """Of these, only the fast ones, of 5 ms, have ended; the slow ones, of 25 ms, are missing."""
    due = list(range(0, 110, 10))
    ended = [t + (25 if t % 20 == 0 else 5) for t in due[:-1]]
    steady = scheduled(due, due[:-1], ended, closed_ms=110)
    assert steady.latencies_ms.tolist() == [5, 25, 5, 25, 5, 25], "due from 30 to 80 ms, not the one of 90"


def test_window_holds_a_whole_request() -> None:
    # Within two latencies a request always starts and ends; the margin is for the clock.
    assert 2 < passes.LATENCIES_PER_WINDOW < 2.5
    assert 0.05 <= warm_up_window_s(POINT, 0.0) < passes.pass_window_s(POINT, 0.001, 3.0, 30)
    assert passes.pass_window_s(POINT, 5.0, 60.0, 30) == passes.LATENCIES_PER_WINDOW * 5.0
    assert warm_up_window_s(POINT, 2.0) == passes.LATENCIES_PER_WINDOW * 2.0


@pytest.mark.parametrize("rate_per_s", [2.0, 3.0, 10.0, 50.0, 1e4])
def test_at_least_fifteen_requests_count_at_a_rate(rate_per_s: float) -> None:
    """Of twenty due requests three quarters count; queues take longer to a steady state than clients."""
    point = LoadPoint("online", 1, 0, rate_per_s, "constant")
    window_s = passes.least_window_s(point)
    assert 0.75 * rate_per_s * passes.WINDOWS * window_s >= 15
    assert window_s >= 2 * passes.least_window_s(POINT)
    assert warm_up_window_s(point, 0.0) == window_s
