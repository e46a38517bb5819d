"""Records as JSON for services that keep benchmarks over time: Bencher and github-action-benchmark."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reports.record.figures import of_served, percent
from reports.record.schema import Estimate, Load, point_id
from reports.words.marks import notes
from reports.words.rightness import main_score
from reports.words.shown import Shown, name_of


def bencher(records: Sequence[Shown]) -> dict[str, Any]:
    """Bencher Metric Format: benchmark, measure, and of it the value with its bounds.

    `throughput` and `latency` are Bencher's own measures, in operations per second and nanoseconds; it makes the
    others by their names.
    """
    found: dict[str, Any] = {}
    for record in records:
        measured = record.accuracy.scores if record.accuracy and main_score(record) else ()
        scores = {name: {"value": value} for score in measured for name, value in of_served(score).items()}
        found |= {name_of(record): scores} if scores else {}
        for name, load in _points(record):
            found[name] = {
                "throughput": _metric(load.throughput_per_s),
                "latency": _metric(load.latency_ms["avg"], scale=1e6),
                "latency_p99_ms": _metric(load.latency_ms["p99"]),
            }
        for grown in record.soak.growth if record.soak else ():
            measure = f"growth_{'bytes' if grown.unit == 'bytes' else 'number'}_per_{grown.per}"
            found[f"{name_of(record)} soak {grown.what}"] = {measure: _metric(grown.slope)}
    return found


def bigger_is_better(records: Sequence[Shown]) -> list[dict[str, Any]]:
    """github-action-benchmark's `customBiggerIsBetter`: throughput of each point, and scores that are a share."""
    return _scores(records, "higher") + [
        _entry(name, "inferences/s", load.throughput_per_s, notes(load))
        for record in records
        for name, load in _points(record)
    ]


def smaller_is_better(records: Sequence[Shown]) -> list[dict[str, Any]]:
    """github-action-benchmark's `customSmallerIsBetter`: p99 latency of each point, and scores that are an error."""
    return _scores(records, "lower") + [
        _entry(f"{name} p99", "ms", load.latency_ms["p99"], notes(load))
        for record in records
        for name, load in _points(record)
    ]


FORMATS: Mapping[str, Callable[[Sequence[Shown]], Any]] = {
    "bencher": bencher,
    "customBiggerIsBetter": bigger_is_better,
    "customSmallerIsBetter": smaller_is_better,
}


def left_out(records: Sequence[Shown]) -> list[str]:
    """A line for each case whose speed is not exported, with the reason."""
    return [f"{name_of(record)}: {record.no_speed}" for record in records if record.hidden]


def _points(record: Shown) -> list[tuple[str, Load]]:
    """The load points by name: `cpu-resnet50-micro-onnx-fp32 offline b008-c001`."""
    name = name_of(record)
    points = [
        (load, point_id(load.batch, load.concurrency, load.request_rate_per_s, load.arrivals))
        for load in record.loads
    ]
    return [(f"{name} {load.scenario} {point}", load) for load, point in points]


def _scores(records: Sequence[Shown], better: str) -> list[dict[str, Any]]:
    """The scores that tables show, of cases that have one. A further metric may be an error of rounding alone, which
    doubles without meaning."""
    shown = [(name_of(record), score) for record in records if (score := main_score(record))]
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
    bounds = f"{estimate.low:g} or more" if estimate.open_above else f"{estimate.low:g} to {estimate.high:g}"
    entry = {"name": name, "unit": unit, "value": estimate.value, "range": bounds}
    return entry | {"extra": extra} if extra else entry


def _metric(estimate: Estimate, scale: float = 1.0) -> dict[str, float]:
    values = {"value": estimate.value, "lower_value": estimate.low}
    if not estimate.open_above:
        values["upper_value"] = estimate.high
    return {name: scale * value for name, value in values.items()}
