"""How long windows are: long enough for requests to start and end in each, and for a budget not to be all starts."""

import pytest

from fixtures.measure import stopping
from fixtures.spec import LoadPoint

BATCH, CLIENTS = LoadPoint("offline", 8, 1), LoadPoint("online", 1, 16)
RATE = LoadPoint("online", 1, 0, 10.0, "constant")


def test_a_window_holds_a_request_whole_whenever_it_starts() -> None:
    # Of two latencies one request always starts and ends within them; a little more is for the clock.
    assert 2 * 0.4 < stopping.window_for(0.4) < 2.5 * 0.4


@pytest.mark.parametrize("point", [BATCH, CLIENTS])
def test_a_quick_request_has_the_shortest_window_of_a_pass_and_a_shorter_one_to_warm_up(
    point: LoadPoint,
) -> None:
    warm_up = stopping.warm_up_window_s(point, 0.0, 0.0)
    passes = stopping.pass_window_s(point, 0.001, 3.0, 30)

    assert 0.05 <= warm_up < passes
    assert passes >= 0.1


def test_a_warm_up_never_goes_back_to_a_shorter_window_than_one_that_was_lengthened() -> None:
    assert stopping.warm_up_window_s(CLIENTS, 0.001, 1.5) == 1.5
    assert stopping.warm_up_window_s(CLIENTS, 2.0, 1.5) == stopping.window_for(2.0)


def test_at_a_rate_some_requests_are_due_in_each_window_however_low_it_is() -> None:
    for rate in (2.0, 10.0, 50.0):
        point = LoadPoint("online", 1, 0, rate, "constant")
        window_s = stopping.least_window_s(point)

        assert 5 <= rate * window_s <= 25
        assert stopping.warm_up_window_s(point, 0.0, 0.0) == window_s
    quick = LoadPoint("online", 1, 0, 1e4, "constant")
    assert stopping.least_window_s(quick) == pytest.approx(2 * stopping.least_window_s(CLIENTS))


def test_a_budget_holds_the_passes_that_are_of_use_and_what_starting_them_takes() -> None:
    window_s = stopping.pass_window_s(CLIENTS, 0.001, 60.0, 30)

    assert 30 * (stopping.WINDOWS * window_s + stopping.START_S) == pytest.approx(60.0)
    assert stopping.pass_window_s(CLIENTS, 5.0, 60.0, 30) == stopping.window_for(5.0)


def test_a_request_of_more_than_a_second_is_slow() -> None:
    assert stopping.is_slow(1.5)
    assert not stopping.is_slow(0.5)


def test_a_run_takes_longer_than_its_windows_as_a_process_has_to_start() -> None:
    assert 0.06 <= stopping.START_S < 0.5


@pytest.mark.parametrize("rate", [2.0, 3.0, 10.0, 50.0])
def test_in_a_pass_at_a_rate_fifteen_requests_count(rate: float) -> None:
    """Three quarters of a pass count, of twenty that are due."""
    point = LoadPoint("online", 1, 0, rate, "constant")
    due = rate * stopping.WINDOWS * stopping.least_window_s(point)

    assert 0.75 * due >= 15
    assert due == pytest.approx(20) or rate == 50.0


def test_even_a_high_rate_has_longer_windows_than_clients_that_wait_and_to_warm_up_too() -> None:
    point = LoadPoint("online", 1, 0, 1e4, "constant")

    assert stopping.least_window_s(point) > stopping.least_window_s(CLIENTS)
    assert stopping.warm_up_window_s(point, 0.0, 0.0) == stopping.least_window_s(point)
