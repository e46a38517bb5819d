"""How the benchmarks of a run ended, collected from all workers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Failure:
    """A benchmark that failed, with what its error says."""

    kind: str
    """accuracy, speed, infrastructure or input: the property `failure` of the test."""
    name: str
    """The name of the test, with its case."""
    sentence: str
    """What was wrong, as the terminal shows it."""
    file: str | None
    """The test's file, relative to pytest's root; None where the worker ended with the test."""
    line: int | None
    """The line of the test in its file, counted from 1; None where there is no file."""


@dataclass(eq=False)
class Outcomes:
    """A plugin of pytest that collects the outcomes of the benchmarks."""

    failures: list[Failure] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """How many tests were skipped for each reason."""
    passed: int = 0
    others_failed: bool = False
    """Whether a test failed that is no benchmark."""
    missing: list[str] = field(default_factory=list)
    """A sentence for each file that was asked for and could not be written."""
    unreadable: Sequence[str] = ()
    """A sentence for each record of the run that its tables lack, as it cannot be read."""
    status: int = pytest.ExitCode.OK
    """The exit status of the run, once it has ended."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if Path(report.nodeid.partition("::")[0]).parent.name != "benchmarks":
            self.others_failed |= report.failed
        elif report.failed:
            self.failures.append(_failure(report))
        elif report.skipped and isinstance(report.longrepr, tuple):
            self.skipped[report.longrepr[2].removeprefix("Skipped: ")] += 1
        elif report.when == "call" and report.passed:
            self.passed += 1


_OUTCOMES = pytest.StashKey[Outcomes]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_OUTCOMES] = Outcomes()
    config.pluginmanager.register(config.stash[_OUTCOMES], "tritonproof-outcomes")


def outcomes_of(config: pytest.Config) -> Outcomes:
    """The session's outcomes so far."""
    return config.stash[_OUTCOMES]


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is a worker of xdist, which knows the outcomes of its own tests only."""
    return hasattr(config, "workerinput")


def _failure(report: pytest.TestReport) -> Failure:
    crash = getattr(report.longrepr, "reprcrash", None)
    file, line, _ = report.location
    kinds = (str(value) for name, value in report.user_properties if name == "failure")
    return Failure(
        kind=next(kinds, "infrastructure"),
        name=report.nodeid.partition("::")[2],
        sentence=crash.message if crash is not None else str(report.longrepr),
        file=None if line is None else file,
        line=None if line is None else line + 1,
    )
