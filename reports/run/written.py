"""The records that a run wrote, from all workers: each test names its own by the property `record`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reports import tables
from reports.record import files
from reports.record.foreign import visible
from reports.words.shown import Shown, shown


def record_paths(terminalreporter: Any) -> list[Path]:
    """The files of the records, in the order of their names."""
    results = Path(terminalreporter.config.option.results).absolute()
    reports = (report for of_kind in terminalreporter.stats.values() for report in of_kind)
    properties = (one for report in reports for one in getattr(report, "user_properties", ()))
    return sorted({results / value for name, value in properties if name == "record"})


def shown_records(terminalreporter: Any) -> tuple[list[Shown], list[str]]:
    """The records as a reader may see them, and a sentence for each that was deleted or damaged after it was written."""
    found: list[Shown] = []
    wrong: list[str] = []
    for path in record_paths(terminalreporter):
        try:
            found.append(shown(files.read(path)))
        except files.RecordError as error:
            wrong.append(visible(str(error)))
    return found, wrong


Table = Callable[[Sequence[Shown]], str]


def further_tables(config: Any) -> list[Table]:
    """The tables that a run shows beside its summary: those of what its options asked for. Its records may hold more, from
    runs before."""
    option = config.option
    asked = {
        tables.comparison_table: option.against is not None or option.against_triton is not None,
        tables.budget_table: option.thresholds is not None,
        tables.soak_table: option.soak is not None,
    }
    return [table for table, is_asked_for in asked.items() if is_asked_for]
