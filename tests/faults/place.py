"""The scenarios' form, and the place of one: folders, runs of the suite, and what these leave."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from reports.record import files
from reports.record.schema import Record
from reports.run import STATUS
from tests.helpers import ROOT, Household, command_line
from tests.whole_runs.suite import command

PASSED, ENDED, REFUSED = 0, 2, 4
INFRASTRUCTURE = STATUS["infrastructure"]
HANG_S = 240.0
"""Bounds a hang: the awaited events take seconds, a minute on a machine where another run measures."""
GONE_S = 30.0
"""Seconds for all processes of a run to disappear: servers get time to end before they are killed."""
REPOSITORY = "the scenario's repository"
"""Stands for the path of a Triton repository with `doubler`, and `slow`, which takes a fifth of a second."""
MODEL = "the scenario's model"
"""Stands for the path of a file of this project's models: tests/faults/classifier.py."""
_OF_DOUBLER = ("-v", "--triton", "embedded", "--repository", REPOSITORY, "-k")
PROOF = (*_OF_DOUBLER, "doubler and same_answer_again")
"""A run that proves one model as it is, without a framework: some three seconds of one core."""
SLOW_PROOF = (*_OF_DOUBLER, "slow and same_answer_again")
ONE_POINT = (*_OF_DOUBLER, "slow and b001-c002", "--concurrencies", "2")
"""A run that measures one point of load."""
OWN = "cpu-classifier-onnx-fp32"
"""The converted case."""
_OF_OWN = ("-v", "--models", MODEL, "-k")
OWN_SERVED = (*_OF_OWN, f"{OWN} and (conversion or accuracy)")
"""A run that converts it, serves it, and scores its 100 samples several times, two seconds each."""
OWN_POINT = (*_OF_OWN, f"{OWN} and b001-c002", "--concurrencies", "2")
"""A run that measures one point of its load."""
SLOW = "cpu-slow-asis"


@dataclass(frozen=True)
class ProgramResult:
    """The end of a run."""

    status: int
    """The exit status, or minus the number of the signal that ended it."""
    text: str
    """Its output, errors included."""


@dataclass
class Place:
    """The folders of a scenario, and the runs that it starts. No other scenario uses them."""

    folder: Path
    household: Household
    builds: Path
    """The folder of converted models that all scenarios copy."""
    repository: Path
    """A Triton repository that all scenarios share."""
    model: Path
    """The file of a model that all scenarios share."""
    runs: "list[subprocess.Popen[bytes]]" = field(default_factory=list)
    quiet: bool = False
    """Whether a Python traceback is allowed, as when the interpreter itself cannot start."""

    @property
    def results(self) -> Path:
        """The folder of records."""
        return self.folder / "results"

    @property
    def repos(self) -> Path:
        """The folder of converted models, at first a copy of the shared one."""
        repos = self.folder / "repos"
        if not repos.exists():
            shutil.copytree(self.builds, repos)
        return repos

    @property
    def build(self) -> Path:
        """The folder of the converted model of this project's own case."""
        return self.repos / "cpu" / OWN

    @property
    def log(self) -> Path:
        """The output of the last run."""
        return self._log(len(self.runs))

    def _log(self, number: int) -> Path:
        return self.folder / f"log-{number}"

    def file(self, name: str, content: str) -> Path:
        """Write a file of the scenario, and return its path."""
        path = self.folder / name
        path.write_text(content)
        return path

    def command(self, *options: str) -> list[str]:
        """The command line of a run with these options, which have the real paths."""
        paths = {REPOSITORY: str(self.repository), MODEL: str(self.model)}
        return command(*(paths.get(word, word) for word in options), repos=self.repos, results=self.results)

    def start(
        self,
        *options: str,
        before: Sequence[str] = (),
        words: Sequence[str] | None = None,
        environment: Mapping[str, str | None] = {},
        folder: Path = ROOT,
        stdout: int | None = None,
    ) -> "subprocess.Popen[bytes]":
        """Start a run of the suite with these options, or the command `words`, by the program `before`; a
        variable of None is unset."""
        number = len(self.runs) + 1
        run = self.household.start(
            [*before, *(words or self.command(*options))],
            self._log(number),
            cwd=folder,
            stdout=stdout,
            **environment,
        )
        self.runs.append(run)
        return run

    def wait_for(self, there: Callable[[], bool], what: str, seconds: float = HANG_S) -> None:
        """Wait until `there` holds. Raises AssertionError with the log if it does not in time."""
        deadline = time.monotonic() + seconds
        while not there():
            text = self.log.read_text(errors="replace")
            assert time.monotonic() < deadline, f"{what} does not come:\n{text}"
            ended = self.runs[-1].poll()
            assert ended is None or there(), f"ended with {ended} before {what}:\n{text}"
            time.sleep(0.02)

    def says(self, pattern: str, seconds: float = HANG_S) -> None:
        """Wait until the run's output matches a pattern."""
        self.wait_for(
            lambda: re.search(pattern, self.log.read_text(errors="replace")) is not None, pattern, seconds
        )

    def ends(self, seconds: float = HANG_S) -> ProgramResult:
        """Wait for the end of the last run."""
        try:
            status = self.runs[-1].wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"hangs:\n{self.log.read_text(errors='replace')}") from None
        return ProgramResult(status, self.log.read_text(errors="replace"))

    def run(self, *options: str, seconds: float = HANG_S, **how: Any) -> ProgramResult:
        """Run the suite, or other `words`, to the end."""
        self.start(*options, **how)
        return self.ends(seconds)

    def process(self, part: str) -> psutil.Process:
        """Wait for a process of this scenario with `part` in its command line, and return it."""
        matching: list[psutil.Process] = []

        def there() -> bool:
            matching[:] = [
                process
                for process in self.household.processes()
                if any(part in word for word in command_line(process)[:4]) and process.pid != os.getpid()
            ]
            return bool(matching)

        self.wait_for(there, part)
        return matching[0]

    def record(self, case: str) -> Record:
        """The record of a case."""
        return files.read(self.results / "cpu" / f"{case}.json")


def leftovers(temporary: Path) -> list[str]:
    """What is left in a temporary folder, except this user's folder with libraries but no runs."""
    expected = re.compile(r"tritonproof-\d+$|pytest-of-|torchinductor_")
    others = [path for path in temporary.iterdir() if not expected.match(path.name)]
    return sorted(path.name for path in (*others, *folders_of_runs(temporary)))


def folders_of_runs(temporary: Path) -> list[Path]:
    """The folders of runs in a temporary folder."""
    return list(temporary.glob("tritonproof-*/runs/*"))


@dataclass(frozen=True)
class Scenario:
    """One fault, or one bad use."""

    name: str
    """What happens."""
    act: Callable[[Place], ProgramResult]
    """Does it, and returns how the run ended. Raises AssertionError if it left something wrong."""
    statuses: tuple[int, ...]
    """The right exit statuses."""
    needs: Callable[[], str] = lambda: ""
    """Why this machine cannot do it; empty if it can."""
    may_leave: bool = False
    """Whether something may stay in the temporary folder for the next run, as after a guard was killed."""

    def __str__(self) -> str:
        return self.name
