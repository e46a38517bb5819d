"""How the benchmarks of a run ended, collected from all workers, and the exit status."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reports.record.commands import ACCURACY, INPUT, LEAK, SPEED, UNREADABLE
from reports.text.labels import counted

ExitCode = pytest.ExitCode
STATUS = {"input": INPUT, "speed": SPEED, "infrastructure": LEAK, "accuracy": ACCURACY}
"""The status of a run whose tests failed, by the kind of failure. Of several kinds the highest counts: a
failure that the next run may not have (speed), or another model's unusable samples (input), never hide that
of the model itself (accuracy)."""


@dataclass(frozen=True)
class Failure:
    """A benchmark that failed, and its error."""

    kind: str
    """accuracy, speed, infrastructure or input: the property `failure` of the test."""
    name: str
    """The name of the test, with its case."""
    sentence: str
    """What was wrong, as the terminal shows it."""
    file: str | None
    """The test's file, relative to pytest's root; None if the worker ended with the test."""
    line: int | None
    """The line of the test in its file, counted from 1; None without a file."""


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
    """A sentence for each requested file that could not be written."""
    unreadable: Sequence[str] = ()
    """A sentence for each unreadable record, which the tables lack."""
    status: int = ExitCode.OK
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
    """The exit status for pytest's `own`, whose 1 (tests failed) becomes that of the kind of failure. A run
    whose tests were all skipped has proven nothing: its status is 5, as if it had selected no test. A missing
    file that the user requested counts like a broken machine."""
    kinds = {failure.kind for failure in outcomes.failures}
    if "input" in kinds and own == ExitCode.INTERRUPTED:
        own = ExitCode.TESTS_FAILED
    if outcomes.missing and own in (ExitCode.OK, ExitCode.TESTS_FAILED):
        kinds.add("infrastructure")
        own = ExitCode.TESTS_FAILED
    if own == ExitCode.TESTS_FAILED and kinds and not outcomes.others_failed:
        return max(STATUS[kind] for kind in kinds)
    if own == ExitCode.OK and outcomes.unreadable:
        return UNREADABLE
    if own == ExitCode.OK and outcomes.skipped and not outcomes.passed:
        return ExitCode.NO_TESTS_COLLECTED
    return own


def status_sentence(outcomes: Outcomes) -> str:
    """`exit status 12, accuracy: 2 failed for accuracy, 1 for speed`; empty for a status of pytest's own."""
    names = {code: name for name, code in STATUS.items()}
    status, detail = int(outcomes.status), ""
    if status in names and (outcomes.failures or outcomes.missing):
        counts = Counter(failure.kind for failure in worst_first(outcomes.failures))
        parts = [f"{count} failed for {kind}" for kind, count in counts.items()]
        if outcomes.missing:
            parts.append(f"{counted(len(outcomes.missing), 'file')} could not be written")
        detail = f", {names[status]}: {', '.join(parts)}"
    elif status == UNREADABLE:
        detail = f", records: {len(outcomes.unreadable)} of this run cannot be read"
    elif status == ExitCode.INTERRUPTED:
        detail = ": ended before its end, so that it has proven what is shown here and no more"
    elif status == ExitCode.NO_TESTS_COLLECTED and outcomes.skipped:
        detail = f": nothing was proven, all of {outcomes.skipped.total()} tests were skipped"
    return f"exit status {status}{detail}" if detail else ""
