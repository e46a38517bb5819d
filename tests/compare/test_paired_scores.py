"""Paired scores of two runs: the test that decides, against known values."""

import numpy as np
import pytest
from scipy import stats

from reports.compare import pair_scores, sign_flips


def scored(*values: float) -> dict[str, float]:
    return {f"sample-{number}": value for number, value in enumerate(values)}


@pytest.mark.parametrize(("lost", "gained"), [(0, 0), (1, 0), (5, 0), (8, 1), (20, 8)])
def test_right_and_wrong_are_told_apart_as_by_mcnemar(lost: int, gained: int) -> None:
    """By chance, as many of the changed samples became right as wrong."""
    change = np.array([-1.0] * lost + [1.0] * gained + [0.0] * 100)
    expected = stats.binomtest(gained, lost + gained).pvalue if lost else 1.0
    assert sign_flips(change) == pytest.approx(expected, abs=0.01 if lost + gained > 13 else 1e-12)


def test_sign_flips_agree_with_t_test_on_normal_noise() -> None:
    change = np.random.default_rng(2).normal(0.1, 1, 300)
    assert sign_flips(change) == pytest.approx(stats.ttest_1samp(change, 0).pvalue, abs=0.02)


@pytest.mark.parametrize(
    ("before", "after"),
    [([0.5], [0.9]), ([1], [0]), ([1.0] * 500, [0.0] * 5 + [1.0] * 495)],
    ids=["one score", "one right or wrong", "five lost of many"],
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
    assert comparison.difference == pytest.approx(-0.95 / 40)


def test_common_samples_count_and_largest_changes_come_first() -> None:
    before = {"a": 0.9, "b": 0.9, "c": 0.9, "gone": 0.0}
    after = {"new": 1.0, "newer": 1.0, "c": 0.1, "b": 0.5, "a": 0.95}
    comparison = pair_scores(before, after, "higher")
    assert (comparison.samples, comparison.only_before, comparison.only_after) == (3, 1, 2)
    assert (comparison.lost, comparison.gained) == (("c", "b"), ("a",))
