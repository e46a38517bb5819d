"""Estimates of passes against textbooks and SciPy; certified percentiles against MLPerf LoadGen's."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import signal, stats

from tritonproof.measure import estimates
from tritonproof.measure.passes import SteadyPart
from tritonproof.measure.stopping import PASSES_TO_BELIEVE_AN_INTERVAL, MeasuringPlan

TRIALS = 400


def passes_of(latencies_ms: Sequence[np.ndarray]) -> list[SteadyPart]:
    """Passes of one client without gaps."""
    return [SteadyPart(len(of_pass), float(of_pass.sum()) / 1e3, of_pass) for of_pass in latencies_ms]


@pytest.mark.parametrize("warm_up", [0, 30, 100])
def test_warm_up_is_found(warm_up: int) -> None:
    """Latencies fall from five times their final level, then stay. None means that more are needed."""
    cuts, generator = [], np.random.default_rng(2)
    for _trial in range(200):
        latencies = generator.gamma(16, 1 / 16, 400)
        latencies[:warm_up] *= np.linspace(5, 1, warm_up, endpoint=False)
        cut = estimates.warm_up_end(latencies)
        cuts.append(cut)
        assert cut is None or latencies[cut:].mean() < 1.1
    assert cuts.count(None) < 20


@pytest.mark.parametrize(
    ("count", "slow", "cut"),
    [
        *((400, 0, 0), (400, 30, 30), (400, 200, 200), (400, 210, None), (400, 280, None)),
        *((5, 0, None), (6, 2, 2), (39, 2, 2), (79, 2, 2), (403, 20, 20)),
    ],
)
def test_warm_up_in_first_half_is_cut(count: int, slow: int, cut: int | None) -> None:
    """Latencies in up to forty batches, at least six; those in the warm-up are five times as long."""
    assert estimates.warm_up_end(np.where(np.arange(count) < slow, 5.0, 1.0)) == cut


# By shape, a function that draws latencies in milliseconds, [passes, requests].
SHAPES: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "independent": lambda generator, *size: generator.gamma(4, 1, size),
    "heavy-tailed": lambda generator, *size: generator.lognormal(0, 1, size),
    "bimodal": lambda generator, *size: generator.normal(np.where(generator.random(size) < 0.3, 20, 5), 0.5),
    "passes of different luck": lambda generator, *size: (
        generator.gamma(4, 1, size) * generator.lognormal(0, 0.08, (size[0], 1))
    ),
    "autocorrelated": lambda generator, *size: np.exp(
        signal.lfilter([0.3], [1, -0.9], generator.normal(size=(size[0], size[1] + 100)))[:, 100:]
    ),
}
QUICK = ("independent", "autocorrelated", "passes of different luck")
EVERY = [name if name in QUICK else pytest.param(name, marks=pytest.mark.campaign) for name in SHAPES]


@pytest.mark.parametrize("shape", EVERY)
def test_intervals_have_stated_coverage(shape: str) -> None:
    """Two million requests give the truth."""
    draw, generator = SHAPES[shape], np.random.default_rng(11)
    population = np.concatenate([draw(generator, 20, 500).ravel() for _ in range(200)])
    truths = {f"p{percent}": np.percentile(population, percent) for percent in estimates.PERCENTILES}
    truths |= {"avg": population.mean(), "throughput": 1e3 / population.mean()}
    hits = dict.fromkeys(truths, 0)
    for _trial in range(TRIALS):
        passes = passes_of(list(draw(generator, 5, 300)))
        intervals = estimates.latency_estimates(passes)
        intervals["throughput"] = estimates.estimate(passes, estimates.requests_per_s)
        for name, interval in intervals.items():
            is_below = interval.open_above or truths[name] <= interval.high
            hits[name] += interval.low <= truths[name] and is_below
    # Three standard errors of the share of 400 trials are 3.3 points.
    assert all(0.917 <= count / TRIALS <= 0.983 for count in hits.values()), hits
    assert {interval.confidence for interval in intervals.values()} == {0.95}


@pytest.mark.parametrize("shape", EVERY)
def test_stopping_on_narrow_interval_keeps_coverage(shape: str) -> None:
    """A sweep's default budget allows six passes, or up to eight while they differ."""
    draw, generator = SHAPES[shape], np.random.default_rng(12)
    truth = 1e3 / np.mean([draw(generator, 20, 500).mean() for _ in range(400)])
    hits, counts = 0, []
    for _trial in range(TRIALS):
        passes = passes_of(list(draw(generator, 8, 300)))
        for count in range(PASSES_TO_BELIEVE_AN_INTERVAL, 9):
            interval = estimates.estimate(passes[:count], estimates.requests_per_s)
            if estimates.relative_half_width(interval) <= MeasuringPlan.interval_target:
                break
        hits += interval.low <= truth <= interval.high
        counts.append(count)
    assert 0.917 <= hits / TRIALS <= 0.983, (hits, np.mean(counts))


def test_interval_scales_with_value_and_stays_nonnegative() -> None:
    passes = passes_of([np.array([10.0, 11.0]), np.array([9.0, 12.0])])
    single, eightfold = (
        estimates.estimate(passes, estimates.requests_per_s, scale=scale) for scale in (1, 8)
    )
    ends = single.value, single.low, single.high
    assert (eightfold.value, eightfold.low, eightfold.high) == tuple(8 * end for end in ends)
    far_apart = passes_of([np.array([1.0]), np.array([100.0])])
    assert estimates.estimate(far_apart, estimates.mean_latency_ms).low == 0.0


@pytest.mark.parametrize("passes", [2, 3, 6])
def test_interval_of_mean_matches_student_t(passes: int) -> None:
    means = np.array([10.0, 11.0, 9.5, 10.2, 10.4, 9.9])[:passes]
    taken = passes_of([np.full(50, mean) for mean in means])

    interval = estimates.estimate(taken, estimates.mean_latency_ms)
    low, high = stats.t.interval(0.95, passes - 1, means.mean(), stats.sem(means))

    assert interval.value == pytest.approx(means.mean())
    assert (interval.low, interval.high) == pytest.approx((max(0.0, low), high))
    assert not interval.open_above
    assert estimates.relative_half_width(interval) == pytest.approx((high - max(0.0, low)) / 2 / means.mean())
    ratio = estimates.geometric_mean(np.exp(means))
    assert np.log([ratio.value, ratio.low, ratio.high]) == pytest.approx([means.mean(), low, high])


@pytest.mark.parametrize(("percent", "room"), [(50, 0.1), (90, 0.1), (99, 0.25)])
def test_percentile_interval_matches_order_statistics(percent: int, room: float) -> None:
    """Equal to SciPy's for independent requests, as far as a hundred passes show that they are."""
    widths = {"low": [], "high": []}  # type: dict[str, list[float]]
    for seed in range(8):
        latencies = np.random.default_rng(seed).gamma(4, 1, (100, 60))
        interval = estimates.percentile_estimate(passes_of(list(latencies)), percent)
        reference = stats.quantile_test(latencies.ravel(), p=percent / 100).confidence_interval(0.95)
        assert interval.value == np.percentile(latencies, percent)
        assert not interval.open_above
        widths["low"].append((interval.value - interval.low) / (interval.value - reference.low))
        widths["high"].append((interval.high - interval.value) / (reference.high - interval.value))
    for sides in widths.values():
        assert np.mean(sides) == pytest.approx(1, abs=room)


def test_p99_interval_is_open_under_368_requests() -> None:
    """0.99 to the power of 368 is 1/40, the chance that even the slowest request does not exceed the p99."""
    for count, is_open in ((366, True), (370, False)):
        half = np.arange(count / 2)
        interval = estimates.percentile_estimate(passes_of([half, half]), 99)
        assert interval.open_above is is_open
        assert (interval.high == half.max()) >= is_open


def test_open_interval_uses_one_sided_lower_bound() -> None:
    latencies = np.arange(300.0)
    two_sided = estimates.percentile_estimate(passes_of([latencies] * 2), 90)
    one_sided = estimates.percentile_estimate(passes_of([latencies[:12]] * 2), 90)
    assert (two_sided.open_above, one_sided.open_above) == (False, True)
    # The rank of the one-sided 95 % bound of 24 observations' 90 % quantile is the binomial's 5 % quantile.
    rank = stats.binom.ppf(0.05, 24, 0.9)
    assert np.percentile(np.repeat(latencies[:12], 2), 100 * (rank - 1) / 25) <= one_sided.low
    assert one_sided.low <= np.percentile(np.repeat(latencies[:12], 2), 100 * (rank + 1) / 25)


@pytest.mark.parametrize(
    ("percent", "slower", "needed"),
    [
        *((50, 0, 7), (50, 300, 661), (90, 1, 64), (90, 1000, 10722)),
        *((99, 0, 459), (99, 1, 662), (99, 2, 838), (99, 10, 2010), (99, 300, 34262)),
        *((99.9, 0, 4603), (99.9, 1, 6636), (99.9, 30, 45394), (99.9, 3000, 3129845)),
    ],
)
def test_required_requests_match_loadgen(percent: float, slower: int, needed: int) -> None:
    """The fewest requests of which so many may be slower: MinPassingQueriesFinder()(slower, percentile, 0, 0.99)
    + slower of loadgen/early_stopping.cc, compiled from mlcommons/inference b66003e."""
    assert slower != 1 or estimates.requests_needed(percent) == needed
    assert estimates.slower_allowed(needed, percent) == slower
    assert estimates.slower_allowed(needed - 1, percent) == slower - 1


@pytest.mark.parametrize(
    ("requests", "bound_ms", "missing"),
    [(600, None, 62), (662, 662.0, 0), (838, 837.0, 0)],  # of 838 requests two may be slower
)
def test_p99_needs_662_requests_to_certify(requests: int, bound_ms: float | None, missing: int) -> None:
    latencies_ms = np.random.default_rng(1).permutation(np.arange(1.0, requests + 1))
    certified = estimates.certified(latencies_ms, 99)
    assert (certified.bound_ms, certified.requests_missing) == (bound_ms, missing)
    assert (certified.requests, certified.value_ms) == (requests, np.percentile(latencies_ms, 99))
