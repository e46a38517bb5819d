"""The records that a run wrote, from all workers: each test names its own by the property `record`."""

from pathlib import Path
from typing import Any

from reports.record import files
from reports.words.shown import Shown, shown


def record_paths(terminalreporter: Any) -> list[Path]:
    """The files of the records, in the order of their names."""
    results = Path(terminalreporter.config.option.results).absolute()
    reports = (report for of_kind in terminalreporter.stats.values() for report in of_kind)
    properties = (one for report in reports for one in getattr(report, "user_properties", ()))
    return sorted({results / value for name, value in properties if name == "record"})


def shown_records(terminalreporter: Any) -> list[Shown]:
    """The records as a reader may see them."""
    return [shown(files.read(path)) for path in record_paths(terminalreporter)]


def was_compared(config: Any) -> bool:
    """Whether the run set its builds beside others."""
    return config.option.against is not None or config.option.baseline is not None
