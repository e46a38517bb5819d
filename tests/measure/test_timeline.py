"""The steady part of a pass, from request times or from due times of an open loop."""

from collections.abc import Sequence

import numpy as np
import pytest

from fixtures.measure.timeline import Timeline, steady_part
from tests.measure.test_estimates import gamma, requests, simulate


@pytest.mark.parametrize(
    ("times", "closed_ms", "clients", "completed", "duration_ms", "latencies_ms"),
    [
        pytest.param([(1, 11)], 12, 1, 1.0, 10, {10.0}, id="one request counts whole"),
        pytest.param(
            [(0, 90), (0, 95)], 100, 2, 2.0, 95, {90.0, 95.0}, id="requests that fill the pass all count"
        ),
        pytest.param(
            [(0, 10)], 500, 1, 1.0, 10, {10.0}, id="a server that hangs after the start yields a value"
        ),
        pytest.param(
            [(0, 50), (1, 60), *((t, t + 10) for t in range(60, 100, 10))],
            *(105, 2, 3.5, 35, {10.0}),
            id="a slow start is cut off",
        ),
        pytest.param(
            [(0, 30), (5.5, 40), *((t, t + 4) for t in range(40, 80, 4))],
            *(82, 2, 9.5, 38, {4.0}),
            id="it lasts until every client is answered, even one that began late",
        ),
        pytest.param(
            [(t, t + 10) for t in range(0, 90, 10)],
            *(99, 1, 7.9, 79, {10.0}),
            id="requests in flight at the close lie outside",
        ),
        pytest.param(
            [(t, t + 10) for t in range(0, 40, 10)],
            *(45, 1, 2.5, 25, {10.0}),
            id="one across an edge counts by the time that it was in flight inside",
        ),
    ],
)
def test_steady_part_excludes_start_up_and_tail(
    times: list[tuple[float, float]],
    closed_ms: float,
    clients: int,
    completed: float,
    duration_ms: float,
    latencies_ms: set[float],
) -> None:
    part = steady_part(requests(*times, closed_ms=closed_ms, concurrency=clients))

    assert part.completed == pytest.approx(completed)
    assert part.duration_s == pytest.approx(duration_ms / 1e3)
    assert set(part.latencies_ms) == latencies_ms


def test_record_order_does_not_matter() -> None:
    one = simulate(gamma(0.01, 0.5), 1, concurrency=4)
    order = np.argsort(one.ends)
    sorted_ = Timeline(one.starts[order], one.ends[order], one.opened, one.closed, one.concurrency)

    part, same = steady_part(one), steady_part(sorted_)

    assert (part.completed, part.duration_s) == pytest.approx((same.completed, same.duration_s))
    assert sorted(part.latencies_ms) == sorted(same.latencies_ms)


def scheduled(
    due_ms: Sequence[float], sent_ms: Sequence[float], ended_ms: Sequence[float], closed_ms: float
) -> Timeline:
    """A pass by a schedule, written by hand; what is due after the last is not in the record."""
    offsets, starts, ends = (np.array([round(t * 1e6) for t in side]) for side in (due_ms, sent_ms, ended_ms))
    return Timeline(starts + 10**15, ends + 10**15, 10**15, 10**15 + round(closed_ms * 1e6), 0, offsets)


def test_latencies_count_from_due_times() -> None:
    """The server stands still from 50 to 80 ms; a generator that waits sends late and sees little of it."""
    due = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    sent = [5, 15, 25, 35, 45, 55, 82, 82, 85, 95, 105]
    ended = [7, 17, 27, 37, 47, 81, 83, 84, 87, 97, 107]

    part = steady_part(scheduled(due, sent, ended, closed_ms=140))

    assert part.latencies_ms.tolist() == [2, 2, 26, 18, 9, 2, 2, 2], "of those due after the first quarter"
    assert part.slips_ms is not None
    assert part.slips_ms.tolist() == [0, 0, 0, 17, 7, 0, 0, 0]
    assert (part.completed, part.due) == (8, 7)
    assert part.duration_s == pytest.approx(0.105)


def test_requests_due_before_close_do_not_count() -> None:
    """The slow ones among them, of 25 ms, are missing: only the quick ones, of 5 ms, have ended."""
    due = list(range(0, 110, 10))
    ended = [t + (25 if t % 20 == 0 else 5) for t in due[:-1]]

    part = steady_part(scheduled(due, due[:-1], ended, closed_ms=110))

    assert part.latencies_ms.tolist() == [5, 25, 5, 25, 5, 25], "due from 30 to 80 ms, not the one of 90"


def test_overload_shows_in_completed_requests() -> None:
    """One request each 10 ms at a server that takes 20: half of them are answered by the close."""
    due = list(range(0, 500, 10))
    ended = [20 * (n + 1) for n in range(50)]

    part = steady_part(scheduled(due, due[:25], ended[:25], closed_ms=505))

    assert part.completed / part.duration_s == pytest.approx(50, rel=0.02)
    assert part.due == pytest.approx(2 * part.completed, rel=0.06)
