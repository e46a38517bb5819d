"""Results as flat figures with the unit in the name, for CSV, JUnit's XML and pytest-benchmark."""

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from reports.record import schema
from reports.record.quantities import RATIO

Figures = dict[str, float | int | str]


def conversion_figures(conversion: schema.Conversion) -> Figures:
    return _plain(conversion)


def accuracy_figures(accuracy: schema.Accuracy) -> Figures:
    """Each metric after each stage (`top-1_served_percent`), its tightest limit, and differing decisions."""
    figures: Figures = {"evaluated_samples": accuracy.samples}
    for score in accuracy.scores:
        stages = {"served": score.served, "converted": score.converted, "framework": score.framework}
        limits = [limit.value for limit in score.limits]
        if limits:
            stages |= {"floor": max(limits)} if score.better == "higher" else {"ceiling": min(limits)}
        figures |= _named(score, **stages)
    for disagreement in accuracy.disagreements:
        figures[f"{'_'.join(disagreement.between)}_differ"] = disagreement.count
    same = accuracy.same_answers
    return figures | _known(largest_difference=same.relative_difference if same else None)


def gate_figures(gate: schema.AnswerGate) -> Figures:
    same = gate.same
    return _known(
        requests=gate.requests,
        answers_compared=same.answers if same else None,
        largest_difference=same.relative_difference if same else None,
    )


def best_of(loads: Sequence[schema.Load]) -> schema.Load | None:
    """The point of the highest throughput among those with a number of requests in flight: at a request rate,
    the rate decides."""
    closed = [load for load in loads if load.request_rate_per_s is None]
    return max(closed, key=lambda load: load.throughput_per_s.value, default=None)


def point_figures(load: schema.Load) -> Figures:
    """The setting of a load point, and the extent of its measurement."""
    answers = load.answers
    return _known(
        scenario=load.scenario,
        batch=load.batch,
        concurrency=load.concurrency,
        passes=len(load.passes),
        requests=load.requests,
        request_rate_per_s=load.request_rate_per_s,
        arrivals=load.arrivals,
        samples=load.samples,
        answers_verified=answers.verified if answers else None,
        answers_wrong=answers.wrong if answers else None,
    )


def load_figures(load: schema.Load) -> Figures:
    """A load point: throughput and latencies with their bounds, and where the time went. A point without a
    comparison, for example, lacks the figures of one."""
    figures = point_figures(load) | bounds("throughput", "_per_s", load.throughput_per_s)
    for name, value in load.latency_ms.items():
        figures |= bounds(f"latency_{name}", "_ms", value)
    figures |= {f"{name}_ms": value for name, value in load.components_ms.items()}
    figures |= _known(
        **{f"certified_{name}_ms": percentile.bound_ms for name, percentile in load.certified.items()}
    )
    figures |= _known(slip_ms=load.slip_ms, marks=" ".join(mark.code for mark in load.marks) or None)
    if load.gpu is not None:
        figures |= {f"gpu_{name}": value for name, value in _plain(load.gpu).items()}
    if load.repeated_speed is not None:
        figures |= bounds("repeated_sample_ratio", "", load.repeated_speed)
    if (budget := load.budget) is not None:
        figures |= {f"budget_{budget.percentile}_ms": budget.budget_ms, "budget_verdict": budget.verdict}
    if (comparison := load.comparison) is not None:
        figures |= ratio_bounds("comparison_ratio", comparison.ratio)
        figures |= ratio_bounds("comparison_p99_ratio", comparison.p99_ratio) if comparison.p99_ratio else {}
        figures |= {"comparison_method": comparison.method, "comparison_verdict": comparison.verdict}
    return figures | {name: value for name, value in _plain(load).items() if name not in figures}


def efficiency_figures(measurements: Sequence[schema.Efficiency]) -> Figures:
    """The efficiency of each scenario: `offline_in_process_ratio`, served over in process, and so on."""
    figures: Figures = {}
    for efficiency in measurements:
        figures |= ratio_bounds(f"{efficiency.scenario}_in_process_ratio", efficiency.ratio)
        figures |= bounds(f"{efficiency.scenario}_in_process", "_per_s", efficiency.in_process_per_s)
    return figures


def against_figures(beside: schema.BaselineComparison) -> Figures:
    """Start-up time and memory here and on the other server, and the number of new warnings."""
    return _known(
        ready_s=ready_s(beside.here),
        reference_ready_s=ready_s(beside.there),
        memory_bytes=memory_bytes(beside.here),
        reference_memory_bytes=memory_bytes(beside.there),
        new_warnings=len(beside.warnings),
    )


def ready_s(side: schema.ServedSide) -> float | None:
    """Seconds from loading a model to its first answer, the fastest of all loads; None without any."""
    return min(side.loads_s, default=None)


def memory_bytes(side: schema.ServedSide) -> float | None:
    """The machine's memory that a server's processes use; None if not visible."""
    used_bytes = [value for name, value in side.used.items() if name.startswith("memory of")]
    return sum(used_bytes) if used_bytes else None


def gpu_memory_bytes(side: schema.ServedSide) -> float | None:
    """The GPU memory that a server uses; None if not visible."""
    return side.used.get("GPU memory")


def search_figures(search: schema.Search) -> Figures:
    batches = " ".join(map(str, search.deployment.preferred_batch_sizes))
    return {
        "latency_budget_ms": search.budget_ms,
        "latency_percentile": search.percentile,
        "budget_verdict": search.verdict,
        **_plain(search.deployment),
        "preferred_batch_sizes": batches,
        **load_figures(search.load),
        **(accuracy_figures(search.accuracy) if search.accuracy else {}),
    }


def percent(share: float) -> float:
    """A fraction in percent, without the rounding of doubles: 0.98 is 98, not 97.99999999999999."""
    return round(100 * share, 12)


def served_figures(score: schema.Score) -> Figures:
    """The served score: `top-1_served_percent`, or `mel_MSE_served` for an error."""
    return _named(score, served=score.served)


def _named(score: schema.Score, **values: float | None) -> Figures:
    """A metric's values by name; shares in percent."""
    name = score.metric.replace(" ", "_")
    known = {stage: value for stage, value in values.items() if value is not None}
    if score.better == "lower":
        return {f"{name}_{stage}": value for stage, value in known.items()}
    return {f"{name}_{stage}_percent": percent(value) for stage, value in known.items()}


def bounds(name: str, unit: str, estimate: schema.Estimate) -> Figures:
    """`throughput_per_s`, `throughput_low_per_s`, and, unless open above, `throughput_high_per_s`."""
    high = None if estimate.open_above else estimate.high
    return _known(
        **{f"{name}{unit}": estimate.value, f"{name}_low{unit}": estimate.low, f"{name}_high{unit}": high}
    )


def ratio_bounds(name: str, ratio: schema.Estimate) -> Figures:
    """A ratio as in `bounds`; nothing if its interval is too wide to be shown."""
    return bounds(name, "", ratio) if RATIO.is_shown(ratio) else {}


def _plain(part: Any) -> Figures:
    """The numbers and texts of a part of a record, by field; the fields' names have the unit."""
    fields = structs.asdict(part)
    return {name: value for name, value in fields.items() if isinstance(value, int | float | str)}


def _known(**values: float | int | str | None) -> Figures:
    return {name: value for name, value in values.items() if value is not None}
