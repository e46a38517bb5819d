"""Records as JSON for services that keep benchmarks over time: Bencher and github-action-benchmark."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reports.record.figures import of_served, percent
from reports.record.schema import Estimate, Load, Record, case_id, has_passed, point_id
from reports.words.rightness import main_score, notes, why_no_speed


def bencher(records: Sequence[Record]) -> dict[str, Any]:
    """Bencher Metric Format: benchmark, measure, and of it the value with its bounds.

    `throughput` and `latency` are Bencher's own measures, in operations per second and nanoseconds; it makes the
    others by their names.
    """
    found: dict[str, Any] = {}
    for record in records:
        measured = record.accuracy.scores if record.accuracy and main_score(record) else ()
        scores = {name: {"value": value} for score in measured for name, value in of_served(score).items()}
        found |= {case_id(record.case): scores} if scores else {}
        for name, load in _points(record):
            found[name] = {
                "throughput": _metric(load.throughput_per_s),
                "latency": _metric(load.latency_ms["avg"], scale=1e6),
                "latency_p99_ms": _metric(load.latency_ms["p99"]),
            }
    return found


def bigger_is_better(records: Sequence[Record]) -> list[dict[str, Any]]:
    """github-action-benchmark's `customBiggerIsBetter`: throughput of each point, and scores that are a share."""
    return _scores(records, "higher") + [
        _entry(name, "inferences/s", load.throughput_per_s, notes(load))
        for record in records
        for name, load in _points(record)
    ]


def smaller_is_better(records: Sequence[Record]) -> list[dict[str, Any]]:
    """github-action-benchmark's `customSmallerIsBetter`: p99 latency of each point, and scores that are an error."""
    return _scores(records, "lower") + [
        _entry(f"{name} p99", "ms", load.latency_ms["p99"], notes(load))
        for record in records
        for name, load in _points(record)
    ]


FORMATS: Mapping[str, Callable[[Sequence[Record]], Any]] = {
    "bencher": bencher,
    "customBiggerIsBetter": bigger_is_better,
    "customSmallerIsBetter": smaller_is_better,
}


def left_out(records: Sequence[Record]) -> list[str]:
    """A line for each case whose speed is not exported, with the reason."""
    reasons = ((case_id(record.case), why_no_speed(record)) for record in records if record.loads)
    return [f"{name}: {reason}" for name, reason in reasons if reason]


def _points(record: Record) -> list[tuple[str, Load]]:
    """The load points whose speed may be shown, by name: `cpu-resnet50-micro-onnx-fp32 offline b008-c001`."""
    name = case_id(record.case)
    points = [
        (load, point_id(load.batch, load.concurrency, load.request_rate_per_s, load.arrivals))
        for load in record.loads
    ]
    return [(f"{name} {load.scenario} {point}", load) for load, point in points if has_passed(record)]


def _scores(records: Sequence[Record], better: str) -> list[dict[str, Any]]:
    """The scores that tables show, of cases that have one. A further metric may be an error of rounding alone, which
    doubles without meaning."""
    shown = [(case_id(record.case), score) for record in records if (score := main_score(record))]
    return [
        {
            "name": f"{name} {score.metric}",
            "unit": "%" if better == "higher" else "error",
            "value": percent(score.served) if better == "higher" else score.served,
        }
        for name, score in shown
        if score.better == better
    ]


def _entry(name: str, unit: str, estimate: Estimate, extra: str) -> dict[str, Any]:
    bounds = f"{estimate.low:g} to {estimate.high:g}"
    entry = {"name": name, "unit": unit, "value": estimate.value, "range": bounds}
    return entry | {"extra": extra} if extra else entry


def _metric(estimate: Estimate, scale: float = 1.0) -> dict[str, float]:
    values = {"value": estimate.value, "lower_value": estimate.low, "upper_value": estimate.high}
    return {name: scale * value for name, value in values.items()}
