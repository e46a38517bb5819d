"""Adds the measurements of each test to the history as soon as the test has ended, so that a killed run loses none."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from reports import history
from reports.record import atomic, commands, files
from reports.text.publishable import publishable


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("tritonproof").addoption(
        "--history",
        metavar="DIR",
        help="The folder of the history, which keeps a row for each measurement, of which the reports make a trend. "
        "Default: reports/history, or DIR/history with --results DIR.",
    )


@dataclass(eq=False)
class HistoryKeeper:
    """A plugin of pytest that adds the measurements of each record that a test names in its property `record`."""

    results: Path
    folder: Path
    troubles: dict[str, None] = field(default_factory=dict)
    """The reasons why rows could not be added, each once."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "teardown":
            return
        for name, value in report.user_properties:
            if name == "record":
                self._add(self.results / str(value))

    def _add(self, path: Path) -> None:
        """Add every measurement of the record that may be shown; those that earlier tests added are not added again."""
        try:
            history.append(self.folder, history.rows_of(publishable(files.read(path))))
        except OSError as error:
            self.troubles[f"{error.strerror}: {self.folder}"] = None
        except files.RecordError as error:
            self.troubles[str(error)] = None

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for trouble in self.troubles:
            terminalreporter.write_line(f"the history lacks measurements of this run: {trouble}")
        if self.troubles:
            terminalreporter.write_line(
                "add them once that is mended: "
                + commands.tool("reports", f"trend --history {self.folder} --add {self.results}")
            )


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        results, given = Path(config.option.results).absolute(), config.option.history
        for folder in (results, *results.glob("*/")):
            atomic.remove_leftovers(folder)
        kept = history.folder_of(results) if given is None else Path(given).absolute()
        config.pluginmanager.register(HistoryKeeper(results, kept), "tritonproof-history")
