"""The offline and the online table of a case, with the columns that NVIDIA published for its model."""

from collections.abc import Callable, Mapping

from reports.published.names import column_of, names_of
from reports.record.quantities import LATENCY
from reports.record.schema import COMPONENTS, Load, Record
from reports.words.labels import (
    backend_accelerator,
    latency,
    marked_throughput,
    point,
    schedule,
    sequence_length,
)
from reports.words.markdown import markdown, text
from reports.words.rightness import notes, verified_answers
from reports.words.shown import Shown

Cell = Callable[[Record, Load], str]

_LEFT = ("precision", "accelerator")
"""Columns of text; numbers are aligned to the right."""


def offline_table(record: Shown) -> str:
    """The offline table, one row per client batch size; a sentence where there is nothing to show."""
    return _table(record, "offline")


def online_table(record: Shown) -> str:
    """The online table, one row per concurrency; a sentence where there is nothing to show."""
    return _table(record, "online")


def loads_of(record: Shown, scenario: str) -> list[Load]:
    """A scenario's load points in the order of the tables: by batch offline, by concurrency online."""
    loads = (load for load in record.loads if load.scenario == scenario)
    if scenario == "offline":
        return sorted(loads, key=lambda load: (load.batch, load.concurrency))
    return sorted(loads, key=lambda load: (load.request_rate_per_s or 0.0, load.concurrency, load.batch))


def _table(record: Shown, scenario: str) -> str:
    if record.no_speed:
        return text(record.no_speed)
    loads = loads_of(record, scenario)
    if not loads:
        return f"No {scenario} load point has been measured."
    names = names_of(record.case.model, scenario).columns
    columns = [column_of(name) for name in names]
    rows = [[_CELLS[column](record, load) for column in columns] for load in loads]
    table = markdown(names, rows, "".join("l" if column in _LEFT else "r" for column in columns))
    marked = [f"- {point(load)}: {text(notes(load))}" for load in loads if load.marks]
    blocks = [table, "Marked points (*):", "\n".join(marked)] if marked else [table]
    return "\n\n".join(filter(None, [*blocks, verified_answers(loads)]))


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
