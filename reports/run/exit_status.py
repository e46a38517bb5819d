"""The exit status of a run: pytest's own, in which 1 (tests failed) is replaced by a status for the kind of failure."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from reports.record.arguments import ACCURACY, INPUT, LEAK, SPEED, UNREADABLE
from reports.run.outcomes import Failure, Outcomes, is_worker, outcomes_of

STATUS = {"input": INPUT, "speed": SPEED, "infrastructure": LEAK, "accuracy": ACCURACY}
"""The status of a run whose tests failed, by the kind of failure. Of several kinds the highest counts, so that a failure
that may be gone in the next run (speed), or samples of another model that cannot be used (input), never hide one that is the
model's own (accuracy)."""


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if not is_worker(session.config):
        outcomes = outcomes_of(session.config)
        session.exitstatus = outcomes.status = status_of(exitstatus, outcomes)


def status_of(own: int, outcomes: Outcomes) -> int:
    """The exit status for pytest's `own` and the outcomes. A run whose tests were all skipped has proven nothing: its status
    is 5, as if no test had been selected. A file that was asked for and is missing counts as a broken machine does."""
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


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the reason for the exit status, where it is not pytest's own."""
    if sentence := status_sentence(outcomes_of(config)):
        terminalreporter.write_line(sentence)


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
        return f"exit status {status}: ended before its end, so that it has proven what is shown here and no more"
    if status == pytest.ExitCode.NO_TESTS_COLLECTED and outcomes.skipped:
        return (
            f"exit status {status}: nothing was proven, all of {outcomes.skipped.total()} tests were skipped"
        )
    return ""


def worst_first(failures: Sequence[Failure]) -> list[Failure]:
    """The failures that decide the exit status first."""
    return sorted(failures, key=lambda failure: STATUS[failure.kind], reverse=True)
