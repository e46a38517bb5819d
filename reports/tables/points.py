"""A case's tables by load point: offline and online, with the columns that NVIDIA published for its model, the percentiles
one can sign, and what a model that calls others spends in each."""

from collections.abc import Callable, Mapping

from reports.published.names import column_of, names_of
from reports.record.certificates import BY, certified_cell
from reports.record.quantities import COUNT, GIVEN_SHARE, LATENCY
from reports.record.schema import COMPONENTS, CertifiedPercentile, Load, Record
from reports.words.answers import verified_answers
from reports.words.labels import (
    backend_accelerator,
    latency,
    marked_throughput,
    point,
    schedule,
    sequence_length,
)
from reports.words.markdown import markdown, text
from reports.words.marks import marked_points
from reports.words.shown import Shown

Cell = Callable[[Record, Load], str]

_LEFT = ("precision", "accelerator")
"""Columns of text; numbers are aligned to the right."""


def loads_of(record: Shown, scenario: str) -> list[Load]:
    """A scenario's load points in the order of the tables: by batch offline, by concurrency online."""
    loads = (load for load in record.loads if load.scenario == scenario)
    if scenario == "offline":
        return sorted(loads, key=lambda load: (load.batch, load.concurrency))
    return sorted(loads, key=lambda load: (load.request_rate_per_s or 0.0, load.concurrency, load.batch))


def points_table(record: Shown, scenario: str) -> str:
    """The table of a scenario, with one row for each client batch size offline and for each load online; a sentence where
    there is nothing to show."""
    if record.no_speed:
        return text(record.no_speed)
    loads = loads_of(record, scenario)
    if not loads:
        return f"No {scenario} load point has been measured."
    names = names_of(record.case.model, scenario).columns
    columns = [column_of(name) for name in names]
    rows = [[_CELLS[column](record, load) for column in columns] for load in loads]
    table = markdown(names, rows, "".join("l" if column in _LEFT else "r" for column in columns))
    marked = marked_points((point(load), load) for load in loads)
    return "\n\n".join(filter(None, [table, *marked, verified_answers(loads)]))


def _component(name: str) -> Cell:
    return lambda _record, load: LATENCY.cell(load.components_ms.get(name))


def _latency(name: str) -> Cell:
    return lambda _record, load: latency(load, name)


def _concurrency(_record: Record, load: Load) -> str:
    return str(load.concurrency) if load.request_rate_per_s is None else schedule(load)


_CELLS: Mapping[str, Cell] = {
    "precision": lambda record, _load: record.case.precision.upper(),
    "accelerator": lambda record, _load: backend_accelerator(record),
    "sequence_length": lambda record, _load: sequence_length(record),
    "batch": lambda _record, load: str(load.batch),
    "concurrency": _concurrency,
    "throughput_per_s": lambda _record, load: marked_throughput(load),
    **{f"{name}_ms": _component(name) for name in COMPONENTS},
    **{f"latency_{name}_ms": _latency(name) for name in ("p50", "p90", "p95", "p99", "avg")},
}
"""How a cell is filled, by the column's name in reports.published.COLUMNS."""


def certified_table(record: Shown, scenario: str) -> str:
    """A row per load point with each percentile and its bound; empty where no point has a bound."""
    loads = loads_of(record, scenario)
    found = [one for load in loads for one in load.certified.values()]
    if all(one.bound_ms is None for one in found):
        return ""
    names = list(dict.fromkeys(name for load in loads for name in load.certified))
    rows = [
        [
            point(load),
            COUNT.cell(load.requests),
            *(cell for name in names for cell in _certified_cells(load.certified.get(name))),
        ]
        for load in loads
    ]
    columns = [heading for name in names for heading in (name, f"{name} at most")]
    levels = " or ".join(sorted({GIVEN_SHARE.text(one.confidence) for one in found}))
    said = (
        f"At most: with {levels} confidence, by the rule of {BY}, which counts requests as independent of each other. "
        "`--certify 99` measures until there is a bound."
    )
    table = markdown(("Load point", "Requests", *columns), rows, "l" + "r" * (1 + len(columns)))
    return f"{table}\n\n{said}"


def _certified_cells(one: CertifiedPercentile | None) -> tuple[str, str]:
    return LATENCY.cell(one.value_ms if one else None), certified_cell(one)


_COMPOSING = ("Load point", "Called model", "Calls", "Queue (ms)", "Compute (ms)")


def composing_table(record: Shown, scenario: str) -> str:
    """What each called model does in a request of each load point; empty where none is called."""
    rows = [
        [
            point(load),
            one.model,
            f"{one.calls:.2f}",
            LATENCY.cell(one.queue_ms),
            LATENCY.cell(one.compute_ms),
        ]
        for load in loads_of(record, scenario)
        for one in load.composing
    ]
    if not rows:
        return ""
    note = (
        "Called models: the mean of a request, by the server's statistics. What is called at the same time adds up to more than "
        "the request takes."
    )
    return "\n\n".join([markdown(_COMPOSING, rows, "llrrr"), note])
