"""The tables of load points: as NVIDIA published them, with resources and limits, and beside other builds."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from tritonproof.ratios import FALSE_ALARM_RATE
from tritonproof.record import Record, quantities, speed
from tritonproof.record.quantities import COUNT, GIVEN_SHARE, LATENCY, RATIO, THROUGHPUT, Quantity
from tritonproof.reports import derived, phrases, speed_text
from tritonproof.reports.correctness_text import verified_answers_text
from tritonproof.reports.nvidia_readmes import nvidia_column, nvidia_names
from tritonproof.reports.phrases import full_point_text, point_text
from tritonproof.reports.publishable import Publishable
from tritonproof.reports.tables.table import Block, Cell, Column, Heading, Table, cell_of, table

Detail = TypeVar("Detail", covariant=True)


@dataclasses.dataclass(frozen=True)
class PointRow(Generic[Detail]):
    """A load point that may be shown, its case, and the detail that a table shows of it."""

    record: Publishable
    result: speed.PointResult
    detail: Detail


def point_rows(record: Publishable, scenario: str) -> list[PointRow[None]]:
    """The load points of a scenario, those without a request rate first."""
    results = [result for result in record.points if result.point.scenario == scenario]
    results.sort(key=lambda result: (result.point.is_at_rate, result.point.level, result.point.batch))
    return [PointRow(record, result, None) for result in results]


# --- as NVIDIA published them ------------------------------------------------------------------------------


def _latency(name: str) -> Column[PointRow[object]]:
    narrow = f"{name}, ms" if name in ("p50", "p99", "avg") else None
    return Column(name, lambda row: row.result.latency_ms.get(name), LATENCY, narrow=narrow)


def _component(name: str) -> Column[PointRow[object]]:
    return Column(name, lambda row: row.result.components_ms.get(name), LATENCY)


def _concurrency(row: PointRow[object]) -> str | int:
    point = row.result.point
    return phrases.schedule_text(point) if point.is_at_rate else point.concurrency


_POINT_COLUMNS: Mapping[str, Column[PointRow[object]]] = {
    "precision": Column("", lambda row: row.record.case.precision.upper()),
    "accelerator": Column("", lambda row: phrases.backend_accelerator(row.record)),
    "sequence_length": Column("", lambda row: phrases.sequence_length(row.record), right_aligned=True),
    "batch": Column("", lambda row: row.result.point.batch, COUNT, narrow="Batch"),
    "concurrency": Column("", _concurrency, COUNT, narrow="Concurrency"),
    "throughput_per_s": Column("", lambda row: row.result.throughput_per_s, THROUGHPUT, narrow="Infer/s"),
    **{f"{name}_ms": _component(name) for name in speed.COMPONENTS},
    **{f"latency_{name}_ms": _latency(name) for name in ("p50", "p90", "p95", "p99", "avg")},
}
"""The columns by their names in tritonproof.reports.nvidia_readmes; the model's source has their titles."""


def points_table(record: Publishable, scenario: str) -> Block:
    """The table of a scenario, or a sentence that says why there is none."""
    if record.why_no_speed:
        return record.why_no_speed
    rows = point_rows(record, scenario)
    if not rows:
        return f"No {scenario} load point has been measured."
    names = nvidia_names(record.case.model, scenario)["columns"]
    columns = [dataclasses.replace(_POINT_COLUMNS[nvidia_column(name)], title=name) for name in names]
    notes = [verified_answers_text([row.result for row in rows])]
    return table(columns, rows, marks=lambda row: row.result.marks, notes=notes)


# --- the resources and the limits of a load point ----------------------------------------------------------

_AT: Column[PointRow[object]] = Column("Load point", lambda row: point_text(row.result.point))


def cost_cell(record: Publishable, result: speed.PointResult) -> Cell:
    """The cost of a million inferences at a load point; `-` without a price."""
    cost = derived.cost_per_million(record, result)
    cell = cell_of(quantities.COST, cost)
    return cell if cost is None or derived.correct_share(record) else cell._replace(text=f"{cell.text} (any)")


def _gpu(title: str, name: str, quantity: Quantity, *, with_unit: bool = False) -> Column[PointRow[object]]:
    def take(row: PointRow[object]) -> float | None:
        return getattr(row.result.gpu, name, None)

    return Column(title, take, quantity, with_unit=with_unit, is_optional=True)


RESOURCES: Sequence[Column[PointRow[object]]] = (
    _gpu("Joules per 1,000 inferences", "energy_j_per_1000", quantities.ENERGY),
    _gpu("Mean power (W)", "power_w", quantities.POWER),
    _gpu("GPU utilisation", "utilisation", quantities.SHARE, with_unit=True),
    _gpu("GPU memory (MiB)", "memory_mib", quantities.SIZE),
    _gpu("SM clock (MHz)", "sm_clock_mhz", quantities.CLOCK),
    Column(
        "Cost per million correct inferences",
        lambda row: cost_cell(row.record, row.result),
        quantities.COST,
        is_optional=True,
    ),
)
"""The resources that a load point takes. Add a line here for a new figure."""


def resources_table(record: Publishable, scenario: str) -> Table:
    """Energy, GPU and cost per load point; without rows if none of these is known."""
    resources = table((_AT, *RESOURCES), point_rows(record, scenario), notes=[price_sentence([record])])
    return resources if len(resources.columns) > 1 else Table((), ())


def price_sentence(records: Sequence[Record]) -> str:
    """A sentence on the price and on which inferences are correct; empty without a price."""
    prices = sorted({record.price_per_hour for record in records if record.price_per_hour is not None})
    if not prices:
        return ""
    return (
        f"Cost: at {' or '.join(map(quantities.PRICE.text, prices))} per hour of the machine. An inference "
        "counts as correct by the served score; (any) is per million inferences of any kind, where no score "
        "is a share."
    )


def certified_table(record: Publishable, scenario: str) -> Table:
    """Each load point with its percentiles and their bounds; no rows if no percentile has a bound."""
    rows = point_rows(record, scenario)
    percentiles = [percentile for row in rows for percentile in row.result.certified.values()]
    if all(percentile.bound_ms is None for percentile in percentiles):
        return Table((), ())
    levels = " or ".join(sorted({GIVEN_SHARE.text(percentile.confidence) for percentile in percentiles}))
    names = dict.fromkeys(name for row in rows for name in row.result.certified)
    requests: Column[PointRow[object]] = Column("Requests", lambda row: row.result.requests, COUNT)
    note = (
        f"At most: with {levels} confidence, by the rule of {speed_text.CERTIFIED_BY}, which counts requests "
        "as independent of each other. `--certify 99` measures until there is a bound."
    )
    columns = [_AT, requests, *(column for name in names for column in _certified(name))]
    return table(columns, rows, notes=[note])


def _certified(name: str) -> list[Column[PointRow[object]]]:
    def bound(row: PointRow[object]) -> float | str | None:
        percentile = row.result.certified.get(name)
        if percentile is not None and percentile.bound_ms is None:
            return f"{COUNT.text(percentile.requests_missing)} requests too few"
        return percentile.bound_ms if percentile else None

    return [
        Column(name, lambda row: getattr(row.result.certified.get(name), "value_ms", None), LATENCY),
        Column(f"{name} at most", bound, LATENCY),
    ]


_CALLED: Sequence[Column[PointRow[speed.CalledModel]]] = (
    _AT,
    Column("Called model", lambda row: row.detail.model),
    Column("Calls", lambda row: Cell(f"{row.detail.calls:.2f}", row.detail.calls), COUNT),
    Column("Queue (ms)", lambda row: row.detail.queue_ms, LATENCY),
    Column("Compute (ms)", lambda row: row.detail.compute_ms, LATENCY),
)


def called_models_table(record: Publishable, scenario: str) -> Table:
    results = [row.result for row in point_rows(record, scenario)]
    rows = [PointRow(record, result, model) for result in results for model in result.called_models]
    note = (
        "Called models: the mean of a request, by the server's statistics. What is called at the same time "
        "adds up to more than the request takes."
    )
    return table(_CALLED, rows, notes=[note])


# --- the load points that a user's limits or another build are compared with -------------------------------


def _limited_latency(row: PointRow[speed.LatencyBudget]) -> Cell:
    name, limit_ms = row.detail.percentile, row.detail.budget_ms
    cell = cell_of(LATENCY, row.result.latency_ms[name], "interval", limit_ms, with_unit=True)
    return cell._replace(text=f"{name} {cell.text}")


_BUDGETS: Sequence[Column[PointRow[speed.LatencyBudget]]] = (
    Column("Case", lambda row: f"`{row.record.name}`"),
    Column("At", lambda row: full_point_text(row.result.point)),
    Column("Latency", _limited_latency),
    Column("Budget", lambda row: quantities.LATENCY_BUDGET.text(row.detail.budget_ms)),
    Column("Verdict", lambda row: speed_text.BUDGET_WORDS[row.detail.verdict]),
    Column("Budget from", lambda row: row.detail.source),
)


def _rows_with(detail: str, records: Sequence[Publishable], scenario: str | None) -> list[PointRow[Any]]:
    """The load points of a scenario, or of both, that have this detail, also those of hidden speed."""
    return [
        PointRow(record, result, getattr(result, detail))
        for record in records
        for result in (*record.points, *record.hidden)
        if getattr(result, detail) and scenario in (None, result.point.scenario)
    ]


def budget_table(records: Sequence[Publishable], scenario: str | None = None) -> Table:
    return table(_BUDGETS, _rows_with("latency_budget", records, scenario))


_COMPARISON: Sequence[Column[PointRow[speed.SpeedComparison]]] = (
    Column("Case", lambda row: f"`{row.record.name}`"),
    Column("At", lambda row: full_point_text(row.result.point)),
    Column("Speed, ratio", lambda row: speed_cell(row.detail), RATIO, right_aligned=False),
    Column("To", lambda row: row.detail.baseline_name),
    Column("P99, ratio", lambda row: p99_cell(row.detail), RATIO, is_optional=True, right_aligned=False),
    Column("Verdict", lambda row: row.record.why_no_speed or speed_text.comparison_verdict(row.detail)),
)


def speed_cell(comparison: speed.SpeedComparison) -> Cell:
    return cell_of(RATIO, comparison.ratio, "interval", 1 - comparison.allowed_slowdown)


def p99_cell(comparison: speed.SpeedComparison) -> Cell:
    """The p99 latency over the baseline's; `-` if it is unknown."""
    return cell_of(RATIO, comparison.p99_ratio, "interval", 1 / (1 - comparison.allowed_slowdown))


def comparison_table(records: Sequence[Publishable], scenario: str | None = None) -> Table:
    """A row for each load point compared with a baseline, also for a case that hides its speed."""
    rows = _rows_with("comparison", records, scenario)
    most_false = GIVEN_SHARE.text(FALSE_ALARM_RATE)
    note = (
        f"Of runs that compare a build with itself, at most {most_false} call any of their points `slower` "
        "(Holm's correction for the number of points). Each interval is that of its point alone."
    )
    return table(_COMPARISON, rows, notes=[note])


# --- beside the same artifact in process -------------------------------------------------------------------

_EFFICIENCY: Sequence[Column[speed.Efficiency]] = (
    Column("At", lambda row: full_point_text(row.point)),
    Column("Inferences/second, served", lambda row: row.served_per_s, THROUGHPUT),
    Column("In process", lambda row: row.in_process_per_s, THROUGHPUT),
    Column("In-process batch", lambda row: row.in_process_batch, COUNT),
    Column("Served / in process", lambda row: row.ratio, RATIO, "interval"),
    Column("Serving overhead (ms per request)", lambda row: row.serving_overhead_ms, LATENCY),
    Column("GFLOP per inference", lambda row: row.flops_per_inference, quantities.WORK),
    Column("Peak (GFLOP/s)", lambda row: row.peak_flops_per_s, quantities.WORK_RATE),
    Column("Of the peak", derived.fraction_of_peak, quantities.SHARE, with_unit=True),
)


def efficiency_section(record: Publishable) -> list[Block]:
    """Heading and table of one case, with notes on its figures; empty if nothing was measured."""
    if not record.efficiency:
        return []
    threads = " or ".join(sorted({str(measurement.threads) for measurement in record.efficiency}))
    precision, on_cpu = record.case.precision.upper(), record.case.target == "cpu"
    products = "matrix products and convolutions" if on_cpu and precision != "INT8" else "matrix products"
    meaning = (
        f"In process: the same artifact on the same data with the same {threads} CPU threads, without a "
        f"server, measured in turns with it. The peak is that of large {precision} {products}. "
        "Brackets give 95 % intervals. More: docs/how-it-measures.md#what-serving-costs"
    )
    notes = [meaning, speed_text.version_note(record)]
    shown = table(_EFFICIENCY, record.efficiency, marks=lambda measurement: measurement.marks, notes=notes)
    return [Heading(f"Efficiency: {precision}", 4), shown]
