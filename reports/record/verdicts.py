"""Sentences on a load point, for a test's outcome and for tables: the comparison with another build, the
latency budget, the certified percentile, the marks."""

import math
from collections.abc import Iterator, Mapping, Sequence

from reports.record import schema
from reports.record.figures import gpu_memory_bytes, memory_bytes, ready_s
from reports.record.quantities import (
    COUNT,
    DURATION,
    GIVEN_SHARE,
    LATENCY,
    LATENCY_BUDGET,
    MEMORY,
    RATIO,
    WIDEST_RATIO,
)

ALARM_CONFIDENCE = 0.99
"""The confidence that no point is called slower by mistake: see `reports.record.ratio.FALSE_ALARMS`."""
SPEED_WORDS: Mapping[schema.Verdict, str] = {
    "passed": "not slower",
    "failed": "slower",
    "not shown": "not shown",
}
"""A build's speed beside its baseline's, by the verdict."""
_TOO_WIDE = f"not shown (its interval is wider than a factor of {WIDEST_RATIO:g})"


def too_wide(to: str = "") -> str:
    """Stands for a ratio whose interval is too wide: `ratio to in process not shown (...)`."""
    return f"ratio to {to} {_TOO_WIDE}" if to else f"ratio {_TOO_WIDE}"


def comparison_text(comparison: schema.Comparison) -> str:
    """The ratio with its interval, and the verdict: `ratio 0.94 (0.92 to 0.96) to HEAD~1: slower ...`."""
    ratio = _ratio_text(comparison.ratio, comparison.reference, 1 - comparison.allowed_slowdown)
    return f"{ratio}: {comparison_verdict(comparison)}"


def _ratio_text(ratio: schema.Estimate, to: str, limit: float) -> str:
    if not RATIO.is_shown(ratio):
        return too_wide(to)
    return f"ratio {RATIO.text_with_interval(ratio, limit)} to {to}"


def comparison_verdict(comparison: schema.Comparison) -> str:
    """The verdict, or the time that one would take."""
    verdict, text = comparison.verdict, SPEED_WORDS[comparison.verdict]
    among = f" among the {comparison.points} points compared" if comparison.points > 1 else ""
    if verdict == "failed":
        shown = f"shown at {GIVEN_SHARE.text(ALARM_CONFIDENCE)}{among}"
        text = f"slower than the {GIVEN_SHARE.text(comparison.allowed_slowdown)} allowed, {shown}"
    elif verdict == "not shown":
        if comparison.ratio.high < 1 - comparison.allowed_slowdown:  # the point alone would seem slower
            text += among or " surely enough"
        if (seconds := comparison.seconds_to_settle) is not None:
            about = f"about {math.ceil(seconds)} s" if seconds < 120 else f"about {seconds / 60:.0f} min"
            text += f", {'an hour or' if seconds >= 3600 else about} more would settle it"
    return text + ("; p99 longer" if comparison.p99_is_longer else "")


MOST_LOADINGS = 5
"""How often each of two servers loads its model, in turns. Start-up counts as slower only if every loading
here is: of equal servers, one is so by chance once in 252 times, and by a quarter far less often."""
_FAR_MORE = 1.25
"""The factor from which start-up or memory counts as far beyond the other's."""
_LEAST_S, _LEAST_BYTES = 0.1, 64 * 2.0**20
"""Differences that mean nothing: a time that nobody notices, and the 64 MiB that glibc's malloc may give each
thread."""


def loading_is_slower(here_s: Sequence[float], there_s: Sequence[float]) -> bool:
    """Whether each load took far longer than the other's longest."""
    longest_s = max(there_s, default=math.inf)
    return min(here_s, default=0.0) > max(_FAR_MORE * longest_s, longest_s + _LEAST_S)


def footprint_changes(beside: schema.BaselineComparison) -> Iterator[tuple[str, bool]]:
    """Start-up and memory compared with those of the model to be replaced, and whether they are far more."""
    current, baseline = beside.here, beside.there
    current_s, baseline_s = ready_s(current), ready_s(baseline)
    if current_s is not None and baseline_s is not None:
        is_slower = loading_is_slower(current.loads_s, baseline.loads_s)
        is_far_more = len(current.loads_s) >= MOST_LOADINGS and is_slower
        yield f"ready in {DURATION.text(current_s)}, and {DURATION.text(baseline_s)} there", is_far_more
    for label, bytes_of in (("memory", memory_bytes), ("GPU memory", gpu_memory_bytes)):
        used, baseline_used = bytes_of(current), bytes_of(baseline)
        if used is not None and baseline_used is not None:
            is_far_more = used > max(_FAR_MORE * baseline_used, baseline_used + _LEAST_BYTES)
            yield f"{MEMORY.text(used)} of {label}, and {MEMORY.text(baseline_used)} there", is_far_more


def footprint_failures(beside: schema.BaselineComparison) -> list[str]:
    """The costs that are far above those of the model to be replaced."""
    return [text for text, is_far_more in footprint_changes(beside) if is_far_more]


BUDGET_WORDS: Mapping[schema.Verdict, str] = {
    "passed": "within",
    "failed": "beyond",
    "not shown": "not shown to be within or beyond",
}
"""A latency's relation to its budget, by the verdict."""


def speed_failures(load: schema.Load) -> list[str]:
    """Why a load point is too slow: against another build, in its p99, beyond its budget,
    `p99 6.2 ms (6.1 to 6.3) beyond 5 ms (thresholds.toml, entry 1)`; may be empty."""
    compared, budget, failures = load.comparison, load.budget, []
    if compared is not None and compared.verdict == "failed":
        failures.append(comparison_text(compared))
    if compared is not None and compared.p99_is_longer and compared.p99_ratio is not None:
        allowed = compared.allowed_slowdown
        ratio = _ratio_text(compared.p99_ratio, compared.reference, 1 / (1 - allowed))
        failures.append(f"p99 {ratio}: longer than a slow-down of {GIVEN_SHARE.text(allowed)} makes it")
    if budget is not None and budget.verdict == "failed":
        latency = LATENCY.text_with_interval(load.latency_ms[budget.percentile], budget.budget_ms)
        place = f"{BUDGET_WORDS['failed']} {LATENCY_BUDGET.text(budget.budget_ms)} ({budget.source})"
        failures.append(f"{budget.percentile} {latency} {place}")
    return failures


def mark_codes(marks: Sequence[schema.Mark]) -> str:
    """`, niced`: the end of a line with figures of a load point or of efficiency."""
    return "".join(f", {mark.code}" for mark in marks)


CERTIFIED_BY = "LoadGen's early stopping"
"""The rule for the bound of a certified percentile."""


def certified_text(name: str, percentile: schema.CertifiedPercentile) -> str:
    """`p99 at most 11.204 ms at 99 % confidence (LoadGen's early stopping)`, or the missing requests."""
    if percentile.bound_ms is None:
        return f"{name} not certified: {certified_cell(percentile)}"
    confidence = GIVEN_SHARE.text(percentile.confidence)
    return f"{name} at most {LATENCY.text(percentile.bound_ms)} at {confidence} confidence ({CERTIFIED_BY})"


def certified_cell(percentile: schema.CertifiedPercentile | None) -> str:
    """The bound for a column whose heading has the rest, or the missing requests; `-` if unknown."""
    if percentile is None or percentile.bound_ms is not None:
        return LATENCY.cell(percentile.bound_ms if percentile else None)
    return f"{COUNT.text(percentile.requests_missing)} requests too few"
