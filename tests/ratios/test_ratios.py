"""Ratios of speeds and their p-values, against SciPy's tests; test_intervals.py simulates their intervals."""

from collections.abc import Callable
from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy import stats

from tritonproof import ratios
from tritonproof.ratios import paired_p_value, significant_by_holm, unpaired_p_value, unpaired_ratio

MINE, THEIRS = [9.0, 9.4, 8.9, 9.2, 9.1, 9.05], [10.0, 10.3, 9.8, 10.1, 10.2, 9.9]


@pytest.mark.parametrize("limit", [0.8, 0.905, 0.97])
@pytest.mark.parametrize("p_value", [unpaired_p_value, paired_p_value])
def test_limit_is_a_share_of_other_speed(p_value: Callable[..., float], limit: float) -> None:
    assert p_value(MINE, THEIRS, limit) == pytest.approx(p_value(np.array(MINE) / limit, THEIRS, 1.0))
    assert p_value(MINE, THEIRS, limit) == pytest.approx(p_value(MINE, np.array(THEIRS) * limit, 1.0))
    assert p_value(MINE, THEIRS, 0.8) > 0.99 > 0.016 > p_value(MINE, THEIRS, 0.97)


def test_passes_without_variation_are_certain() -> None:
    assert unpaired_p_value([4.0, 4.0], [5.0, 5.0], 1.0) == 0.0
    assert unpaired_p_value([4.0, 4.0], [5.0, 5.0], 0.5) == 1.0
    assert unpaired_p_value([5.0, 5.0], [5.0, 5.0], 1.0) == 1.0, "as fast as allowed is not slower"
    ratio = unpaired_ratio([4.0, 4.0], [5.0, 5.0])
    assert ratio.low == ratio.value == ratio.high == pytest.approx(0.8)


def test_holm_correction_decides_several_p_values() -> None:
    for p_values, expected in (
        ([0.004, 0.012, 0.04], [True, True, True]),
        ([0.04, 0.004, 0.026], [False, True, False]),  # 0.026 is above a half of 0.05
        ([0.02, 0.03, 0.04], [False, False, False]),
    ):
        assert significant_by_holm(p_values, 0.05) == expected


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.98])
def test_rank_interval_matches_its_confidence(confidence: float) -> None:
    """Wilcoxon's test rejects the ratios outside, at half the error on each side, and none inside."""
    logs = np.random.default_rng(3).normal(0, 0.1, 8)
    ratio = ratios.paired_ratio(np.exp(logs), np.ones(8), confidence)

    for bound, side, outwards in ((ratio.low, "greater", -1e-9), (ratio.high, "less", 1e-9)):
        outside, inside = (
            stats.wilcoxon(logs - np.log(bound) - step, alternative=side, method="exact").pvalue
            for step in (outwards, -outwards)
        )
        assert outside <= (1 - confidence) / 2 < inside
    below = stats.wilcoxon(logs, alternative="less", method="exact").pvalue
    assert paired_p_value(np.exp(logs), np.ones(8), 1.0) == pytest.approx(below)
    means = [(first + second) / 2 for first, second in combinations_with_replacement(logs, 2)]
    assert ratio.value == pytest.approx(np.exp(np.median(means)))


def test_unequal_variances_are_compared_by_welch() -> None:
    mine, theirs = [9.0, 9.8, 8.4, 9.6, 8.9, 9.3], [9.70, 9.71, 9.69]
    p_value = unpaired_p_value(mine, theirs, 1.0)
    first, second = np.log(mine), np.log(theirs)
    error = np.sqrt(first.var(ddof=1) / 6 + second.var(ddof=1) / 3)
    freedom = error**4 / ((first.var(ddof=1) / 6) ** 2 / 5 + (second.var(ddof=1) / 3) ** 2 / 2)
    assert p_value == pytest.approx(stats.t.cdf((first.mean() - second.mean()) / error, freedom))


def test_start_up_is_slower_by_a_time_that_somebody_notices() -> None:
    assert not ratios.loading_is_slower([0.15] * 5, [0.1] * 5)
    assert ratios.loading_is_slower([0.25] * 5, [0.1] * 5)
