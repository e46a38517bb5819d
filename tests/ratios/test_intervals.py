"""The ratio of two speeds, by simulation: coverage of intervals, verdicts, repeated looks."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests import toy
from tritonproof.measure import slowdown
from tritonproof.measure.slowdown import compare_pairs, is_settled, with_verdicts
from tritonproof.ratios import paired_ratio, unpaired_ratio
from tritonproof.record.fields import Ratio
from tritonproof.record.speed import SpeedComparison

TRIALS = 1000

Noise = Callable[[np.random.Generator, int], np.ndarray]
NOISES: dict[str, Noise] = {
    "normal": lambda generator, count: generator.normal(0, 0.05, count),
    "heavy tails": lambda generator, count: 0.03 * generator.standard_t(2, count),
    "bursts": lambda generator, count: (
        generator.normal(0, 0.02, count)
        - (generator.random(count) < 0.15) * generator.exponential(0.4, count)
    ),
}


def speeds(
    generator: np.random.Generator, noise: Noise, ratio: float, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of speeds with that true ratio, on a machine that drifts."""
    drift = np.cumsum(generator.normal(0, 0.03, count))
    mine = np.exp(np.log(ratio) + drift + noise(generator, count))
    return mine, np.exp(drift + noise(generator, count))


@pytest.mark.parametrize("count", [6, 8, 16, 40])
@pytest.mark.parametrize("noise", NOISES)
def test_paired_interval_covers_true_ratio(noise: str, count: int) -> None:
    generator = np.random.default_rng(count)
    hits = 0
    for _trial in range(TRIALS):
        ratio = paired_ratio(*speeds(generator, NOISES[noise], 0.96, count))
        assert ratio.low <= ratio.value <= ratio.high
        hits += ratio.low <= 0.96 <= ratio.high
    # Ranks are whole numbers, so six pairs have an interval of 97 %.
    assert 0.935 <= hits / TRIALS <= 0.98


@pytest.mark.parametrize(("mine", "theirs"), [(5, 5), (6, 12), (30, 30)])
def test_unpaired_interval_covers_true_ratio(mine: int, theirs: int) -> None:
    generator = np.random.default_rng(mine)
    hits = 0
    for _trial in range(TRIALS):
        ratio = unpaired_ratio(
            100 * 0.96 * np.exp(generator.normal(0, 0.05, mine)),
            100 * np.exp(generator.normal(0, 0.02, theirs)),
        )
        hits += ratio.low <= 0.96 <= ratio.high
    assert 0.935 <= hits / TRIALS <= 0.97


@pytest.mark.filterwarnings("error")
def test_passes_without_variation_have_a_ratio() -> None:
    assert paired_ratio([95.0] * 6, [100.0] * 6).high == pytest.approx(0.95)
    with pytest.raises(ValueError, match="6"):
        paired_ratio([1.0] * 5, [1.0] * 5)


def compared(generator: np.random.Generator, noise: str, true: float, points: int) -> SpeedComparison:
    """A build of this true ratio beside another, at the first look that settles it, or by all 110 pairs."""
    terms = toy.terms(points)
    mine = np.exp(np.log(true) + NOISES[noise](generator, 110))
    theirs = np.exp(NOISES[noise](generator, 110))
    looks = (count for count in (8, 16, 32, 64) if is_settled(mine[:count], theirs[:count], terms))
    count = next(looks, len(mine))
    return compare_pairs(mine[:count], theirs[:count], terms, 60.0)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    ("true", "most_slower", "least_slower"), [(1.0, 0.003, 0.0), (0.97, 0.02, 0.0), (0.95, 1.0, 0.6)]
)
def test_repeated_looks_raise_few_alarms(
    noise: str, true: float, most_slower: float, least_slower: float
) -> None:
    """An equal build raises none, one exactly at the limit hardly any, and one 5 % slower is found."""
    generator = np.random.default_rng(1)
    slower = 0
    for _trial in range(TRIALS):
        slower += compared(generator, noise, true, 1).verdict == "failed"
    assert least_slower <= slower / TRIALS <= most_slower


def test_self_comparisons_rarely_call_a_point_slower() -> None:
    """Runs of 12 points in two sweeps, exactly at the limit. Plain 95 % intervals call some point slower in
    one run of six; corrected for the number of points, in one of a hundred. A true slow-down of 10 % is
    nearly always found."""
    generator = np.random.default_rng(9)

    def run(true: float) -> list[SpeedComparison]:
        sweeps = [[compared(generator, "bursts", true, 12) for _point in range(6)] for _sweep in range(2)]
        return [comparison for points in sweeps for comparison in with_verdicts(points)]

    runs = [run(0.97) for _ in range(100)]
    by_itself = sum(any(comparison.ratio.high < 0.97 for comparison in points) for points in runs)
    corrected = sum(any(comparison.verdict == "failed" for comparison in points) for points in runs)
    assert by_itself > 10
    # If one run in 100 has a false alarm, more than four of 100 have one once in 300 times.
    assert corrected <= 4
    slower = [comparison.verdict for _ in range(20) for comparison in run(0.9)]
    assert slower.count("failed") > 0.9 * len(slower)


def test_seconds_to_settle_narrow_interval_enough() -> None:
    half = 2 * math.log(1 / 0.97)  # twice as far as the limit, so it needs four times the time
    ratio = Ratio(1.0, math.exp(-half), math.exp(half))
    assert slowdown.seconds_to_settle(ratio, 0.03, 30.0) == pytest.approx(90.0)
    assert slowdown.seconds_to_settle(Ratio(0.97, 0.9, 1.0), 0.03, 30.0) == slowdown.MAX_SECONDS_TO_SETTLE
    assert slowdown.seconds_to_settle(Ratio(0.9701, 0.9, 1.0), 0.03, 30.0) == slowdown.MAX_SECONDS_TO_SETTLE
    assert slowdown.seconds_to_settle(Ratio(0.9, 0.89, 0.91), 0.03, 30.0) is None
