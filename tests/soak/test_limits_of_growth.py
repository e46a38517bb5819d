"""Where the limits lie between a leak, no leak, and what is not shown, by traces whose growth is known exactly."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from fixtures.soak.growth import Per, growths
from reports.record.schema import Growth

MIB = 2.0**20
BYTES, NUMBER = "shared memory", "open files"
STRETCHES = 21
"""The part that counts is divided into so many."""
COUNTED: dict[Per, Sequence[int]] = {"request": (126, 63), "loading": (189, 126)}
"""How many samples there are, and how many of them count, in stretches of whole samples: the warm-up is half of the samples
under load, and a third of those of loadings."""


def found(used: np.ndarray, times: np.ndarray, per: Per, what: str = BYTES, heaps: int = 0) -> Growth:
    (one,) = growths([{what: float(value)} for value in used], times.tolist(), per, heaps)
    return one


def growing(each: float, what: str = BYTES, per: Per = "request", every: int = 1) -> Growth:
    """What is found of something that grows by so much each time, sampled after `every` so many times."""
    times = np.arange(COUNTED[per][0]) * float(every)
    return found(1e6 + each * times, times, per, what)


def stretched(levels: Sequence[float], per: Per = "request", what: str = BYTES) -> Growth:
    """What is found of something that is at one of these levels in each stretch of the part that counts."""
    samples, counted = COUNTED[per]
    used = np.concatenate([np.full(samples - counted, levels[0]), np.repeat(levels, counted // STRETCHES)])
    return found(used, np.arange(samples, dtype=float), per, what)


def test_the_interval_is_that_of_the_sign_test_of_twenty_steps() -> None:
    """The steps are 1 to 20 bytes each, in some order."""
    order = np.random.default_rng(3).permutation(np.arange(1, 21))
    outside = max(count for count in range(10) if stats.binom.cdf(count, 20, 0.5) <= 0.005)

    one = stretched(np.concatenate([[0.0], 3 * np.cumsum(order)]).tolist())

    assert one.slope.value == pytest.approx(10.5)
    assert (one.slope.low, one.slope.high) == pytest.approx((1 + outside, 20 - outside))
    assert one.slope.confidence == 0.99


@pytest.mark.parametrize(
    ("what", "per", "every", "least"),
    [
        (BYTES, "request", 1, 128.0),
        (BYTES, "request", 2000, 4 * MIB / 124_000),
        (NUMBER, "request", 1, 0.01),
        (NUMBER, "request", 100, 4 / 6200),
        (BYTES, "loading", 1, MIB),
        (BYTES, "loading", 2000, MIB),
        (NUMBER, "loading", 1, 0.5),
        (NUMBER, "loading", 100, 0.5),
    ],
)
def test_a_leak_is_what_grows_by_more_than_the_least_leak_each_time_or_in_all(
    what: str, per: Per, every: int, least: float
) -> None:
    assert growing(1.001 * least, what, per, every).verdict == "failed"
    assert growing(0.999 * least, what, per, every).verdict == "passed"


@pytest.mark.parametrize(
    ("what", "per", "least"),
    [
        (BYTES, "request", 1024.0),
        (NUMBER, "request", 0.01),
        (BYTES, "loading", 4 * MIB),
        (NUMBER, "loading", 0.5),
    ],
)
def test_that_nothing_leaks_is_said_where_a_leak_that_has_to_be_found_would_have_been(
    what: str, per: Per, least: float
) -> None:
    """What goes up and down from stretch to stretch by so much does not grow, and hides what grows by less."""
    length = COUNTED[per][1] // STRETCHES

    def wave(share: float) -> Growth:
        return stretched([share * least * length * (place % 2) for place in range(STRETCHES)], per, what)

    assert wave(0.999).verdict == "passed"
    assert wave(1.0).slope.high == pytest.approx(least)
    assert wave(1.001).verdict == "not shown"


@pytest.mark.parametrize(("pieces", "is_leak"), [(20, True), (12, True), (8, True), (6, False)])
def test_memory_taken_in_large_pieces_is_a_leak_from_eight_pieces_on(pieces: int, is_leak: bool) -> None:
    """The pieces are taken at even distances in the part that counts."""
    samples, counted = COUNTED["request"]
    place = np.maximum(0, np.arange(samples) - (samples - counted))
    used = 64 * MIB * np.floor((place + 0.5) * (pieces + 1) / counted)

    one = found(used, np.arange(samples, dtype=float), "request")

    assert (one.verdict == "failed") == is_leak
    assert (one.slope.low > 0) == is_leak, "the interval is of the steps that show it"


@pytest.mark.parametrize(("released", "at", "is_leak"), [(6, 30, True), (8, 30, False), (10, 45, False)])
def test_what_is_released_at_once_is_no_leak_where_less_than_half_is_left(
    released: float, at: int, is_leak: bool
) -> None:
    """It grows in nineteen of twenty steps; from the middle of the first third to that of the last by fourteen MiB."""
    samples, counted = COUNTED["request"]
    place = np.arange(samples, dtype=float)
    used = MIB * (place / 3 - released * (place >= samples - counted + at))

    assert (found(used, place, "request").verdict == "failed") == is_leak


def test_growth_is_by_request_however_fast_they_are_answered() -> None:
    samples, _ = COUNTED["request"]
    times = np.cumsum(np.where(np.arange(samples) < 95, 100.0, 900.0))

    one = found(1000 * times, times, "request")

    assert one.verdict == "failed"
    assert one.slope.value == pytest.approx(1000, rel=0.01)
    assert (one.slope.low, one.slope.high) == pytest.approx((1000, 1000), rel=0.01)


@pytest.mark.parametrize(
    ("what", "heaps", "verdict", "counted"),
    [
        ("memory of the server", 0, "failed", 39),
        ("memory of the server", 30, "failed", 29),
        ("memory of the server", 51, "failed", 8),
        ("memory of the server", 52, "not shown", 39),
        ("memory of its stubs", 52, "not shown", 39),
        ("shared memory", 52, "failed", 39),
    ],
)
def test_only_memory_is_malloc_s_and_a_leak_in_the_loadings_after_its_heaps_are_made(
    what: str, heaps: int, verdict: str, counted: int
) -> None:
    times = np.arange(60, dtype=float)

    one = found(8 * MIB * times, times, "loading", what, heaps)

    assert (one.verdict, one.counted) == (verdict, counted)
