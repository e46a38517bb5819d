"""Lets a run tell all at its end, where a file that pytest or pytest-benchmark writes then cannot be written.

Their own trace would take its place, as on a full disk: no summary, no status of the suite's. JUnit's file is written whole
or not at all, too; pytest itself writes into what is there.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from _pytest.junitxml import LogXML, xml_key

from reports.record import writing
from reports.run.outcomes import outcomes_of
from reports.words.system_errors import with_cure


@dataclass(eq=False)
class JUnitFile:
    """The file of `--junit-xml`, which pytest writes into memory."""

    report: LogXML
    """pytest's own, which has the name of a file in memory."""
    memory: int
    """The descriptor of that file."""
    named: str
    """The file that the user named."""

    def write(self, config: pytest.Config) -> None:
        """Write the file; where that fails, note what is missing, and let pytest not say that it is there."""
        self.report.logfile = self.named
        try:
            with os.fdopen(self.memory, "rb") as file:
                writing.write_given(Path(self.named), file.read())
        except OSError as error:
            outcomes_of(config).missing.append(f"JUnit's file cannot be written: {with_cure(error)}")
            config.pluginmanager.unregister(self.report)
            del config.stash[xml_key]


_FILE = pytest.StashKey[JUnitFile]()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    report = config.stash.get(xml_key, None)
    if report is not None:
        memory = os.memfd_create("junit")
        config.stash[_FILE] = JUnitFile(report, memory, report.logfile)
        report.logfile = f"/proc/self/fd/{memory}"
    benchmarks = getattr(config, "_benchmarksession", None)
    if benchmarks is not None and benchmarks.json:
        benchmarks.save_json = _saving(config, benchmarks.json, benchmarks.save_json)


def _saving(config: pytest.Config, path: str, save: Callable[[Any], None]) -> Callable[[Any], None]:
    """pytest-benchmark's way to write the file of `--benchmark-json`, which notes where it cannot."""

    def save_json(content: Any) -> None:
        try:
            writing.make_folder(Path(path).parent)
            save(content)
        except OSError as error:
            named = OSError(error.errno, error.strerror, path)
            outcomes_of(config).missing.append(
                f"pytest-benchmark's file cannot be written: {with_cure(named)}"
            )

    return save_json


def pytest_sessionfinish(session: pytest.Session) -> None:
    # Called after pytest's own, which is registered later, and before the exit status is found, by a plugin named earlier.
    if (file := session.config.stash.get(_FILE, None)) is not None:
        file.write(session.config)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for sentence in outcomes_of(config).missing:
        terminalreporter.write_line(sentence)
