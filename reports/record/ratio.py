"""The ratio of two speeds with its interval: of passes that were paired, and of passes of two times."""

import functools
from collections.abc import Sequence

import numpy as np

from reports.record.schema import Estimate, Load

Speeds = Sequence[float] | np.ndarray
"""One of each pass, in any unit, [passes]."""
CONFIDENCE = Estimate.confidence
FEWEST_PAIRS = 6
"""The fewest pairs of passes for a ratio: of fewer, no interval of ranks holds it in 95 of 100 cases."""
FEWEST_PASSES = 2
"""The fewest passes of each side for the interval of a ratio of two times: of one there is no spread."""


def speeds(load: Load) -> list[float]:
    """The speed of each pass: throughput, or at a given request rate the inverse of the mean latency."""
    if load.request_rate_per_s is None:
        return [one.throughput_per_s for one in load.passes]
    return [1 / one.latency_ms["avg"] for one in load.passes]


def paired_ratio(mine: Speeds, theirs: Speeds, confidence: float = CONFIDENCE) -> Estimate:
    """The ratio of speeds that were measured in pairs, with an interval that no distribution is assumed for.

    The logarithms' differences are symmetric about that of the true ratio whatever the noise, since either side
    comes first by chance, so the signed ranks hold: the Hodges-Lehmann estimate is the median of the means of all
    pairs of differences, and its interval is Wilcoxon's (Hollander and Wolfe, Nonparametric Statistical Methods,
    3.3). Drift that outlasts a pair cancels in it; of the others, bursts of noise, up to 29 % do little harm.
    Needs FEWEST_PAIRS pairs.
    """
    differences = np.log(mine) - np.log(theirs)
    count = len(differences)
    if count < FEWEST_PAIRS:
        raise ValueError(f"a ratio needs {FEWEST_PAIRS} pairs, not {count}")
    first, second = np.triu_indices(count)
    means = np.sort((differences[first] + differences[second]) / 2)
    outside = _outside(count, confidence)
    return _ratio(float(np.median(means)), float(means[outside]), float(means[-1 - outside]), confidence)


@functools.cache
def _outside(count: int, confidence: float) -> int:
    """How many of the ordered means lie outside of the interval at either end: the quantile of Wilcoxon's T+."""
    chances = np.ones(1)
    for rank in range(1, count + 1):
        longer = np.zeros(len(chances) + rank)
        longer[: len(chances)] += chances / 2
        longer[rank:] += chances / 2
        chances = longer
    return max(0, int(np.searchsorted(np.cumsum(chances), (1 - confidence) / 2, side="right")) - 1)


def unpaired_ratio(mine: Speeds, theirs: Speeds) -> Estimate:
    """The ratio of speeds that were measured at two times, with Welch's interval of their logarithms.

    It covers how much passes vary within either time, not what the machine has changed in between. Needs
    FEWEST_PASSES of each.
    """
    from scipy import stats  # slow to import, and collecting tests imports this module

    logs = np.log(mine), np.log(theirs)
    middle = float(logs[0].mean() - logs[1].mean())
    if logs[0].std() == logs[1].std() == 0:
        return _ratio(middle, middle, middle)
    interval = stats.ttest_ind(*logs, equal_var=False).confidence_interval(CONFIDENCE)
    return _ratio(middle, float(interval.low), float(interval.high))


def _ratio(middle: float, low: float, high: float, confidence: float = CONFIDENCE) -> Estimate:
    return Estimate(float(np.exp(middle)), float(np.exp(low)), float(np.exp(high)), confidence)
