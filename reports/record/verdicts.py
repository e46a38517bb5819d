"""What was found of a load point, in words, beside a test's outcome and in tables: the comparison with another build, the
latency budget, the certified percentile, the marks."""

import math
from collections.abc import Mapping, Sequence

from reports.record.quantities import COUNT, GIVEN_SHARE, LATENCY, LATENCY_BUDGET, RATIO, WIDEST_RATIO
from reports.record.schema import CertifiedPercentile, Comparison, Load, Mark, Verdict, verdict_of

ALARM_CONFIDENCE = 0.99
"""The confidence that none of the points that a run calls slower is a false alarm, as `reports.record.ratio.FALSE_ALARMS`
has it."""
_TOO_WIDE = f"not shown (its interval is wider than a factor of {WIDEST_RATIO:g})"


def too_wide(to: str = "") -> str:
    """What stands in place of a ratio that is known too badly to be shown: `ratio to in process not shown (...)`."""
    return f"ratio to {to} {_TOO_WIDE}" if to else f"ratio {_TOO_WIDE}"


def comparison_text(one: Comparison) -> str:
    """The ratio with its interval, to what, and what that shows: `ratio 0.94 (0.92 to 0.96) to HEAD~1: slower ...`."""
    if not RATIO.is_shown(one.ratio):
        return f"{too_wide(one.reference)}: {comparison_verdict(one)}"
    ratio = RATIO.text_with_interval(one.ratio, 1 - one.allowed_slowdown)
    return f"ratio {ratio} to {one.reference}: {comparison_verdict(one)}"


def comparison_verdict(one: Comparison) -> str:
    """What a comparison shows, and where it shows nothing how long it would take."""
    verdict = verdict_of(one)
    among = f" among the {one.points} points compared" if one.points > 1 else ""
    if verdict == "passed":
        return one.verdict
    if verdict == "failed":
        shown = f"shown at {GIVEN_SHARE.text(ALARM_CONFIDENCE)}{among}"
        return f"slower than the {GIVEN_SHARE.text(one.allowed_slowdown)} allowed, {shown}"
    said = "not shown"
    if one.ratio.high < 1 - one.allowed_slowdown:  # the point alone would seem slower
        said += among or " surely enough"
    more = one.seconds_to_settle
    return said if more is None else f"{said}, {_about(more)} more would settle it"


def _about(seconds: float) -> str:
    """How long something is expected to take, no more exactly than a forecast is: `about 40 s`, `about 12 min`."""
    if seconds >= 3600:
        return "an hour or"
    return f"about {math.ceil(seconds)} s" if seconds < 120 else f"about {seconds / 60:.0f} min"


BUDGET_WORDS: Mapping[Verdict, str] = {
    "passed": "within",
    "failed": "beyond",
    "not shown": "not shown to be within or beyond",
}
"""How a latency stands to its budget, by the verdict."""


def point_budget_text(load: Load) -> str:
    """The latency of a load point beside its budget: `p99 6.2 ms (6.1 to 6.3) beyond 5 ms (thresholds.toml, entry 1)`; empty
    where it has none."""
    budget = load.budget
    if budget is None:
        return ""
    latency = LATENCY.text_with_interval(load.latency_ms[budget.percentile], budget.budget_ms)
    allowed = LATENCY_BUDGET.text(budget.budget_ms)
    return f"{budget.percentile} {latency} {BUDGET_WORDS[budget.verdict]} {allowed} ({budget.source})"


def speed_failures(load: Load) -> list[str]:
    """Why a load point is not as fast as it was asked to be: slower than another build, its latency beyond its budget; empty
    where neither is shown."""
    compared, budget = load.comparison, load.budget
    slower = compared is not None and verdict_of(compared) == "failed"
    beyond = budget is not None and budget.verdict == "failed"
    return [
        *([comparison_text(compared)] if compared and slower else []),
        *([point_budget_text(load)] if beyond else []),
    ]


def mark_codes(marks: Sequence[Mark]) -> str:
    """`, niced`: how a line goes on after the figures of a load point, or of what serving costs at it."""
    return "".join(f", {mark.code}" for mark in marks)


CERTIFIED_BY = "LoadGen's early stopping"
"""The rule that the bound of a certified percentile follows."""


def certified_text(name: str, one: CertifiedPercentile) -> str:
    """`p99 at most 11.204 ms at 99 % confidence (LoadGen's early stopping)`, or how many requests are missing."""
    if one.bound_ms is None:
        return f"{name} not certified: {certified_cell(one)}"
    confidence = GIVEN_SHARE.text(one.confidence)
    return f"{name} at most {LATENCY.text(one.bound_ms)} at {confidence} confidence ({CERTIFIED_BY})"


def certified_cell(one: CertifiedPercentile | None) -> str:
    """The bound for a column whose heading says the rest, or how many requests are missing; `-` where nothing says."""
    if one is None or one.bound_ms is not None:
        return LATENCY.cell(one.bound_ms if one else None)
    return f"{COUNT.text(one.requests_missing)} requests too few"
