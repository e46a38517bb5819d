"""Compares a build's speed with a baseline's: the verdict on their ratio, and when to stop measuring."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import structs

from tritonproof.ratios import FALSE_ALARM_RATE, Speeds, paired_p_value, paired_ratio, significant_by_holm
from tritonproof.record.fields import Ratio, Verdict
from tritonproof.record.speed import SpeedComparison

FIRST_LOOK = 8
"""Pairs before the first look at whether to stop: ranks of fewer than seven give no 98 % interval."""
LOOK_CONFIDENCE = 0.98
"""The confidence of the interval by which one of several looks settles that a build is not slower."""
SUSPECT_CONFIDENCE = 0.8
"""The confidence of the interval by which a p99 looks longer, so that more pairs are measured. In simulation
this finds 97 of 100 tails that are half as long again; 0.95 finds 90, and 0.5 no more than 98."""
LAST_SHARE = 0.5
"""The last look's share of a point's false alarm rate. Looks after 8, 16, 32, 64 and 128 pairs share the rest
in proportion: early alarms need strong evidence, and cost it little (O'Brien and Fleming, 1979)."""
MAX_PAIRS = 128
"""Pairs in a point budget, and at the last look but one. The shorter they are, the more alike both sides."""
MAX_SECONDS_TO_SETTLE = 3600.0
"""Seconds; larger figures, which an estimate near the limit leads to, mean no more than "very long"."""


@dataclass(frozen=True)
class ComparisonTerms:
    """The terms on which a build's speed is compared with a baseline's."""

    baseline_name: str
    """The baseline's name for a reader: a commit, a folder, or a Triton with its version."""
    allowed_slowdown: float
    """By which fraction this build may be slower than the baseline."""
    compared_points: int
    """How many load points the whole run compares; they share its false alarm rate."""

    @property
    def significance_level(self) -> float:
        return FALSE_ALARM_RATE / self.compared_points


def seconds_to_settle(ratio: Ratio, allowed_slowdown: float, spent_s: float) -> float | None:
    """How many more seconds of measuring would put the limit outside the interval if the estimate stays, as
    an interval narrows with the root of the time; None if it already is. At most MAX_SECONDS_TO_SETTLE."""
    value, limit = np.log(ratio.value), np.log(1 - allowed_slowdown)
    reach = abs(np.log(ratio.high if value <= limit else ratio.low) - value)
    distance = abs(value - limit)
    if reach < distance:
        return None
    needed_s = spent_s * ((reach / max(distance, 1e-9)) ** 2 - 1)
    return float(min(needed_s, MAX_SECONDS_TO_SETTLE))


def compare_pairs(
    current: Speeds, baseline: Speeds, terms: ComparisonTerms, spent_s: float
) -> SpeedComparison:
    """The comparison of two builds that were measured in turns; `spent_s` is the time of both."""
    allowed = terms.allowed_slowdown
    ratio, p_value = paired_ratio(current, baseline), _p_value(current, baseline, terms, LAST_SHARE)
    judged: Verdict = "passed" if ratio.low > 1 - allowed else "inconclusive"
    if p_value <= terms.significance_level:
        judged = "failed"
    return SpeedComparison(
        baseline_name=terms.baseline_name,
        ratio=ratio,
        allowed_slowdown=allowed,
        verdict=judged,
        pass_count=len(current),
        seconds_to_settle=seconds_to_settle(ratio, allowed, spent_s) if judged == "inconclusive" else None,
        p_value=p_value,
        compared_points=terms.compared_points,
    )


def with_verdicts(comparisons: Sequence[SpeedComparison]) -> list[SpeedComparison]:
    """The comparisons of points measured together, with the verdicts that hold for all of them together.

    Each point alone has an even share of the run's FALSE_ALARM_RATE. Points measured together pool their
    shares: once one point is shown to be slower, the other points share what it does not need (Holm).
    """
    most_points = max((comparison.compared_points for comparison in comparisons), default=1)
    level = FALSE_ALARM_RATE * min(1.0, len(comparisons) / most_points)
    slower = significant_by_holm([comparison.p_value for comparison in comparisons], level)
    return [
        structs.replace(comparison, verdict="failed", seconds_to_settle=None) if is_slower else comparison
        for comparison, is_slower in zip(comparisons, slower, strict=True)
    ]


def with_p99(comparison: SpeedComparison, current_ms: Speeds, baseline_ms: Speeds) -> SpeedComparison:
    """The comparison, with that of the passes' p99 latencies, [passes] each, at a single look. By chance,
    another FALSE_ALARM_RATE of the runs call any point's p99 longer; each point has an even share of this."""
    limit = 1 - comparison.allowed_slowdown
    p_value = paired_p_value(1 / np.array(current_ms), 1 / np.array(baseline_ms), limit)
    longer = p_value <= FALSE_ALARM_RATE / comparison.compared_points
    return structs.replace(comparison, p99_ratio=paired_ratio(current_ms, baseline_ms), p99_is_longer=longer)


def _p_value(current: Speeds, baseline: Speeds, terms: ComparisonTerms, share: float) -> float:
    """The p-value, over all looks, of a build as slow as allowed; `share` is this look's share of alarms."""
    return min(1.0, paired_p_value(current, baseline, 1 - terms.allowed_slowdown) / share)


def is_settled(
    current: Speeds, baseline: Speeds, terms: ComparisonTerms, p99_ms: tuple[Speeds, Speeds] | None = None
) -> bool:
    """Whether to stop measuring pairs: after 8, 16, 32, 64, ... pairs, if they show that this build is
    slower, or is not slower, among all points of the run. If its `p99_ms` looks longer than the baseline's,
    the point's whole budget is used: so few pairs would show that only for a single point."""
    count = len(current)
    if count < FIRST_LOOK or count & (count - 1):
        return False
    if paired_ratio(current, baseline, LOOK_CONFIDENCE).low > 1 - terms.allowed_slowdown:
        limit = 1 / (1 - terms.allowed_slowdown)
        return p99_ms is None or paired_ratio(*p99_ms, SUSPECT_CONFIDENCE).low <= limit
    share = (1 - LAST_SHARE) * count / (2 * MAX_PAIRS)
    return count <= MAX_PAIRS and _p_value(current, baseline, terms, share) <= terms.significance_level
