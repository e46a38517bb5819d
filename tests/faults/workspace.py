"""The workspace of a faulty run: its folders and models, the runs that a test starts, what they may leave."""

import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.helpers import ROOT, Household, command_line, wait_until
from tests.whole_runs.suite import command
from tritonproof.record import Record, record_files

HANG_S = 240.0
"""Bounds a hang: the awaited events take seconds, a minute on a machine where another run measures."""
GONE_S = 30.0
"""Seconds for all processes of a run to disappear: servers get time to end before they are killed."""
_TRACE = r"Traceback \(most recent call last\)|INTERNALERROR|^E   [A-Za-z.]*(Error|Exception)\b"
"""What Python and pytest print of an unhandled error."""


@dataclass
class Workspace:
    """The folders of a test, and the runs that it starts. No other test uses them."""

    folder: Path
    household: Household
    runs: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    @property
    def results(self) -> Path:
        """The folder of records."""
        return self.folder / "results"

    @property
    def repos(self) -> Path:
        """The folder of converted models."""
        return self.folder / "repos"

    @property
    def text(self) -> str:
        """The output of the last run."""
        return (self.folder / f"log-{len(self.runs)}").read_text(errors="replace")

    def command(self, *options: str) -> list[str]:
        """The command line of a run with these options."""
        return command("-v", *options, repos=self.repos, results=self.results)

    def start(self, *options: str, words: Sequence[str] = (), **variables: str | None) -> None:
        """Start a run of the suite with these options, or the command `words`; a variable of None is unset."""
        log = self.folder / f"log-{len(self.runs) + 1}"
        self.runs.append(self.household.start(words or self.command(*options), log, cwd=ROOT, **variables))

    def wait_for(self, there: Callable[[], object], what: str) -> None:
        """Wait until `there` holds. Raises AssertionError, with the log, if it does not in time."""

        def come() -> object:
            ended = self.runs[-1].poll()
            result = there()
            assert result or ended is None, f"ended with {ended} before {what}:\n{self.text}"
            return result

        wait_until(come, HANG_S, lambda: f"{what} does not come:\n{self.text}")

    def says(self, pattern: str) -> None:
        """Wait until the run's output matches a pattern."""
        self.wait_for(lambda: re.search(pattern, self.text), pattern)

    def ends(self, *statuses: int, seconds: float = HANG_S) -> None:
        """Wait for the end of the last run. Raises AssertionError unless it ends with one of these statuses,
        if any, and without a traceback, and leaves neither processes nor temporary files."""
        try:
            status = self.runs[-1].wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"hangs:\n{self.text}") from None
        assert not statuses or status in statuses, self.text
        assert not re.search(_TRACE, self.text, re.MULTILINE), self.text
        assert self.household.left(GONE_S) == []
        assert leftovers(self.household.temporary) == []

    def process(self, name: str) -> psutil.Process:
        """Wait for a process of the run with `name` in its command line, and return it."""

        def matching() -> list[psutil.Process]:
            processes = self.household.processes()
            return [one for one in processes if any(name in word for word in command_line(one)[:4])]

        self.wait_for(matching, name)
        return matching()[0]

    def record(self, case_id: str) -> Record:
        return record_files.read(self.results / "cpu" / f"{case_id}.json")


def leftovers(temporary: Path) -> list[str]:
    """What is left in a temporary folder, except this user's folder with libraries but no runs."""
    expected = re.compile(r"tritonproof-\d+$|pytest-of-|torchinductor_")
    others = [path for path in temporary.iterdir() if not expected.match(path.name)]
    return sorted(path.name for path in (*others, *temporary.glob("tritonproof-*/runs/*")))


def files_in_checkout() -> set[Path]:
    """The files of the checkout's root that a run might leave there."""
    return {path for path in ROOT.iterdir() if not path.name.startswith((".", "__pycache__"))}
