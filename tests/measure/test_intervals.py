"""Intervals and the end of a warm-up beside what textbooks and SciPy say of the same numbers."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from fixtures.measure import estimates
from fixtures.measure.timeline import Steady
from reports.record.schema import Estimate


def passes_of(latencies_ms: Sequence[np.ndarray]) -> list[Steady]:
    """Passes of one client without gaps."""
    return [Steady(len(part), float(part.sum()) / 1e3, part) for part in latencies_ms]


@pytest.mark.parametrize("passes", [2, 3, 6])
def test_the_interval_of_a_mean_of_passes_as_long_as_each_other_is_students(passes: int) -> None:
    means = np.array([10.0, 11.0, 9.5, 10.2, 10.4, 9.9])[:passes]
    parts = passes_of([np.full(50, mean) for mean in means])

    found = estimates.estimate(parts, estimates.mean_latency)
    low, high = stats.t.interval(0.95, passes - 1, means.mean(), stats.sem(means))

    assert found.value == pytest.approx(means.mean())
    assert (found.low, found.high) == pytest.approx((max(0.0, low), high))
    assert found.confidence == 0.95
    assert not found.open_above
    assert estimates.relative_half_width(found) == pytest.approx((high - max(0.0, low)) / 2 / means.mean())


def test_a_longer_pass_weighs_more_in_a_throughput() -> None:
    parts = [Steady(100.0, 1.0, np.ones(2)), Steady(50.0, 3.0, np.ones(2))]

    assert estimates.throughput(parts) == 150 / 4


def test_of_nothing_the_width_is_beyond_all_bounds() -> None:
    assert estimates.relative_half_width(Estimate(0.0, 0.0, 1.0)) == float("inf")
    assert estimates.relative_half_width(Estimate(4.0, 3.0, 7.0)) == 0.5


@pytest.mark.parametrize(("percent", "room"), [(50, 0.1), (90, 0.1), (99, 0.25)])
def test_of_many_passes_of_independent_requests_the_interval_is_that_of_order_statistics(
    percent: int, room: float
) -> None:
    """As SciPy has it of as many independent observations, within what their number is known to by a hundred passes."""
    widths = {"low": [], "high": []}  # type: dict[str, list[float]]
    for seed in range(8):
        latencies = np.random.default_rng(seed).gamma(4, 1, (100, 60))
        found = estimates.percentile_estimate(passes_of(list(latencies)), percent)
        scipys = stats.quantile_test(latencies.ravel(), p=percent / 100).confidence_interval(0.95)
        assert found.value == np.percentile(latencies, percent)
        assert not found.open_above
        widths["low"].append((found.value - found.low) / (found.value - scipys.low))
        widths["high"].append((found.high - found.value) / (scipys.high - found.value))
    for sides in widths.values():
        assert np.mean(sides) == pytest.approx(1, abs=room)


def test_requests_that_are_slow_together_count_as_fewer() -> None:
    """Four that are answered together are one, so that the interval is that of a quarter as many."""
    generator = np.random.default_rng(4)
    latencies = generator.gamma(4, 1, (100, 60))
    alone = estimates.percentile_estimate(passes_of(list(latencies)), 90)
    together = estimates.percentile_estimate(passes_of(list(np.repeat(latencies, 4, axis=1))), 90)

    assert together.value == pytest.approx(alone.value, rel=0.01)
    assert together.high - together.low == pytest.approx(alone.high - alone.low, rel=0.1)


def test_where_passes_do_not_vary_at_all_all_requests_count_as_they_are() -> None:
    """Each pass has the same latencies, so that nothing says how far the share below a percentile is known."""
    latencies = np.random.default_rng(5).permutation(np.arange(1.0, 1001.0))
    found = estimates.percentile_estimate(passes_of([latencies] * 4), 50)
    scipys = stats.quantile_test(np.tile(latencies, 4), p=0.5).confidence_interval(0.95)

    assert (found.low, found.high) == pytest.approx((scipys.low, scipys.high), rel=0.01)


def test_a_percentile_that_the_slowest_may_not_reach_is_open_above_from_368_requests_down() -> None:
    """0.99 to the power of 368 is a fortieth: so often not even the slowest of so many is slower than the p99."""
    for count, is_open in ((366, True), (370, False)):
        half = np.arange(count / 2)
        found = estimates.percentile_estimate(passes_of([half, half]), 99)
        assert found.open_above is is_open
        assert (found.high == half.max()) >= is_open


def test_a_lower_end_that_stands_alone_has_all_of_the_doubt_on_its_side() -> None:
    """Of an interval that is open above the lower end is for one side alone: nearer than that of two sides."""
    latencies = np.arange(300.0)
    found = estimates.percentile_estimate(passes_of([latencies] * 2), 90)
    open_one = estimates.percentile_estimate(passes_of([latencies[:12]] * 2), 90)

    assert (found.open_above, open_one.open_above) == (False, True)
    # The share below which 24 observations have their 90 % quantile with 95 %: of the binomial one in twenty.
    place = stats.binom.ppf(0.05, 24, 0.9)
    assert np.percentile(np.repeat(latencies[:12], 2), 100 * (place - 1) / 25) <= open_one.low
    assert open_one.low <= np.percentile(np.repeat(latencies[:12], 2), 100 * (place + 1) / 25)


@pytest.mark.parametrize(
    ("slow", "cut"), [(0, 0), (10, 10), (30, 30), (100, 100), (200, 200), (210, None), (280, None)]
)
def test_a_warm_up_is_cut_where_it_ends_if_that_is_in_the_first_half(slow: int, cut: int | None) -> None:
    """400 latencies in forty batches, those of the warm-up five times as long."""
    latencies = np.where(np.arange(400) < slow, 5.0, 1.0)

    assert estimates.warm_up_end(latencies) == cut


@pytest.mark.parametrize("count", [6, 39, 40, 41, 79, 403])
def test_a_warm_up_is_told_in_latencies_whatever_their_number(count: int) -> None:
    assert estimates.warm_up_end(np.ones(count)) == 0
    batch = max(1, count // 40)
    assert estimates.warm_up_end(np.where(np.arange(count) < 2 * batch, 5.0, 1.0)) == 2 * batch


def test_a_summary_of_one_pass_has_its_mean_and_percentiles() -> None:
    latencies = np.random.default_rng(1).permutation(np.arange(1.0, 1002.0))

    assert estimates.latency_summary(Steady(1001.0, 1.0, latencies)) == {
        "avg": 501.0,
        "p50": 501.0,
        "p90": 901.0,
        "p95": 951.0,
        "p99": 991.0,
    }
