"""What a run prints at its end: the summary table of the cases that it recorded, and where to find more."""

import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reports import tables
from reports.run.written import further_tables, record_paths, shown_records
from reports.tables.folded import folded
from reports.tables.narrow import narrow_summary
from reports.words.shown import Shown


def pytest_terminal_summary(terminalreporter: Any) -> None:
    records, wrong = shown_records(terminalreporter)
    if not records and not wrong:
        return
    terminalreporter.section("summary")
    for sentence in wrong:
        terminalreporter.write_line(f"not in the summary: {sentence}")
    if not records:
        return
    further = [table(records) for table in further_tables(terminalreporter.config)]
    if terminalreporter.isatty:
        further = [folded(block, shutil.get_terminal_size().columns) for block in further]
    for block in filter(None, (_summary(records, is_terminal=terminalreporter.isatty), *further)):
        terminalreporter.write_line(block)
        terminalreporter.write_line("")
    folders = sorted({_as_typed(path.parent.parent) for path in record_paths(terminalreporter)})
    terminalreporter.write_line(
        f"records: {', '.join(folders)}; all tables: {_as_typed(Path(sys.executable))} -m reports tables --results {folders[0]}"
    )


def _summary(records: Sequence[Shown], *, is_terminal: bool) -> str:
    """The table as it is in files and logs, or on a terminal that is narrower a table that fits."""
    whole = tables.summary_table(records)
    width = shutil.get_terminal_size().columns
    widest = max(len(line) for line in whole.splitlines() if line.startswith("|"))
    if not is_terminal or widest <= width:
        return whole
    wider = f"The whole table, {widest} columns wide, is among those that the next command prints."
    return "\n\n".join((narrow_summary(records, width), textwrap.fill(wider, width)))


def _as_typed(path: Path) -> str:
    """The path as one would type it here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
