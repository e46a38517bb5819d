"""Ratios of speeds with intervals, and tests whether one side is slower, from passes measured in pairs or at
two times; and a test whether start-up is slower, from loadings in turns."""

import functools
from collections.abc import Sequence

import numpy as np

from tritonproof.record.fields import CONFIDENCE, Ratio

Speeds = Sequence[float] | np.ndarray
"""The speed in each pass, in any unit, [passes]."""
MIN_PAIRS = 6
"""The fewest pairs for a ratio: with fewer, no interval of ranks covers 95 %."""
FALSE_ALARM_RATE = 0.01
"""The largest share of runs of a build against itself that call any of its load points slower."""
MIN_PASSES = 2
"""The fewest passes on each side of an unpaired ratio: a single pass shows no variation."""
MAX_LOADINGS = 5
"""How often each of two servers loads its model, in turns, at most. Start-up is slower only if every loading
is: equal servers show this by chance once in 252 times, and slower by a quarter far less often."""
FAR_MORE = 1.25
"""Start-up or memory of at least this multiple of the baseline's counts as far more."""
_MIN_LOADING_S = 0.1
"""Seconds; nobody notices a smaller difference."""


def speed_of_pass(throughput_per_s: float, mean_latency_ms: float, *, at_rate: bool) -> float:
    """The throughput or, `at_rate`, where a server keeps to the rate, the inverse of the mean latency."""
    return 1 / mean_latency_ms if at_rate else throughput_per_s


def paired_ratio(speeds: Speeds, baseline: Speeds, confidence: float = CONFIDENCE) -> Ratio:
    """The ratio of speeds that were measured in pairs, with an interval that assumes no distribution.
    Chance decides which side of a pair comes first, so the differences of the logarithms are symmetric about
    the true ratio's logarithm, whatever the noise, and signed ranks apply: the Hodges-Lehmann estimate is the
    median of the means of all pairs of differences, and its interval is Wilcoxon's (Hollander and Wolfe,
    Nonparametric Statistical Methods, 3.3). Drift that outlasts a pair cancels; bursts of noise in up to 29 %
    of the pairs do little harm. Needs MIN_PAIRS pairs."""
    differences = np.log(speeds) - np.log(baseline)
    count = len(differences)
    if count < MIN_PAIRS:
        raise ValueError(f"a ratio needs {MIN_PAIRS} pairs, not {count}")
    first, second = np.triu_indices(count)  # every pair of differences, and each difference with itself
    means = np.sort((differences[first] + differences[second]) / 2)
    # How many of the ordered means lie outside the interval at each end: a quantile of Wilcoxon's T+.
    outside = max(0, int(np.searchsorted(_t_plus_cdf(count), (1 - confidence) / 2, side="right")) - 1)
    median = (means[(len(means) - 1) // 2] + means[len(means) // 2]) / 2
    return _ratio(float(median), float(means[outside]), float(means[-1 - outside]), confidence)


@functools.lru_cache(maxsize=8)  # points measured together have the same number of pairs, or nearly so
def _t_plus_cdf(count: int) -> np.ndarray:
    """The cumulative distribution of Wilcoxon's T+ for `count` pairs, [values]."""
    probabilities = np.ones(1)
    for rank in range(1, count + 1):  # a rank is in the sum, or not, with the same probability
        probabilities = (np.pad(probabilities, (0, rank)) + np.pad(probabilities, (rank, 0))) / 2
    return np.cumsum(probabilities)


def paired_p_value(speeds: Speeds, baseline: Speeds, limit: float) -> float:
    """The p-value of pairs this slow if the true ratio is `limit`, by Wilcoxon's one-sided test. It is at
    least 2^-pairs, however slow they are, so among many points a few pairs show nothing."""
    differences = np.log(speeds) - np.log(baseline) - np.log(limit)
    first, second = np.triu_indices(len(differences))
    above = int(((differences[first] + differences[second]) >= 0).sum())
    return float(_t_plus_cdf(len(differences))[above])


def unpaired_p_value(speeds: Speeds, baseline: Speeds, limit: float) -> float:
    """The p-value of passes this slow, at two times, if the true ratio is `limit`: Welch's one-sided test."""
    from scipy import stats  # slow to import, and collecting tests imports this module

    logs = (np.log(speeds) - np.log(limit), np.log(baseline))
    if logs[0].std() == logs[1].std() == 0:
        return 0.0 if logs[0].mean() < logs[1].mean() else 1.0
    return float(stats.ttest_ind(*logs, equal_var=False, alternative="less").pvalue)


def significant_by_holm(p_values: Sequence[float], level: float) -> list[bool]:
    """Whether each comparison shows a difference, from their p-values, by Holm (1979): at most the share
    `level` of all runs has any false alarm, however the comparisons depend on each other."""
    is_significant = [False] * len(p_values)
    for done, index in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[index] > level / (len(p_values) - done):
            break
        is_significant[index] = True
    return is_significant


def unpaired_ratio(speeds: Speeds, baseline: Speeds) -> Ratio:
    """The ratio of speeds at two times, with Welch's interval of their logarithms. It covers the variation of
    passes at either time, not changes of the machine in between. Needs MIN_PASSES on each side."""
    from scipy import stats  # slow to import, and collecting tests imports this module

    logs = (np.log(speeds), np.log(baseline))
    middle = float(logs[0].mean() - logs[1].mean())
    if logs[0].std() == logs[1].std() == 0:
        return _ratio(middle, middle, middle)
    interval = stats.ttest_ind(*logs, equal_var=False).confidence_interval(CONFIDENCE)
    return _ratio(middle, float(interval.low), float(interval.high))


def loading_is_slower(current_s: Sequence[float], baseline_s: Sequence[float]) -> bool:
    """Whether each loading took far longer than the baseline's longest."""
    longest_s = max(baseline_s, default=float("inf"))
    return min(current_s, default=0.0) > max(FAR_MORE * longest_s, longest_s + _MIN_LOADING_S)


def _ratio(middle: float, low: float, high: float, confidence: float = CONFIDENCE) -> Ratio:
    return Ratio(float(np.exp(middle)), float(np.exp(low)), float(np.exp(high)), confidence)
