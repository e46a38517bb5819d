"""How the benchmarks of a run ended, collected from all workers, and the exit status that this comes to."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reports.record.arguments import ACCURACY, INPUT, LEAK, SPEED, UNREADABLE

STATUS = {"input": INPUT, "speed": SPEED, "infrastructure": LEAK, "accuracy": ACCURACY}
"""The status of a run whose tests failed, by the kind of failure. Of several kinds the highest counts, so
that a failure that may be gone in the next run (speed), or samples of another model that cannot be used
(input), never hide one that is the model's own (accuracy)."""


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


def worst_first(failures: Sequence[Failure]) -> list[Failure]:
    return sorted(failures, key=lambda failure: STATUS[failure.kind], reverse=True)


def status_of(own: int, outcomes: Outcomes) -> int:
    """The exit status for pytest's `own`, in which 1 (tests failed) is replaced by the kind of failure. A run
    whose tests were all skipped has proven nothing: its status is 5, as if no test had been selected. A file
    that was asked for and is missing counts as a broken machine does."""
    kinds = {failure.kind for failure in outcomes.failures}
    if "input" in kinds and own == pytest.ExitCode.INTERRUPTED:
        own = pytest.ExitCode.TESTS_FAILED
    if outcomes.missing and own in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        kinds.add("infrastructure")
        own = pytest.ExitCode.TESTS_FAILED
    if own == pytest.ExitCode.TESTS_FAILED and kinds and not outcomes.others_failed:
        return max(STATUS[kind] for kind in kinds)
    if own == pytest.ExitCode.OK and outcomes.unreadable:
        return UNREADABLE
    if own == pytest.ExitCode.OK and outcomes.skipped and not outcomes.passed:
        return pytest.ExitCode.NO_TESTS_COLLECTED
    return own


def status_sentence(outcomes: Outcomes) -> str:
    """`exit status 12, accuracy: 2 failed for accuracy, 1 for speed`; empty for a status of pytest's own."""
    names = {code: name for name, code in STATUS.items()}
    status = int(outcomes.status)
    if status in names and (outcomes.failures or outcomes.missing):
        counts = Counter(failure.kind for failure in outcomes.failures)
        kinds = sorted(counts, key=STATUS.__getitem__, reverse=True)
        parts = [f"{counts[kind]} failed for {kind}" for kind in kinds]
        if missing := len(outcomes.missing):
            parts.append(f"{missing} {'file' if missing == 1 else 'files'} could not be written")
        return f"exit status {status}, {names[status]}: {', '.join(parts)}"
    if status == UNREADABLE:
        return f"exit status {status}, records: {len(outcomes.unreadable)} of this run cannot be read"
    if status == pytest.ExitCode.INTERRUPTED:
        return (
            f"exit status {status}: ended before its end, so that it has proven what is shown here and no "
            "more"
        )
    if status == pytest.ExitCode.NO_TESTS_COLLECTED and outcomes.skipped:
        return (
            f"exit status {status}: nothing was proven, all of {outcomes.skipped.total()} tests were skipped"
        )
    return ""
