"""What a run prints at its end: the summary table of the cases that it recorded, and where to find more."""

from pathlib import Path
from typing import Any

from reports import tables
from reports.run.written import further_tables, record_paths, shown_records


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
    for block in filter(None, (tables.summary_table(records), *further)):
        terminalreporter.write_line(block)
        terminalreporter.write_line("")
    folders = sorted({_as_typed(path.parent.parent) for path in record_paths(terminalreporter)})
    terminalreporter.write_line(
        f"records: {', '.join(folders)}; all tables: python -m reports tables --results {folders[0]}"
    )


def _as_typed(path: Path) -> str:
    """The path as one would type it here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
