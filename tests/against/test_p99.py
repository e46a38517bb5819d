"""A longer p99 tail is found even if speed is equal, and an equal tail raises no alarm."""

import numpy as np
import pytest

from fixtures.against.comparison import OtherBuild, compare_pairs, is_settled, with_p99
from reports.record.schema import Comparison
from reports.record.verdicts import speed_failures
from tests import examples

REQUESTS, PAIRS = 150, 100
OTHER = OtherBuild("itself", 0.03, points=4)


def measured(generator: np.random.Generator, slow: float, factor: float) -> Comparison:
    """Compare pairs of passes until settled; in one, a share `slow` of requests takes `factor` as long."""

    def passes(slow: float) -> np.ndarray:
        of_pass = np.exp(generator.normal(0, 0.02, (PAIRS, 1)))
        latencies = of_pass * np.exp(generator.normal(0, 0.1, (PAIRS, REQUESTS)))
        return np.where(generator.random(latencies.shape) < slow, factor, 1.0) * latencies

    mine, theirs = passes(slow), passes(0.0)
    speeds = [1 / latencies_ms.mean(axis=1) for latencies_ms in (mine, theirs)]
    p99_ms = [np.percentile(latencies_ms, 99, axis=1) for latencies_ms in (mine, theirs)]

    def settled(count: int) -> bool:
        return is_settled(speeds[0][:count], speeds[1][:count], OTHER, (p99_ms[0][:count], p99_ms[1][:count]))

    count = next((looked for looked in (8, 16, 32, 64) if settled(looked)), PAIRS)
    comparison = compare_pairs(speeds[0][:count], speeds[1][:count], OTHER, 60.0)
    return with_p99(comparison, p99_ms[0][:count], p99_ms[1][:count])


def test_longer_tail_fails_despite_equal_speed() -> None:
    """Two in a hundred requests take half as long again, which makes the build one percent slower."""
    generator = np.random.default_rng(5)
    comparisons = [measured(generator, slow=0.02, factor=1.5) for _ in range(20)]

    assert {comparison.verdict for comparison in comparisons} == {"not slower"}
    assert sum(comparison.p99_is_longer for comparison in comparisons) >= 18
    (failure,) = speed_failures(examples.load("online", 4, 100.0, comparison=comparisons[0]))
    assert "p99" in failure


@pytest.mark.parametrize(("slow", "most"), [(0.0, 1), (1.0, 5)], ids=["alike", "all as slow as allowed"])
def test_allowed_tail_rarely_raises_an_alarm(slow: float, most: int) -> None:
    """400 points are a hundred runs of four, of which one may raise an alarm."""
    generator = np.random.default_rng(6)
    comparisons = [measured(generator, slow, factor=1 / 0.97) for _ in range(400)]

    assert sum(comparison.p99_is_longer for comparison in comparisons) <= most
    assert all(
        comparison.p99_ratio and comparison.p99_ratio.low < comparison.p99_ratio.value
        for comparison in comparisons
    )
