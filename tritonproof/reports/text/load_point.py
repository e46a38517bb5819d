"""Sentences on a load point, for a test's outcome and for tables: the comparison with another build, the
latency budget, the certified percentile, the marks."""

import math
from collections.abc import Iterator, Sequence

from tritonproof.ratios import FALSE_ALARM_RATE
from tritonproof.record import schema
from tritonproof.record.quantities import COUNT, DURATION, GIVEN_SHARE, LATENCY, LATENCY_BUDGET, MEMORY, RATIO


def comparison_text(comparison: schema.SpeedComparison) -> str:
    """The ratio with its interval, and the verdict: `ratio 0.94 (0.92 to 0.96) to HEAD~1: slower ...`."""
    ratio = RATIO.text_with_interval(comparison.ratio, 1 - comparison.allowed_slowdown)
    return f"ratio {ratio} to {comparison.baseline_name}: {comparison_verdict(comparison)}"


def comparison_verdict(comparison: schema.SpeedComparison) -> str:
    """The verdict, or the time that one would take."""
    points = comparison.compared_points
    among = f" among the {points} points compared" if points > 1 else ""
    text = "not slower"
    if comparison.verdict == "failed":
        shown = f"shown at {GIVEN_SHARE.text(1 - FALSE_ALARM_RATE)}{among}"
        text = f"slower than the {GIVEN_SHARE.text(comparison.allowed_slowdown)} allowed, {shown}"
    elif comparison.verdict == "inconclusive":
        text = "inconclusive"
        if comparison.ratio.high < 1 - comparison.allowed_slowdown:  # the point alone would seem slower
            text += among or " surely enough"
        if (seconds := comparison.seconds_to_settle) is not None:
            about = "an hour or" if seconds >= 3600 else f"about {math.ceil(seconds / 60)} min"
            text += f", {about} more would settle it"
    return text + ("; p99 longer" if comparison.p99_is_longer else "")


_MIN_BYTES = 64 * 2.0**20
"""A difference that means nothing: what glibc's malloc may give each thread."""


def footprint_changes(comparison: schema.BaselineComparison) -> Iterator[tuple[str, bool]]:
    """Start-up and memory compared with those of the model to be replaced, and whether they are far more."""
    current, baseline = comparison.current, comparison.baseline
    if current.ready_s is not None and baseline.ready_s is not None:
        is_slower = schema.loading_is_slower(current.loadings_s, baseline.loadings_s)
        is_far_more = len(current.loadings_s) >= schema.MAX_LOADINGS and is_slower
        ready, baseline_ready = DURATION.text(current.ready_s), DURATION.text(baseline.ready_s)
        yield f"ready in {ready}, the baseline in {baseline_ready}", is_far_more
    gpu_memory = (current.used.get("GPU memory"), baseline.used.get("GPU memory"))
    sizes = {"memory": (current.memory_bytes, baseline.memory_bytes), "GPU memory": gpu_memory}
    for label, (used, baseline_used) in sizes.items():
        if used is not None and baseline_used is not None:
            is_far_more = used > max(schema.FAR_MORE * baseline_used, baseline_used + _MIN_BYTES)
            yield f"{MEMORY.text(used)} of {label}, the baseline {MEMORY.text(baseline_used)}", is_far_more


def footprint_failures(comparison: schema.BaselineComparison) -> list[str]:
    """The costs that are far above those of the model to be replaced."""
    return [text for text, is_far_more in footprint_changes(comparison) if is_far_more]


BUDGET_WORDS = {"passed": "within", "failed": "beyond", "inconclusive": "not shown to be within or beyond"}
"""A latency's relation to its budget, by the verdict."""


def speed_failures(result: schema.PointResult) -> list[str]:
    """Why a load point is too slow: against another build, in its p99, beyond its budget,
    `p99 6.2 ms (6.1 to 6.3) beyond 5 ms (thresholds.toml, entry 1)`; may be empty."""
    compared, budget, failures = result.comparison, result.latency_budget, []
    if compared is not None and compared.verdict == "failed":
        failures.append(comparison_text(compared))
    if compared is not None and compared.p99_is_longer and compared.p99_ratio is not None:
        allowed = compared.allowed_slowdown
        ratio = (
            f"{RATIO.text_with_interval(compared.p99_ratio, 1 / (1 - allowed))} to {compared.baseline_name}"
        )
        slow_down = f"longer than a slow-down of {GIVEN_SHARE.text(allowed)} makes it"
        failures.append(f"p99 ratio {ratio}: {slow_down}")
    if budget is not None and budget.verdict == "failed":
        latency = LATENCY.text_with_interval(result.latency_ms[budget.percentile], budget.budget_ms)
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
        return f"{name} not certified: {COUNT.text(percentile.requests_missing)} requests too few"
    confidence = GIVEN_SHARE.text(percentile.confidence)
    return f"{name} at most {LATENCY.text(percentile.bound_ms)} at {confidence} confidence ({CERTIFIED_BY})"
