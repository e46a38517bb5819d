"""What few passes among many points show, when a look may settle it, and how much longer it would take."""

import math

import pytest

from fixtures.compare.comparison import (
    MOST_SECONDS_TO_SETTLE,
    OtherBuild,
    compare_pairs,
    is_settled,
    seconds_to_settle,
    together,
)
from reports.record.schema import Estimate


def among(points: int) -> OtherBuild:
    return OtherBuild("HEAD~1", 0.03, points)


def test_six_pairs_show_nothing_among_twelve_points_however_slow_and_twelve_pairs_do() -> None:
    few = compare_pairs([0.5] * 6, [1.0] * 6, among(12), 60.0)

    assert few.verdict == "not shown"
    assert few.seconds_to_settle == pytest.approx(60.0), "six pairs more, of ten seconds each"
    assert compare_pairs([0.5] * 11, [1.0] * 11, among(12), 60.0).verdict == "not shown"
    enough = compare_pairs([0.5] * 12, [1.0] * 12, among(12), 60.0)
    assert (enough.verdict, enough.seconds_to_settle) == ("slower", None)
    assert enough.passes == 12


def test_how_much_longer_it_takes_is_never_told_beyond_a_bound() -> None:
    found = compare_pairs([0.5] * 6, [1.0] * 6, among(12), 1e6)

    assert found.seconds_to_settle == MOST_SECONDS_TO_SETTLE


def test_a_point_alone_is_slower_where_few_pairs_are_enough() -> None:
    assert compare_pairs([0.5] * 8, [1.0] * 8, among(1), 60.0).verdict == "slower"
    assert compare_pairs([0.98] * 8, [1.0] * 8, among(1), 60.0).verdict == "not slower"


@pytest.mark.parametrize(("points", "looks"), [(1, [16, 32, 64, 128]), (1000, [32, 64, 128])])
def test_a_look_settles_that_a_build_is_slower_later_among_more_points(points: int, looks: list[int]) -> None:
    found = [n for n in range(1, 300) if is_settled([0.5] * n, [1.0] * n, among(points))]

    assert found == looks


def test_a_slow_down_takes_a_wider_interval_to_be_shown_and_so_longer() -> None:
    ratio = Estimate(0.95, 0.92, 0.981)

    narrow, wide = (seconds_to_settle(ratio, 0.03, 30.0, wider) for wider in (1.0, 2.0))

    assert narrow is not None
    assert wide is not None
    assert wide > narrow
    faster = Estimate(0.99, 0.96, 1.02)
    assert seconds_to_settle(faster, 0.03, 30.0, 2.0) == seconds_to_settle(faster, 0.03, 30.0)
    # The upper half of the interval, as logarithms, over the distance from the limit, squared.
    expected = 30.0 * ((math.log(0.981 / 0.95) / math.log(0.97 / 0.95)) ** 2 - 1)
    assert narrow == pytest.approx(expected)


def test_points_without_a_chance_stay_as_they_are() -> None:
    found = [compare_pairs([0.98] * 8, [1.0] * 8, among(2), 60.0)] * 2

    assert together([]) == []
    assert together(found) == found
