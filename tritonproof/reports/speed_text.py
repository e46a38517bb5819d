"""Sentences on speed: a load point's comparison, budget, bound and marks; the footprint; speed compared with
other formats, with the same artifact in process and with the machine's peak; and the result of a search."""

import math
from collections.abc import Iterator, Sequence

from tritonproof.ratios import FALSE_ALARM_RATE, FAR_MORE, MAX_LOADINGS, loading_is_slower
from tritonproof.record import Record, fields, quantities, speed
from tritonproof.record.quantities import COUNT, GIVEN_SHARE, LATENCY, LATENCY_BUDGET, RATIO, THROUGHPUT
from tritonproof.reports.derived import fraction_of_peak
from tritonproof.reports.phrases import counted, full_point_text, sentence
from tritonproof.reports.publishable import Publishable


def comparison_text(comparison: speed.SpeedComparison) -> str:
    """The ratio with its interval, and the verdict: `ratio 0.94 (0.92 to 0.96) to HEAD~1: slower ...`."""
    ratio = RATIO.text_with_interval(comparison.ratio, 1 - comparison.allowed_slowdown)
    return f"ratio {ratio} to {comparison.baseline_name}: {comparison_verdict(comparison)}"


def comparison_verdict(comparison: speed.SpeedComparison) -> str:
    """The verdict; if there is none, the time that reaching one would take."""
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


BUDGET_WORDS = {"passed": "within", "failed": "beyond", "inconclusive": "not shown to be within or beyond"}
"""A latency's relation to its budget, by the verdict."""


def speed_failures(result: speed.PointResult) -> list[str]:
    """The reasons why a load point is too slow: slower than the baseline, with a longer p99, or beyond its
    budget, `p99 6.2 ms (6.1 to 6.3) beyond 5 ms (thresholds.toml, entry 1)`."""
    compared, budget = result.comparison, result.latency_budget
    failures = []
    if compared is not None and compared.verdict == "failed":
        failures.append(comparison_text(compared))
    if compared is not None and compared.p99_is_longer and compared.p99_ratio is not None:
        allowed = compared.allowed_slowdown
        ratio = RATIO.text_with_interval(compared.p99_ratio, 1 / (1 - allowed))
        slow_down = f"longer than a slow-down of {GIVEN_SHARE.text(allowed)} makes it"
        failures.append(f"p99 ratio {ratio} to {compared.baseline_name}: {slow_down}")
    if budget is not None and budget.verdict == "failed":
        latency = LATENCY.text_with_interval(result.latency_ms[budget.percentile], budget.budget_ms)
        missed = f"{BUDGET_WORDS['failed']} {LATENCY_BUDGET.text(budget.budget_ms)} ({budget.source})"
        failures.append(f"{budget.percentile} {latency} {missed}")
    return failures


_MIN_BYTES = 64 * 2.0**20
"""The difference of memory that means nothing: what glibc's malloc may keep for each thread."""


def footprint_changes(comparison: speed.BaselineComparison) -> Iterator[tuple[str, bool]]:
    """A text on start-up and on memory beside the baseline's, and whether it is far more."""
    current, baseline = comparison.current, comparison.baseline
    if current.fastest_loading_s is not None and baseline.fastest_loading_s is not None:
        is_slower = loading_is_slower(current.loadings_s, baseline.loadings_s)
        is_far_more = len(current.loadings_s) >= MAX_LOADINGS and is_slower
        ready, there = map(quantities.DURATION.text, (current.fastest_loading_s, baseline.fastest_loading_s))
        yield f"ready in {ready}, the baseline in {there}", is_far_more
    gpu_memory = (current.used.get("GPU memory"), baseline.used.get("GPU memory"))
    sizes = {"memory": (current.memory_bytes, baseline.memory_bytes), "GPU memory": gpu_memory}
    for label, (used, baseline_used) in sizes.items():
        if used is not None and baseline_used is not None:
            is_far_more = used > max(FAR_MORE * baseline_used, baseline_used + _MIN_BYTES)
            size, there = map(quantities.MEMORY.text, (used, baseline_used))
            yield f"{size} of {label}, the baseline {there}", is_far_more


def footprint_failures(comparison: speed.BaselineComparison) -> list[str]:
    """The texts on footprints that are far above the baseline's."""
    return [text for text, is_far_more in footprint_changes(comparison) if is_far_more]


def mark_codes(marks: Sequence[speed.Mark]) -> str:
    """`, niced`: the end of a line with figures of a load point or of efficiency."""
    return "".join(f", {mark.code}" for mark in marks)


CERTIFIED_BY = "LoadGen's early stopping"
"""The rule for the bound of a certified percentile."""


def certified_text(name: str, percentile: speed.CertifiedPercentile) -> str:
    """`p99 at most 11.204 ms at 99 % confidence (LoadGen's early stopping)`, or the missing requests."""
    if percentile.bound_ms is None:
        return f"{name} not certified: {COUNT.text(percentile.requests_missing)} requests too few"
    confidence = GIVEN_SHARE.text(percentile.confidence)
    return f"{name} at most {LATENCY.text(percentile.bound_ms)} at {confidence} confidence ({CERTIFIED_BY})"


def load_point_text(result: speed.PointResult, certify: float | None) -> str:
    """What the terminal shows of a load point, such as `2,189.0 infer/s ± 3.6 %, p99 24.219 ms`."""
    throughput = THROUGHPUT.text_with_half_width(result.throughput_per_s)
    parts = [throughput, f"p99 {LATENCY.text(result.latency_ms['p99'].value)}"]
    name = "" if certify is None else f"p{certify:g}"
    if bound := result.certified.get(name):
        parts.append(certified_text(name, bound))
    parts[-1] += mark_codes(result.marks)
    if result.comparison is not None:
        parts.append(comparison_text(result.comparison))
    if (budget := result.latency_budget) is not None:
        parts.append(f"{BUDGET_WORDS[budget.verdict]} {LATENCY_BUDGET.text(budget.budget_ms)}")
    return ", ".join(parts)


def efficiency_text(measurements: Sequence[speed.Efficiency], precision: str) -> str:
    """`97 % (95 to 99) of in-process throughput, 41 % of the machine's FP32 peak of 180 GFLOP/s, ratio 1.41
    (1.36 to 1.47) to cpu-resnet50-onnx-fp32`, after the scenario if there are several."""
    texts = []
    for efficiency in measurements:
        parts = [f"{quantities.SHARE.text_with_interval(efficiency.ratio)} of in-process throughput"]
        fraction = fraction_of_peak(efficiency)
        if fraction is not None and efficiency.peak_flops_per_s is not None:
            # INT8 has no floating point.
            rate = quantities.INTEGER_WORK_RATE if precision == "int8" else quantities.WORK_RATE
            peak = f"{precision.upper()} peak of {rate.text(efficiency.peak_flops_per_s.value)}"
            parts.append(f"{quantities.SHARE.text(fraction)} of the machine's {peak}")
        reference = efficiency.reference
        # The ratio of the reference to itself has no interval.
        if reference is not None and reference.ratio.low < reference.ratio.high:
            parts.append(f"ratio {RATIO.text_with_interval(reference.ratio)} to {reference.case_id}")
        scenario = f"{efficiency.point.scenario} " if len(measurements) > 1 else ""
        texts.append(f"{scenario}{', '.join(parts)}{mark_codes(efficiency.marks)}")
    return "; ".join(texts)


def model_warmup_text(warmup: speed.ModelWarmup) -> str:
    """The latency of the first request after a loading, and the largest of the next ones."""
    first, later = LATENCY.text(warmup.first_ms[-1]), LATENCY.text(warmup.later_ms[-1])
    again = "" if warmup.passed else f"; slow after each of {len(warmup.first_ms)} loadings"
    text = f"first request of batch {warmup.batch} after a loading {first}"
    return f"{text}, the slowest of the next twenty {later}{again}"


_LIBRARIES = {
    "onnxruntime": ("ONNX Runtime", "onnxruntime", "onnxruntime-gpu"),
    "pytorch": ("PyTorch", "torch"),
    "tensorrt": ("TensorRT", "tensorrt", "tensorrt-cu12", "tensorrt-cu13"),
    "tensorflow": ("TensorFlow", "tensorflow", "tensorflow-cpu"),
}
"""Each native backend's library: its name, and its PyPI distributions, the first as in Serving.versions."""


def version_note(record: Record) -> str:
    """A sentence for each library of the native backend whose version in the server is not this machine's, or
    is unknown: the ratio to in process then includes the difference. Empty for the suite's runtimes."""
    serving, local = record.serving, record.machine.versions
    notes = []
    if serving is None or not record.efficiency or serving.backend not in _LIBRARIES:
        return ""
    for backend in dict.fromkeys([serving.backend, *(["tensorrt"] * (record.case.accelerator == "trt"))]):
        label, *distributions = _LIBRARIES[backend]
        in_server = serving.versions.get(distributions[0], "an unknown one")
        in_process = next((local[name] for name in distributions if name in local), "an unknown one")
        # Equal, or one extends the other: 10.5.0.18 and 10.5.0, 2.5.0+cu124 and 2.5.0.
        short, long = sorted((in_server, in_process), key=len)
        if "unknown" in long or not (long == short or long.startswith((f"{short}.", f"{short}+"))):
            versions = f"{label}: {in_server} in the server, {in_process} in process"
            notes.append(f"The ratio may also include the difference between two versions of {versions}.")
    return " ".join(notes)


def search_paragraph(record: Publishable) -> str:
    search = record.search
    if search is None:
        return ""
    if record.why_no_winner:
        return record.why_no_winner
    if search.verdict == "failed":
        return sentence(no_winner_text(search))
    proven = "for which conversion and accuracy hold"
    if record.case.from_repository:
        proven = "with which no answer changes"
    configurations = counted(search.configurations, "configuration")
    tried = f"{search.pass_count} passes of {configurations}, {quantities.DURATION.text(search.duration_s)}"
    return f"{search_text(search)}. Searched in {tried}. The configuration, {proven}: `{search.config}`."


def proposal_text(search: speed.Search) -> str:
    """The change to a repository model's config.pbtxt."""
    if not search.diff:
        return "no other settings are shown to be faster"
    change = f"a change of its config.pbtxt, by which no answer changes ({search.config}):"
    return f"{change}\n{search.diff.rstrip()}"


def search_text(search: speed.Search) -> str:
    """The winner: its throughput, or its rate with the percentile of latencies from the schedule."""
    result, latency = search.result, search.result.latency_ms[search.percentile]
    reached, due = quantities.THROUGHPUT.text(result.throughput_per_s.value), ""
    if (rate_per_s := result.point.request_rate_per_s) is not None:
        reached, due = f"{quantities.REQUEST_RATE.cell(rate_per_s)} requests/s", " from when each was due"
    budget = f"{BUDGET_WORDS[search.verdict]} {LATENCY_BUDGET.text(search.latency_budget_ms)}"
    latency_text = LATENCY.text_with_interval(latency, search.latency_budget_ms)
    within = f"{search.percentile} {latency_text} {budget}{due}"
    other = "its own settings" if search.diff else "the runner-up"
    lead = lead_text(search.lead, other) if search.configurations > 1 else "there was no other configuration"
    if not search.own_is_measured:
        lead = "its own settings could not be measured, or answer wrongly"
    return f"{reached} with {within}: {_configuration_text(search)}; {lead}"


def no_winner_text(search: speed.Search) -> str:
    """The reason why there is no winner: the lowest latency that a configuration reached."""
    latency = LATENCY.text_with_interval(search.result.latency_ms[search.percentile])
    budget = f"{search.percentile} within {LATENCY_BUDGET.text(search.latency_budget_ms)}"
    tried, nearest = counted(search.configurations, "configuration"), _configuration_text(search)
    return f"of {tried}, no finalist keeps {budget} when measured anew; the nearest has {latency}: {nearest}"


def _configuration_text(search: speed.Search) -> str:
    """The load point, and the settings that a search varies; offline has no preferred sizes and no delay."""
    point, deployment = search.result.point, search.deployment
    instances = counted(deployment.instances, "instance")
    if point.scenario == "offline":
        return f"{full_point_text(point)}, concurrency {point.concurrency}, {instances}"
    sizes = " ".join(map(str, deployment.preferred_batch_sizes))
    delay = f"delay {deployment.max_queue_delay_us:,} µs" if deployment.max_queue_delay_us else "no delay"
    return ", ".join([full_point_text(point), instances, *([f"preferred {sizes}"] if sizes else []), delay])


def lead_text(lead: fields.Ratio | None, other: str) -> str:
    """The winner's lead over the other proven configuration."""
    if lead is None:
        return f"{other} did not keep the budget"
    if not quantities.is_shown(lead):
        return f"its lead over {other} is {quantities.TOO_WIDE}"
    text = f"{RATIO.text_with_interval(lead, 1.0)} times as fast as {other}"
    return f"{text}, which is not shown to keep the budget" if lead.value < 1 else text
