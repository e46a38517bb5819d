"""From the timestamps of requests to figures with intervals: the steady part of each pass, and what all
passes show together. Pure functions on arrays.

Certifying follows MLPerf LoadGen's early stopping (mlcommons/inference, loadgen/early_stopping.cc and
EarlyStopping in loadgen/results.cc). A bound on a percentile holds if so few requests were slower that, were
the true share of slow ones as large as the percentile allows, so few would occur by chance in less than 1 of
100 runs. Requests count as independent of each other.
"""

import bisect
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tritonproof.record.schema import CERTIFIED_CONFIDENCE, CONFIDENCE, CertifiedPercentile, Estimate


@dataclass(frozen=True)
class Timeline:
    """The requests of one pass of the load generator, by one clock."""

    starts_ns: np.ndarray
    ends_ns: np.ndarray
    """When each was answered, [requests], after its start."""
    opened_ns: int
    closed_ns: int
    """The generator kept to its load, and recorded each request that ended, between these two."""
    concurrency: int
    """Requests in flight at any time: the next starts when one ends. 0 for a schedule."""
    offsets_ns: np.ndarray | None = None
    """Open loop: how long after the first each request is due, ascending, [requests or more]."""


@dataclass(frozen=True)
class SteadyPass:
    """The part of a pass under steady load, without its start-up and its tail."""

    completed: float
    """Requests; in a closed loop by Little's law, and so in general no whole number."""
    duration_s: float
    latencies_ms: np.ndarray
    """Of the requests that were sent after the start-up, [n]; in an open loop, from when they were due."""
    slips_ms: np.ndarray | None = None
    """Open loop: how much later than due each was sent, [n]."""
    due: int | None = None
    """Open loop: requests that were due while the completed ones were answered."""


def steady_pass(timeline: Timeline) -> SteadyPass:
    """Cut the start-up and the tail off a pass."""
    offsets_ns = timeline.offsets_ns
    return _closed_loop(timeline) if offsets_ns is None else _open_loop(timeline, offsets_ns)


def _closed_loop(timeline: Timeline) -> SteadyPass:
    """The steady part begins when every client has its first answer: those requests met an empty server. It
    ends one longest latency before the close, so that requests in flight at the close, which are not in the
    record, lie outside. If a pass is too short to cut, all of it counts.

    Completed requests are, by Little's law, the time spent in flight over the mean latency. With long
    requests, or ones that end in groups, this has less noise than counting their ends. If some requests are
    much longer than others, it also has less bias than counting the part of each request that lies inside,
    because the end depends on the longest.

    The latencies are those of each client's requests, from its second on, that were sent before the end. When
    a request is sent depends only on the requests before it, so its own latency does not decide whether it
    counts (Wald's identity). Whether it ends in time does depend on its latency: the close falls into long
    requests more often than into short ones, and a percentile of those that ended would be too low.
    """
    latencies = timeline.ends_ns - timeline.starts_ns
    order = np.argsort(timeline.starts_ns, kind="stable")
    first_answers = timeline.ends_ns[order[: timeline.concurrency]]
    begin = max(timeline.opened_ns, int(first_answers.max()))
    longest = int(latencies[timeline.ends_ns > begin].max(initial=0))
    end = timeline.closed_ns - longest
    after = np.ones(len(latencies), bool)
    after[order[: timeline.concurrency]] = False
    after &= timeline.starts_ns <= end
    if not after.any() or end - begin < longest:
        begin, end = int(timeline.starts_ns.min()), int(timeline.ends_ns.max())
        after = np.ones(len(latencies), bool)
    inside = np.clip(np.minimum(timeline.ends_ns, end) - np.maximum(timeline.starts_ns, begin), 0, None)
    return SteadyPass(
        completed=float(inside.sum() / latencies[after].mean()),
        duration_s=(end - begin) / 1e9,
        latencies_ms=latencies[after] / 1e6,
    )


def _open_loop(timeline: Timeline, offsets_ns: np.ndarray) -> SteadyPass:
    """Latencies count from when a request was due, so that a generator that waits for a slow server hides
    nothing (coordinated omission). Requests are never early, so the schedule begins where none would be.

    The first quarter does not count: it met an empty server. Latencies count for requests due one longest
    latency before the close, since a slow one due later may not be in the record. The throughput is that of
    answers, which stays the server's own if the rate is too high for it.
    """
    order = np.argsort(timeline.starts_ns, kind="stable")
    starts, ends = timeline.starts_ns[order], timeline.ends_ns[order]
    zero = int((starts - offsets_ns[: len(starts)]).min())
    due = offsets_ns[: len(starts)] + zero
    slips = starts - due
    latencies = ends - due
    begin = max(timeline.opened_ns + (timeline.closed_ns - timeline.opened_ns) // 4, int(ends.min()))
    counted = (due >= begin) & (due <= timeline.closed_ns - int(latencies.max()))
    if not counted.any():
        counted = np.ones(len(due), bool)
    answered = int((ends > begin).sum())
    return SteadyPass(
        completed=float(max(answered, 1)),
        duration_s=max(timeline.closed_ns - begin, 1) / 1e9,
        latencies_ms=latencies[counted] / 1e6,
        slips_ms=slips[counted] / 1e6,
        due=int(((offsets_ns > begin - zero) & (offsets_ns <= timeline.closed_ns - zero)).sum()),
    )


_Pass = TypeVar("_Pass")
PERCENTILES = (50, 90, 95, 99)
CERTIFIABLE = (99.0, 99.9)
"""The percentiles that are certified for every load point with enough requests."""
_MIN_SLOWER = 1
"""Requests that may be slower when a percentile is first certified: LoadGen reports nothing before."""
_MAX_INDEPENDENT = 2.0
"""The most independent requests, as a multiple of all: passes that vary even less do so by luck. With this
bound, the intervals of 98 in 100 simulated measurements held the truth, without it 95."""
_MSER_BATCHES = 40
_MSER_LEAST = 6
_MSER_REST = 0.25
"""The share that is never cut: the variance of fewer batches is small by chance."""


def warm_up_end(latencies: np.ndarray) -> int | None:
    """How many of the first latencies, ordered by their answers, belong to the warm-up; None if unsettled.

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


def throughput(passes: Sequence[SteadyPass]) -> float:
    """Requests per second of all passes together."""
    return sum(steady.completed for steady in passes) / sum(steady.duration_s for steady in passes)


def mean_latency(passes: Sequence[SteadyPass]) -> float:
    """The mean of all latencies together, in milliseconds."""
    return float(pooled_ms(passes).mean())


def percentile_latency(passes: Sequence[SteadyPass], percent: float) -> float:
    """The percentile of all latencies together, in milliseconds; never a mean of the passes' percentiles."""
    return float(np.percentile(pooled_ms(passes), percent))


def pooled_ms(passes: Sequence[SteadyPass]) -> np.ndarray:
    """All latencies of all passes, in milliseconds."""
    return np.concatenate([steady.latencies_ms for steady in passes])


def estimate(
    passes: Sequence[SteadyPass], statistic: Callable[[Sequence[SteadyPass]], float], scale: float = 1.0
) -> Estimate:
    """A ratio or mean of all passes together, with an interval from how much it varies between passes.
    Requests of a pass share its luck (clock, caches, neighbours), so the passes, not the requests, are the
    independent observations (Kalibera and Jones, 2013). Needs two passes."""
    value = statistic(passes)
    half = _standard_error(passes, statistic) * students_t(len(passes) - 1)
    return Estimate(value * scale, max(0.0, value - half) * scale, (value + half) * scale)


def percentile_estimate(passes: Sequence[SteadyPass], percent: float) -> Estimate:
    """A percentile of all latencies together, in milliseconds, with its interval. Needs two passes.

    Requests in flight together are slow together, so of 300 latencies as few as 40 may be independent: as
    many as would vary so much between passes (the effective sample size, which Korn and Graubard, 1998, use
    for few events). The interval is that of their order statistics (as interpolated by
    Hutson, 1999), read back from the latencies. If even the slowest of them may lie below the percentile, as
    for a p99 of fewer than 368, the interval is open above, and its lower end is one-sided."""
    latencies_ms, share = pooled_ms(passes), percent / 100
    value = float(np.percentile(latencies_ms, percent))
    independent = _independent(passes, value, share)
    tail = (1 - CONFIDENCE) / 2
    is_open = share ** min(independent, len(latencies_ms)) > tail
    low = _order_level(independent, share, CONFIDENCE if is_open else 1 - tail)
    high = 1.0 if is_open else 1 - _order_level(independent, 1 - share, 1 - tail)
    low_ms, high_ms = np.percentile(latencies_ms, [100 * low, 100 * high]).tolist()
    return Estimate(value, low_ms, high_ms, open_above=is_open)


def _independent(passes: Sequence[SteadyPass], value_ms: float, share: float) -> float:
    """How many independent latencies would estimate the share up to a value as well as these do."""
    counts = [(int((steady.latencies_ms <= value_ms).sum()), len(steady.latencies_ms)) for steady in passes]
    count = sum(total for _, total in counts)
    error = _standard_error(
        counts, lambda subset: sum(below for below, _ in subset) / sum(total for _, total in subset)
    )
    if not error:
        return count
    known = (students_t(math.inf) / students_t(len(passes) - 1)) ** 2
    return round(min(share * (1 - share) / error**2 * known, _MAX_INDEPENDENT * count), 1)


@functools.cache
def _order_level(count: float, share: float, confidence: float) -> float:
    """The share of `count` independent observations that are surely below their quantile, at most `share`."""
    from scipy import special

    place = special.bdtrik(1 - confidence, count, share) + 1  # among the observations, from 1
    return min(place / (count + 1), share) if place > 1 else 0.0


def _standard_error(passes: Sequence[_Pass], statistic: Callable[[Sequence[_Pass]], float]) -> float:
    """The standard error of a smooth statistic, by the jackknife over passes."""
    count = len(passes)
    if count < 2:
        raise ValueError("an interval needs at least two passes")
    without = np.array([statistic([p for j, p in enumerate(passes) if j != i]) for i in range(count)])
    return float(np.sqrt((count - 1) / count * ((without - without.mean()) ** 2).sum()))


@functools.cache
def students_t(degrees_of_freedom: int) -> float:
    """How many standard errors the interval reaches to either side, by Student's distribution."""
    from scipy import stats

    return float(stats.t.ppf((1 + CONFIDENCE) / 2, degrees_of_freedom))


def geometric_mean(values: Sequence[float] | np.ndarray) -> Estimate:
    """The geometric mean of positive figures, one per turn, with Student's interval of their logarithms: a
    ratio is as likely to be a tenth too high as a tenth too low."""
    logs = np.log(values)
    error = float(logs.std(ddof=1)) / math.sqrt(len(logs))
    half = students_t(len(logs) - 1) * error
    middle = float(logs.mean())
    return Estimate(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


def relative_half_width(one: Estimate) -> float:
    """Half the width of an interval as a fraction of its value."""
    return (one.high - one.low) / 2 / one.value


def latency_estimates(passes: Sequence[SteadyPass]) -> dict[str, Estimate]:
    """avg, p50, p90, p95 and p99 in milliseconds."""
    percentiles = {f"p{percent}": percentile_estimate(passes, percent) for percent in PERCENTILES}
    return {"avg": estimate(passes, mean_latency), **percentiles}


def latency_summary(steady: SteadyPass) -> dict[str, float]:
    """avg, p50, p90, p95 and p99 of one pass, in milliseconds."""
    percentiles = {f"p{percent}": percentile_latency([steady], percent) for percent in PERCENTILES}
    return {"avg": mean_latency([steady]), **percentiles}


@functools.cache
def requests_needed(percent: float) -> int:
    """The fewest requests that certify a percentile: 662 for 99, and 6,636 for 99.9."""
    counts = range(1 << 20)  # more than any of CERTIFIABLE needs
    return bisect.bisect_left(counts, _MIN_SLOWER, key=lambda count: slower_allowed(count, percent))


@functools.cache
def slower_allowed(requests: int, percent: float) -> int:
    """How many requests may be slower than the percentile's bound; -1 if there are too few for any bound."""
    from scipy import stats

    most_chance, share = 1 - CERTIFIED_CONFIDENCE, 1 - percent / 100
    allowed = int(stats.binom.ppf(most_chance, requests, share))
    while allowed >= 0 and stats.binom.cdf(allowed, requests, share) >= most_chance:
        allowed -= 1
    return allowed


def certified(latencies_ms: np.ndarray, percent: float) -> CertifiedPercentile:
    """A percentile's certified bound for these latencies, [requests], or how many requests are missing."""
    count = len(latencies_ms)
    value_ms = float(np.percentile(latencies_ms, percent))
    missing = max(0, requests_needed(percent) - count)
    if missing:
        return CertifiedPercentile(value_ms, None, count, missing)
    # LoadGen disregards one slow request fewer than it allows.
    place = count - slower_allowed(count, percent)
    bound_ms = float(np.partition(latencies_ms, place)[place])
    return CertifiedPercentile(value_ms, bound_ms, count, 0)


_MIN_ANSWERED = 0.95
"""The share of due requests that a server which keeps up answers. Of 2,000 simulated points, six of the
shortest passes each at a server that is busy half of the time, none answered fewer at 200 requests per
second, 16 at 50 and 156 at 20; of 500 at a server a fifth too slow for the rate, at most 10 answered more."""


def keeps_up(passes: Sequence[SteadyPass]) -> bool:
    """Whether a server answers as many requests per second as are due."""
    due = sum(steady.due or 0 for steady in passes)
    return sum(steady.completed for steady in passes) >= _MIN_ANSWERED * due
