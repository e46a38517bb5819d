"""Records for other tools: each load point as a row for a notebook, and JSON for benchmark trackers."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from tritonproof.record import correctness, setup, speed
from tritonproof.record.fields import Estimate
from tritonproof.record.quantities import METRICS, is_shown
from tritonproof.reports.derived import correct_share, cost_per_million, fraction_of_peak
from tritonproof.reports.publishable import Publishable
from tritonproof.reports.tables.table import cell_of

if TYPE_CHECKING:
    import pandas as pd


def data_frame(records: Sequence[Publishable]) -> "pd.DataFrame":
    """A row for each load point. `passed` says whether the conversion and the accuracy are right. If not,
    `why_no_speed` replaces all measured figures: a fast wrong model is not fast."""
    import pandas as pd

    rows = [row for record in records for row in _rows(record)]
    empty = [*_case(records[0]), *_HIDDEN_POINT_COLUMNS, "why_no_speed"] if records and not rows else None
    return pd.DataFrame(rows, columns=empty)


_COUNTS = ("requests", "passes", "samples", "answers_under_load_count", "answers_under_load_wrong")
_HIDDEN_POINT_COLUMNS = (*speed.LoadPoint.__struct_fields__, *_COUNTS)
"""The columns of a load point whose speed is hidden, beside its origin: listed, so no new field gets in."""


def _rows(record: Publishable) -> list[dict[str, Any]]:
    case, rows = _case(record), []
    for result in record.hidden:
        figures = figures_by_name("", result)
        names = [name for name in figures if name in _HIDDEN_POINT_COLUMNS or name.startswith("origin_")]
        shown = {name: figures[name] for name in names}
        rows.append(case | shown | {"why_no_speed": record.why_no_speed})
    for result in record.points:
        row = case | figures_by_name("", result)
        if (cost := cost_per_million(record, result)) is not None:
            row |= {"price_per_hour": record.price_per_hour, "cost_per_million": cost}
            row["cost_of"] = "correct inferences" if correct_share(record) else "inferences"
        for in_process in record.efficiency:
            if in_process.point == result.point:
                row |= figures_by_name("efficiency", in_process)
                row["fraction_of_peak"] = fraction_of_peak(in_process)
        rows.append(row)
    return rows


def _case(record: Publishable) -> dict[str, Any]:
    case, machine, serving, score = record.case, record.machine, record.serving, record.main_score
    is_on_gpu = case.target not in ("cpu", setup.REMOTE)
    device = machine.gpu if is_on_gpu else machine.cpu
    return {
        "case": str(case),
        **structs.asdict(case),
        "gpus": case.gpus if is_on_gpu else None,
        "device": None if machine.is_client else device,
        "server": serving.kind if serving else None,
        "backend": serving.backend if serving else None,
        "passed": not record.why_no_speed,
        "metric": score.metric if score else None,
        "score": score.served if score else None,
    }


def bencher(records: Sequence[Publishable]) -> dict[str, Any]:
    """Bencher Metric Format: benchmark, measure, and the value with its bounds. `throughput` and `latency`
    are Bencher's measures, in operations per second and nanoseconds; it creates others by their names."""
    benchmarks: dict[str, Any] = {}
    for record in records:
        measured = record.accuracy.scores if record.accuracy and record.main_score else ()
        scores = {score.metric.replace(" ", "_"): {"value": _served_score(score)} for score in measured}
        benchmarks |= {record.name: scores} if scores else {}
        for name, result in _points(record):
            benchmarks[name] = {
                "throughput": _metric(result.throughput_per_s),
                "latency": _metric(result.latency_ms["avg"], scale=1e6),
                "latency_p99_ms": _metric(result.latency_ms["p99"]),
            }
    return benchmarks


def github_action(records: Sequence[Publishable], better: str) -> list[dict[str, Any]]:
    """The entries for github-action-benchmark: `customBiggerIsBetter` has throughputs and scores that are
    shares, `customSmallerIsBetter` p99 latencies and scores that are errors. A case has only its first score:
    a further metric may be mere rounding, which doubles without meaning."""
    is_bigger = better == "higher"
    entries: list[dict[str, Any]] = []
    for record in records:
        score = record.main_score
        if score is not None and score.better == better:
            name, unit = f"{record.name} {score.metric}", "%" if is_bigger else "error"
            entries.append({"name": name, "unit": unit, "value": _served_score(score)})
    for name, result in _points(*records):
        estimate = result.throughput_per_s if is_bigger else result.latency_ms["p99"]
        span = f"{estimate.low:g} {'or more' if estimate.open_above else f'to {estimate.high:g}'}"
        name, unit = (name, "inferences/s") if is_bigger else (f"{name} p99", "ms")
        entry = {"name": name, "unit": unit, "value": estimate.value, "range": span}
        remark = "; ".join(mark.text for mark in result.marks)
        entries.append(entry | ({"extra": remark} if remark else {}))
    return entries


FORMATS: Mapping[str, Callable[[Sequence[Publishable]], Any]] = {
    "bencher": bencher,
    "customBiggerIsBetter": functools.partial(github_action, better="higher"),
    "customSmallerIsBetter": functools.partial(github_action, better="lower"),
}


def _points(*records: Publishable) -> list[tuple[str, speed.PointResult]]:
    """The load points by name: `cpu-resnet50-micro-onnx-fp32 offline b008-c001`."""
    return [
        (f"{record.name} {result.point.scenario} {result.point}", result)
        for record in records
        for result in record.points
    ]


def _served_score(score: correctness.Score) -> float | None:
    """The served score, in percent if it is a share."""
    return cell_of(METRICS[score.better], score.served).value


def _metric(estimate: Estimate, scale: float = 1.0) -> dict[str, float]:
    values = {"value": estimate.value, "lower_value": estimate.low}
    if not estimate.open_above:
        values["upper_value"] = estimate.high
    return {name: scale * value for name, value in values.items()}


def figures_by_name(name: str, value: Any) -> dict[str, float | int | str]:
    """The numbers and texts in a part of a record by the fields that lead to them: `gpu_power_w`. An estimate
    has its bounds too, `throughput_per_s_low`; too wide a ratio is left out; passes are counted."""
    if isinstance(value, Estimate):
        if not is_shown(value):
            return {}
        high = None if value.open_above else value.high
        bounds = {name: value.value, f"{name}_low": value.low, f"{name}_high": high}
        return figures_by_name("", bounds)
    if isinstance(value, tuple):
        parts: list[Any] = [part.code if isinstance(part, speed.Mark) else part for part in value]
        if not all(isinstance(part, Struct) for part in parts):
            return figures_by_name(name, " ".join(map(str, parts)))
        if any(isinstance(part, speed.PassSummary) for part in parts):
            return figures_by_name(name, len(parts))
        value = {_name_of(part, number): part for number, part in enumerate(parts)}
    elif isinstance(value, Struct):
        value = structs.asdict(value)
        if "point" in value:  # the point's settings are named like the result's own
            value = structs.asdict(value.pop("point")) | value
    if isinstance(value, dict):
        figures = (figures_by_name(f"{name}_{key}" if name else key, part) for key, part in value.items())
        return {key.replace(" ", "_"): figure for part in figures for key, figure in part.items()}
    is_known = value not in (None, "") and not (isinstance(value, float) and math.isnan(value))
    return {name: value} if is_known else {}


def _name_of(part: Struct, number: int) -> str:
    """The name of a part of a list, which tells it from the others, or else its `number`."""
    fields = ("scenario", "metric", "gate", "output", "model", "resource", "per")
    part = getattr(part, "point", part)
    return " ".join(getattr(part, field) for field in fields if hasattr(part, field)) or str(number)
