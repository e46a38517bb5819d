"""Paired scores of two runs: exact tests and intervals, against known values."""

import numpy as np
import pytest
from scipy import stats

from reports.compare.paired_scores import mcnemar, newcombe, pair_scores, sign_flips, student


def scored(*values: float) -> dict[str, float]:
    return {f"sample-{number}": value for number, value in enumerate(values)}


def test_interval_has_width_without_changes() -> None:
    interval = newcombe(np.ones(500), np.ones(500))
    assert interval.value == 0
    assert interval.high == -interval.low == pytest.approx(0.0076, abs=1e-4)


@pytest.mark.parametrize(("lost", "gained", "p_value"), [(0, 0, 1.0), (5, 0, 0.0625), (8, 1, 20 / 512)])
def test_mcnemar_counts_only_changed_samples(lost: int, gained: int, p_value: float) -> None:
    change = np.array([-1.0] * lost + [1.0] * gained + [0.0] * 100)
    assert mcnemar(change) == pytest.approx(p_value)


def test_sign_flips_agree_with_t_test_on_normal_noise() -> None:
    change = np.random.default_rng(2).normal(0.1, 1, 300)
    assert sign_flips(change) == pytest.approx(stats.ttest_1samp(change, 0).pvalue, abs=0.02)


def test_mean_interval_matches_student_t() -> None:
    change = np.array([0.1, -0.2, 0.4, 0.3])
    interval = stats.ttest_1samp(change, 0).confidence_interval(0.95)
    assert (student(change).low, student(change).high) == pytest.approx((interval.low, interval.high))
    alike = student(np.full(5, -0.25))
    assert (alike.low, alike.high) == (-0.25, -0.25)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([0.5], [0.9]),
        ([1], [0]),
        ([0.5] * 500, [0.4] * 4 + [0.5] * 496),
        ([0.9] * 50, [0.0] + [0.899] * 5 + [0.9] * 44),
    ],
    ids=["one score", "one right or wrong", "few changes, by the interval alone", "one large, by p alone"],
)
def test_difference_is_not_shown_by_too_little(before: list[float], after: list[float]) -> None:
    assert pair_scores(scored(*before), scored(*after), "higher").verdict == "not shown"


@pytest.mark.parametrize(
    ("better", "verdict", "lost", "gained"), [("higher", "failed", 10, 1), ("lower", "passed", 1, 10)]
)
def test_metric_direction_decides_what_is_better(better: str, verdict: str, lost: int, gained: int) -> None:
    before = scored(*[0.8] * 40)
    after = scored(*[0.7] * 10, 0.85, *[0.8] * 29)
    comparison = pair_scores(before, after, better)
    assert (comparison.verdict, len(comparison.lost), len(comparison.gained)) == (verdict, lost, gained)
    assert comparison.difference.value == pytest.approx(-0.95 / 40)
    change = np.array([*after.values()]) - np.array([*before.values()])
    assert (comparison.difference, comparison.p_value) == (student(change), sign_flips(change))


def test_common_samples_count_and_largest_changes_come_first() -> None:
    before = {"a": 0.9, "b": 0.9, "c": 0.9, "gone": 0.0}
    after = {"new": 1.0, "newer": 1.0, "c": 0.1, "b": 0.5, "a": 0.95}
    comparison = pair_scores(before, after, "higher")
    assert (comparison.samples, comparison.only_before, comparison.only_after) == (3, 1, 2)
    assert (comparison.lost, comparison.gained) == (("c", "b"), ("a",))


@pytest.mark.parametrize(
    ("both", "first_alone", "second_alone", "neither"),
    [(10, 20, 20, 0), (30, 5, 3, 12), (1, 0, 8, 41), (0, 1, 6, 43)],
    ids=["seldom alike", "mostly alike", "few right in the first", "hardly any right"],
)
def test_proportion_interval_matches_newcombe(
    both: int, first_alone: int, second_alone: int, neither: int
) -> None:
    """Method 10 with its continuity correction, for correlations above 0 only (Newcombe, 1998)."""
    counts = [both, first_alone, second_alone, neither]
    interval = newcombe(np.repeat([1.0, 1.0, 0.0, 0.0], counts), np.repeat([1.0, 0.0, 1.0, 0.0], counts))

    right = both + second_alone, both + first_alone
    (low2, high2), (low1, high1) = (stats.binomtest(n, 50).proportion_ci(0.95, "wilson") for n in right)
    second, first = (n / 50 for n in right)
    product = both * neither - first_alone * second_alone
    corrected = max(product - 25, 0) if product > 0 else product
    phi = corrected / np.sqrt(right[0] * right[1] * (50 - right[0]) * (50 - right[1]))
    below = np.sqrt((second - low2) ** 2 + (high1 - first) ** 2 - 2 * phi * (second - low2) * (high1 - first))
    above = np.sqrt((high2 - second) ** 2 + (first - low1) ** 2 - 2 * phi * (high2 - second) * (first - low1))
    value = second - first
    assert (interval.value, interval.low, interval.high) == pytest.approx(
        (value, value - below, value + above)
    )
