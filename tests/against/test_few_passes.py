"""Comparisons of few passes at many points: verdicts, looks, and the remaining time."""

import numpy as np
import pytest

from fixtures.against.comparison import (
    OtherBuild,
    compare_pairs,
    is_settled,
    together,
)


def among(points: int) -> OtherBuild:
    return OtherBuild("HEAD~1", 0.03, points)


def test_twelve_points_need_twelve_pairs() -> None:
    few = compare_pairs([0.5] * 6, [1.0] * 6, among(12), 60.0)

    assert few.verdict == "not shown"
    assert few.seconds_to_settle == pytest.approx(60.0), "six pairs more, of ten seconds each"
    assert compare_pairs([0.5] * 11, [1.0] * 11, among(12), 60.0).verdict == "not shown"
    enough = compare_pairs([0.5] * 12, [1.0] * 12, among(12), 60.0)
    assert (enough.verdict, enough.seconds_to_settle) == ("slower", None)
    assert enough.passes == 12


def test_one_point_is_settled_by_few_pairs() -> None:
    assert compare_pairs([0.5] * 8, [1.0] * 8, among(1), 60.0).verdict == "slower"
    assert compare_pairs([0.98] * 8, [1.0] * 8, among(1), 60.0).verdict == "not slower"


@pytest.mark.parametrize(("points", "looks"), [(1, [16, 32, 64, 128]), (1000, [32, 64, 128])])
def test_first_look_is_later_among_more_points(points: int, looks: list[int]) -> None:
    counts = [count for count in range(1, 300) if is_settled([0.5] * count, [1.0] * count, among(points))]

    assert counts == looks


def test_points_without_a_chance_are_unchanged() -> None:
    comparisons = [compare_pairs([0.98] * 8, [1.0] * 8, among(2), 60.0)] * 2

    assert together([]) == []
    assert together(comparisons) == comparisons


def test_proven_slowdown_needs_no_more_time() -> None:
    """With few points, ranks prove a slowdown that a wider interval leaves open."""
    generator = np.random.default_rng(2)
    shown = 0
    for _trial in range(200):
        mine = 0.93 * np.exp(generator.normal(0, 0.05, 16))
        comparison = compare_pairs(mine, np.ones(16), among(2), 60.0)
        assert comparison.verdict == "not shown" or comparison.seconds_to_settle is None
        shown += comparison.verdict == "slower"
    assert 20 < shown < 180


def test_required_chance_is_divided_by_number_of_points() -> None:
    """Points share one alarm in 100 runs, and half of a point's share is for its last look."""
    chance = compare_pairs([0.5] * 9, [1.0] * 9, among(1), 60.0).chance
    assert chance == 2 * 2**-9
    assert compare_pairs([0.5] * 9, [1.0] * 9, among(2), 60.0).verdict == "slower"
    assert compare_pairs([0.5] * 9, [1.0] * 9, among(3), 60.0).verdict == "not shown"
    more_s = compare_pairs([0.5] * 9, [1.0] * 9, among(3), 90.0).seconds_to_settle
    assert more_s == pytest.approx(10.0), "one pair more"


def test_proven_points_of_a_run_need_no_more_time() -> None:
    slow = compare_pairs([0.5] * 10, [1.0] * 10, among(12), 60.0)
    assert (slow.verdict, slow.seconds_to_settle is not None) == ("not shown", True)

    # Twelve points share one allowed chance: the smallest must keep to a twelfth of it, the last to all.
    very_slow = compare_pairs([0.5] * 16, [1.0] * 16, among(12), 60.0)
    comparisons = together([slow, *[very_slow] * 11])

    assert {(comparison.verdict, comparison.seconds_to_settle) for comparison in comparisons} == {
        ("slower", None)
    }


def test_unproven_slowdown_reports_remaining_time() -> None:
    """Even if the interval is far below the limit, and only the ranks of a pair or two contradict it."""
    generator = np.random.default_rng(3)
    unsure = 0
    for _trial in range(300):
        mine = 0.85 * np.exp(generator.normal(0, 0.03, 14))
        mine[:2] *= generator.uniform(1.1, 1.3)
        comparison = compare_pairs(mine.tolist(), [1.0] * 14, among(3), 140.0)
        unsure += comparison.verdict == "not shown"
        assert comparison.verdict != "not shown" or (comparison.seconds_to_settle or 0) >= 10
    assert unsure
