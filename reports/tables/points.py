"""The tables of load points: those that NVIDIA published for a model, what points take and are held to."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reports.published.names import column_of, names_of
from reports.record import schema
from reports.record.quantities import (
    CLOCK,
    COST,
    COUNT,
    ENERGY,
    GIVEN_SHARE,
    LATENCY,
    LATENCY_BUDGET,
    POWER,
    PRICE,
    RATIO,
    SHARE,
    SHARE_OF_SPEED,
    SIZE,
    THROUGHPUT,
    WORK,
    WORK_RATE,
)
from reports.record.verdicts import (
    ALARM_CONFIDENCE,
    BUDGET_WORDS,
    CERTIFIED_BY,
    certified_cell,
    comparison_verdict,
)
from reports.tables.table import Block, Cell, Column, Heading, Table, figure, table
from reports.text.correctness import verified_answers
from reports.text.labels import backend_accelerator, full_point, point, schedule, sequence_length, size
from reports.text.publishable import Publishable, name_of
from reports.text.speed import cost, fraction_of_peak, version_note


class Point(NamedTuple):
    """A load point that may be shown, and its case."""

    record: Publishable
    load: schema.Load

    @property
    def gpu(self) -> schema.GpuUse:
        """What is known of the GPU."""
        return self.load.gpu or schema.GpuUse(None, None, None, None, None)


def points_of(record: Publishable, scenario: str) -> list[Point]:
    """The load points of a scenario in the order of the tables: offline by batch, online by concurrency."""
    loads = [load for load in record.loads if load.scenario == scenario]
    if scenario == "offline":
        loads.sort(key=lambda load: (load.batch, load.concurrency))
    else:
        loads.sort(key=lambda load: (load.request_rate_per_s or 0.0, load.concurrency, load.batch))
    return [Point(record, load) for load in loads]


# --- as NVIDIA published them ------------------------------------------------------------------------------


def _latency(name: str) -> Column[Point]:
    narrow = f"{name}, ms" if name in ("p50", "p99", "avg") else None
    return Column(name, lambda at: at.load.latency_ms.get(name), LATENCY, narrow=narrow)


def _component(name: str) -> Column[Point]:
    return Column(name, lambda at: at.load.components_ms.get(name), LATENCY)


_PUBLISHED: Mapping[str, Column[Point]] = {
    "precision": Column("", lambda at: at.record.case.precision.upper()),
    "accelerator": Column("", lambda at: backend_accelerator(at.record)),
    "sequence_length": Column("", lambda at: sequence_length(at.record), is_right=True),
    "batch": Column("", lambda at: at.load.batch, COUNT, narrow="Batch"),
    "concurrency": Column(
        "",
        lambda at: schedule(at.load) if at.load.request_rate_per_s else at.load.concurrency,
        COUNT,
        narrow="Concurrency",
    ),
    "throughput_per_s": Column(
        "", lambda at: at.load.throughput_per_s, THROUGHPUT, is_starred=True, narrow="Infer/s"
    ),
    **{f"{name}_ms": _component(name) for name in schema.COMPONENTS},
    **{f"latency_{name}_ms": _latency(name) for name in ("p50", "p90", "p95", "p99", "avg")},
}
"""The columns by their names in reports.published.COLUMNS; their titles are those of the model's source."""


def points_table(record: Publishable, scenario: str) -> Block:
    """The table of a scenario, or the sentence that says why there is nothing to show."""
    if record.no_speed:
        return record.no_speed
    points = points_of(record, scenario)
    if not points:
        return f"No {scenario} load point has been measured."
    names = names_of(record.case.model, scenario).columns
    columns = [dataclasses.replace(_PUBLISHED[column_of(name)], title=name) for name in names]
    notes = [verified_answers([at.load for at in points])]
    return table(columns, points, name=lambda at: point(at.load), marks=lambda at: at.load.marks, notes=notes)


# --- what a load point takes, and what it is held to -------------------------------------------------------

_AT: Column[Point] = Column("Load point", lambda at: point(at.load))


def cost_cell(at: Point) -> Cell:
    """The cost of a million inferences at a load point; `-` without a price."""
    found = cost(at.record, at.load)
    if found is None:
        return figure(COST, None)
    cell = figure(COST, found.per_million)
    return cell if found.of == "correct inferences" else dataclasses.replace(cell, text=f"{cell.text} (any)")


RESOURCES: Sequence[Column[Point]] = (
    Column("Joules per 1,000 inferences", lambda at: at.gpu.energy_j_per_1000, ENERGY, is_optional=True),
    Column("Mean power (W)", lambda at: at.gpu.power_w, POWER, is_optional=True),
    Column("GPU utilisation", lambda at: at.gpu.utilisation, SHARE, with_unit=True, is_optional=True),
    Column("GPU memory (MiB)", lambda at: at.gpu.memory_mib, SIZE, is_optional=True),
    Column("SM clock (MHz)", lambda at: at.gpu.sm_clock_mhz, CLOCK, is_optional=True),
    Column("Cost per million correct inferences", cost_cell, COST, is_optional=True),
)
"""What a load point takes. A new figure is a line here."""


def resources_table(record: Publishable, scenario: str) -> Table:
    """Energy, GPU and cost per load point; without rows if none of these is known."""
    found = table((_AT, *RESOURCES), points_of(record, scenario), notes=[price_sentence([record])])
    return found if len(found.columns) > 1 else Table((), ())


def price_sentence(records: Sequence[schema.Record]) -> str:
    """The price, and what counts as correct; empty without a price."""
    prices = sorted({one.price_per_hour for one in records if one.price_per_hour is not None})
    if not prices:
        return ""
    return (
        f"Cost: at {' or '.join(map(PRICE.text, prices))} per hour of the machine. An inference counts as "
        "correct by the served score; (any) is per million inferences of any kind, where no score is a share."
    )


def certified_table(record: Publishable, scenario: str) -> Table:
    """A row per load point with each percentile and its bound; without rows if no point has a bound."""
    points = points_of(record, scenario)
    found = [one for at in points for one in at.load.certified.values()]
    if all(one.bound_ms is None for one in found):
        return Table((), ())
    levels = " or ".join(sorted({GIVEN_SHARE.text(one.confidence) for one in found}))
    names = dict.fromkeys(name for at in points for name in at.load.certified)
    requests: Column[Point] = Column("Requests", lambda at: at.load.requests, COUNT)
    note = (
        f"At most: with {levels} confidence, by the rule of {CERTIFIED_BY}, which counts requests as "
        "independent of each other. `--certify 99` measures until there is a bound."
    )
    columns = [_AT, requests, *(column for name in names for column in _certified(name))]
    return table(columns, points, notes=[note])


def _certified(name: str) -> list[Column[Point]]:
    def value(at: Point) -> float | None:
        return one.value_ms if (one := at.load.certified.get(name)) else None

    def bound(at: Point) -> Cell:
        one = at.load.certified.get(name)
        return Cell(certified_cell(one), one.bound_ms if one else None)

    return [Column(name, value, LATENCY), Column(f"{name} at most", bound, LATENCY)]


class _Called(NamedTuple):
    load: schema.Load
    model: schema.ComposingModel


_COMPOSING: Sequence[Column[_Called]] = (
    Column("Load point", lambda one: point(one.load)),
    Column("Called model", lambda one: one.model.model),
    Column("Calls", lambda one: Cell(f"{one.model.calls:.2f}", one.model.calls), COUNT),
    Column("Queue (ms)", lambda one: one.model.queue_ms, LATENCY),
    Column("Compute (ms)", lambda one: one.model.compute_ms, LATENCY),
)


def composing_table(record: Publishable, scenario: str) -> Table:
    called = [_Called(at.load, model) for at in points_of(record, scenario) for model in at.load.composing]
    note = (
        "Called models: the mean of a request, by the server's statistics. What is called at the same time "
        "adds up to more than the request takes."
    )
    return table(_COMPOSING, called, notes=[note])


class _Kept(NamedTuple):
    record: Publishable
    load: schema.Load
    budget: schema.LatencyBudget

    @property
    def latency(self) -> Cell:
        latency = self.load.latency_ms[self.budget.percentile]
        cell = figure(LATENCY, latency, "interval", self.budget.budget_ms, with_unit=True)
        return dataclasses.replace(cell, text=f"{self.budget.percentile} {cell.text}")


_BUDGETS: Sequence[Column[_Kept]] = (
    Column("Case", lambda one: f"`{name_of(one.record)}`"),
    Column("At", lambda one: full_point(one.load)),
    Column("Latency", lambda one: one.latency),
    Column("Budget", lambda one: LATENCY_BUDGET.text(one.budget.budget_ms)),
    Column("Verdict", lambda one: BUDGET_WORDS[one.budget.verdict]),
    Column("Budget from", lambda one: one.budget.source),
)


def budget_table(records: Sequence[Publishable], scenario: str | None = None) -> Table:
    every = (Point(record, load) for record in records for load in record.loads)
    loads = [at for at in every if scenario in (None, at.load.scenario)]
    return table(_BUDGETS, [_Kept(*at, at.load.budget) for at in loads if at.load.budget])


# --- beside another build ----------------------------------------------------------------------------------


class _Compared(NamedTuple):
    record: Publishable
    at: schema.LoadSetting
    reference: str
    found: schema.Comparison | None
    """None if the case may show no speed."""


_COMPARISON: Sequence[Column[_Compared]] = (
    Column("Case", lambda one: f"`{name_of(one.record)}`"),
    Column("At", lambda one: full_point(one.at)),
    Column("Speed, ratio", lambda one: speed_cell(one.found) if one.found else None, RATIO, is_right=False),
    Column("To", lambda one: one.reference),
    Column(
        "P99, ratio",
        lambda one: p99_cell(one.found) if one.found else None,
        RATIO,
        is_optional=True,
        is_right=False,
    ),
    Column("Verdict", lambda one: comparison_verdict(one.found) if one.found else one.record.no_speed),
)


def speed_cell(found: schema.Comparison) -> Cell:
    """The speed over the other's."""
    return figure(RATIO, found.ratio, "interval", 1 - found.allowed_slowdown)


def p99_cell(found: schema.Comparison) -> Cell | None:
    """The p99 latency over the other's, if it is known."""
    limit = 1 / (1 - found.allowed_slowdown)
    return figure(RATIO, found.p99_ratio, "interval", limit) if found.p99_ratio else None


def comparison_table(records: Sequence[Publishable], scenario: str | None = None) -> Table:
    """A row for each load point that was compared with another build. A case that may show no speed has its
    reason as the verdict, and no ratio."""
    found: list[_Compared] = []
    for record in records:
        shown = ((at, at.comparison) for at in record.loads)
        found += [_Compared(record, at, one.reference, one) for at, one in shown if one]
        found += [_Compared(record, at, at.compared_with, None) for at in record.hidden if at.compared_with]
    chosen = [one for one in found if scenario in (None, one.at.scenario)]
    return table(_COMPARISON, chosen, notes=[_HOLM] if any(one.found for one in chosen) else [])


_HOLM = (
    f"Of runs that compare a build with itself, at most {GIVEN_SHARE.text(1 - ALARM_CONFIDENCE)} call any of "
    "their points `slower` (Holm's correction for the number of points). Each interval is that of its point "
    "alone."
)


# --- beside the same artifact in process -------------------------------------------------------------------

_EFFICIENCY: Sequence[Column[schema.Efficiency]] = (
    Column("At", lambda one: _at(one)),
    Column("Inferences/second, served", lambda one: one.served_per_s, THROUGHPUT, is_starred=True),
    Column("In process", lambda one: one.in_process_per_s, THROUGHPUT),
    Column("In process, serial", lambda one: one.serial_per_s, THROUGHPUT, is_optional=True),
    Column("In process, resident", lambda one: one.resident_per_s, THROUGHPUT, is_optional=True),
    Column("In-process batch", lambda one: one.in_process_batch, COUNT),
    Column("Served / in process", lambda one: one.ratio, SHARE_OF_SPEED, "interval", with_unit=True),
    Column("Cost of serving (ms per request)", lambda one: one.serving_cost_ms, LATENCY),
    Column("GFLOP per inference", lambda one: one.flops_per_inference, WORK),
    Column("Peak (GFLOP/s)", lambda one: one.peak_flops_per_s, WORK_RATE),
    Column("Of the peak", fraction_of_peak, SHARE, with_unit=True),
)


def efficiency_section(record: Publishable) -> list[Block]:
    """The table of a case, with what its figures mean; empty if nothing was measured."""
    if not record.efficiency:
        return []
    threads = " or ".join(sorted({str(one.threads) for one in record.efficiency}))
    pairs = " and ".join(str(one.pairs) for one in record.efficiency)
    several = ""
    if (count := record.case.gpus) > 1:
        several = f"; on one GPU, and taken {count} times, as the server has {count}, like the peak"
    meaning = (
        f"In process: the same artifact on the same data with the same {threads} CPU threads in a process of "
        f"its own, measured in turns with the server ({pairs} pairs){several}. The peak is that of the "
        f"fastest large {_product(record)} on the same threads; a multiplication and an addition count as "
        "two. In brackets 95 % intervals."
    )
    if any(one.serial_per_s for one in record.efficiency):
        meaning += (
            " On the GPU the next batch is copied while one is computed; serial, batch by batch; resident, "
            "on data that lie in the GPU's memory."
        )
    if any(one.spinning for one in record.efficiency):
        # Both sides were given them, as Triton's backend cannot stop them.
        meaning += (
            " Idle threads spin between layers on both sides: Triton's ONNX Runtime backend has no parameter "
            "to stop them. So the ratio is of serving alone, and the Python backend, where they sleep, may "
            "be the faster one."
        )
    notes = [meaning, version_note(record)]
    made = table(_EFFICIENCY, record.efficiency, name=_at, marks=lambda one: one.marks, notes=notes)
    return [Heading(f"Efficiency: {record.case.precision.upper()}", 4), made]


def _at(one: schema.Efficiency) -> str:
    return f"{one.scenario}, {size(one.scenario, one.batch, one.concurrency)}"


def _product(record: schema.Record) -> str:
    precision = record.case.precision
    if precision == "int8":
        return "matrix product of 8-bit integers, summed in 32 bits,"
    if record.case.target == "cpu":
        return f"{precision.upper()} matrix product or convolution"
    in_tf32 = ", in TF32 where the GPU has it," if precision == "fp32" else ""
    return f"{precision.upper()} matrix product{in_tf32}"
