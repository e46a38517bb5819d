"""Estimates with intervals from the steady parts of all passes over a load point. Pure functions.

Certifying follows MLPerf LoadGen's early stopping (mlcommons/inference, loadgen/early_stopping.cc and
EarlyStopping in loadgen/results.cc). A bound on the p99 holds at 99 %: if one request in 100 were truly
slower than the bound, fewer than 1 run in 100 would show as few slow ones. Other percentiles are alike.
Requests count as independent of each other.
"""

import bisect
import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from tritonproof.measure.passes import SteadyPart
from tritonproof.record import fields, speed

PERCENTILES = (50, 90, 95, 99)
CERTIFIABLE = (99.0, 99.9)
"""The percentiles that are certified at every load point with enough requests."""
_MIN_SLOWER = 1
"""How many requests may be slower when a percentile is first certified: LoadGen reports nothing before."""
_MAX_INDEPENDENT = 2.0
"""The most independent requests, as a multiple of all requests: passes that vary even less do so by luck.
With this bound, the intervals of 98 in 100 simulated measurements held the truth, without it 95."""
_MSER_BATCHES = 40
_MSER_LEAST = 6
"""The number of batches into which latencies are cut, and the least number: chosen, not measured."""
_MSER_REST = 0.25
"""The share of the batches, at the end, that is never cut off: the variance of fewer is small by chance."""


def warm_up_end(latencies: np.ndarray) -> int | None:
    """How many of the first latencies, in the order of answers, are of the warm-up; None if it never ends.

    MSER (White, 1997): cut where the standard error of the rest's mean, by means of batches, is least. If
    that is in the second half, nothing shows that the rest is stationary.
    """
    size = max(1, len(latencies) // _MSER_BATCHES)
    count = len(latencies) // size
    if count < _MSER_LEAST:
        return None
    means = latencies[: count * size].reshape(count, size).mean(axis=1)
    errors = [float(means[cut:].var()) / (count - cut) for cut in range(count - int(_MSER_REST * count))]
    best = int(np.argmin(errors))
    return best * size if best <= count // 2 else None


def requests_per_s(parts: Sequence[SteadyPart]) -> float:
    """Requests per second of all passes together."""
    return sum(part.completed for part in parts) / sum(part.duration_s for part in parts)


def mean_latency_ms(parts: Sequence[SteadyPart]) -> float:
    return float(pooled_ms(parts).mean())


def percentile_latency(parts: Sequence[SteadyPart], percent: float) -> float:
    """The percentile of all latencies together, in milliseconds; never a mean of the passes' percentiles."""
    return float(np.percentile(pooled_ms(parts), percent))


def pooled_ms(parts: Sequence[SteadyPart]) -> np.ndarray:
    """All latencies of all passes, in milliseconds."""
    return np.concatenate([part.latencies_ms for part in parts])


def estimate(
    parts: Sequence[SteadyPart], statistic: Callable[[Sequence[SteadyPart]], float], scale: float = 1.0
) -> fields.Estimate:
    """A ratio or mean of all passes together, with an interval from its variation between passes. Requests of
    a pass share its luck (clock, caches, neighbours), so that not requests but passes are the independent
    observations (Kalibera and Jones, 2013). Needs two passes."""
    value = statistic(parts)
    without_each = [statistic([p for j, p in enumerate(parts) if j != i]) for i in range(len(parts))]
    half = _standard_error(np.array(without_each)) * students_t(len(parts) - 1)
    return fields.Estimate(value * scale, max(0.0, value - half) * scale, (value + half) * scale)


def percentile_estimate(parts: Sequence[SteadyPart], percent: float) -> fields.Estimate:
    """A percentile of all latencies together, in milliseconds, with its interval. Needs two passes.

    Requests in flight together are slow together, so of 300 latencies as few as 40 may be independent: as
    many as would vary as much between passes (the effective sample size, which Korn and Graubard, 1998, use
    for few events). The interval is that of their order statistics (as interpolated by Hutson, 1999), read
    back from the latencies. If even the slowest may lie below the percentile, as for a p99 of fewer than 368,
    the interval is open above, and its lower end is one-sided.
    """
    latencies_ms, share = pooled_ms(parts), percent / 100
    value = float(np.percentile(latencies_ms, percent))
    independent = _independent(parts, value, share)
    tail = (1 - fields.CONFIDENCE) / 2
    is_open = share ** min(independent, len(latencies_ms)) > tail
    low = _order_level(independent, share, fields.CONFIDENCE if is_open else 1 - tail)
    high = 1.0 if is_open else 1 - _order_level(independent, 1 - share, 1 - tail)
    low_ms, high_ms = np.percentile(latencies_ms, [100 * low, 100 * high]).tolist()
    return fields.Estimate(value, low_ms, high_ms, open_above=is_open)


def _independent(parts: Sequence[SteadyPart], value_ms: float, share: float) -> float:
    """How many independent latencies would estimate the share up to `value_ms` as well as `parts` do."""
    below = np.array([(part.latencies_ms <= value_ms).sum() for part in parts])
    totals = np.array([len(part.latencies_ms) for part in parts])
    count = int(totals.sum())
    error = _standard_error((below.sum() - below) / (count - totals))
    if not error:
        return count
    narrowing = (students_t(math.inf) / students_t(len(parts) - 1)) ** 2
    return round(min(share * (1 - share) / error**2 * narrowing, _MAX_INDEPENDENT * count), 1)


def _order_level(count: float, share: float, confidence: float) -> float:
    """The share of `count` independent observations surely below their `share` quantile, at most `share`."""
    from scipy import special

    rank = special.bdtrik(1 - confidence, count, share) + 1  # among the observations, from 1
    return min(rank / (count + 1), share) if rank > 1 else 0.0


def _standard_error(without_each: np.ndarray) -> float:
    """The standard error of a smooth statistic, by the jackknife: from its values with each pass left out."""
    count = len(without_each)
    return float(np.sqrt((count - 1) / count * ((without_each - without_each.mean()) ** 2).sum()))


@functools.cache
def students_t(degrees_of_freedom: int) -> float:
    """How many standard errors the interval reaches to each side, by Student's distribution."""
    from scipy import stats

    return float(stats.t.ppf((1 + fields.CONFIDENCE) / 2, degrees_of_freedom))


def geometric_mean(values: Sequence[float] | np.ndarray) -> fields.Estimate:
    """The geometric mean of positive figures, with Student's interval of their logarithms, as of ratios."""
    logs = np.log(values)
    error = float(logs.std(ddof=1)) / math.sqrt(len(logs))
    half = students_t(len(logs) - 1) * error
    middle = float(logs.mean())
    return fields.Estimate(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


def relative_half_width(interval: fields.Estimate) -> float:
    """Half the width of an interval, as a fraction of its value."""
    return (interval.high - interval.low) / 2 / interval.value


def latency_estimates(parts: Sequence[SteadyPart]) -> dict[str, fields.Estimate]:
    """The estimates of avg, p50, p90, p95 and p99, in milliseconds, by these names."""
    percentiles = {f"p{percent}": percentile_estimate(parts, percent) for percent in PERCENTILES}
    return {"avg": estimate(parts, mean_latency_ms)} | percentiles


def latency_summary(part: SteadyPart) -> dict[str, float]:
    """avg, p50, p90, p95 and p99 of one pass, in milliseconds."""
    percentiles = {f"p{percent}": percentile_latency([part], percent) for percent in PERCENTILES}
    return {"avg": mean_latency_ms([part]), **percentiles}


@functools.cache
def requests_needed(percent: float) -> int:
    """The fewest requests that certify a percentile: 662 for 99, 6,636 for 99.9."""
    counts = range(1 << 20)  # more than any of CERTIFIABLE needs
    return bisect.bisect_left(counts, _MIN_SLOWER, key=lambda count: slower_allowed(count, percent))


def slower_allowed(requests: int, percent: float) -> int:
    """How many `requests` may be slower than a percentile's bound; -1 if they are too few for any bound."""
    from scipy import stats

    # The quantile is the smallest number of slow requests that is not rarer than this; any fewer are rarer.
    return int(stats.binom.ppf(1 - speed.CERTIFIED_CONFIDENCE, requests, 1 - percent / 100)) - 1


def certified(latencies_ms: np.ndarray, percent: float) -> speed.CertifiedPercentile:
    """A percentile's certified bound from these latencies, [requests], or how many more requests it needs."""
    count = len(latencies_ms)
    value_ms = float(np.percentile(latencies_ms, percent))
    missing = max(0, requests_needed(percent) - count)
    if missing:
        return speed.CertifiedPercentile(value_ms, None, count, missing)
    # LoadGen disregards one slow request fewer than it allows.
    index = count - slower_allowed(count, percent)
    bound_ms = float(np.partition(latencies_ms, index)[index])
    return speed.CertifiedPercentile(value_ms, bound_ms, count, 0)


_MIN_ANSWERED = 0.95
"""The least share of the due requests that a server which keeps up answers. Of 2,000 simulated points, six of
the shortest passes each at a server that is busy half of the time, none answered fewer at 200 requests per
second, 16 at 50 and 156 at 20; of 500 at a server a fifth too slow for the rate, at most 10 answered more."""


def keeps_up(parts: Sequence[SteadyPart]) -> bool:
    """Whether a server answers as many requests per second as are due."""
    due = sum(part.due or 0 for part in parts)
    return sum(part.completed for part in parts) >= _MIN_ANSWERED * due
