"""The scenarios and the place of one: signals to a run and to each program that it starts, after which the next run
removes what killed ones leave; an empty environment, and a full disk."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from configparser import ConfigParser
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from reports.record import files
from reports.record.schema import Record
from reports.run import STATUS
from tests import own_machine
from tests.helpers import ROOT, Household, command_line
from tests.whole_runs.suite import command

PASSED, ENDED = 0, 2
INFRASTRUCTURE = STATUS["infrastructure"]
HANG_S = 240.0
"""Bounds a hang: the awaited events take seconds, a minute on a machine where another run measures."""
GONE_S = 30.0
"""Seconds for all processes of a run to disappear: servers get time to end before they are killed."""
REPOSITORY = "the scenario's repository"
"""Stands for the path of a Triton repository with `doubler`, and `slow`, which takes a fifth of a second."""
MODEL = "the scenario's model"
"""Stands for the path of a file of this project's models: tests/classifier.py."""
_OF_DOUBLER = ("-v", "--triton", "embedded", "--repository", REPOSITORY, "-k")
PROOF = (*_OF_DOUBLER, "doubler and same_answer_again")
"""A run that proves one model as it is, without a framework: some three seconds of one core."""
SLOW_PROOF = (*_OF_DOUBLER, "slow and same_answer_again")
ONE_POINT = (*_OF_DOUBLER, "slow and b001-c002", "--concurrencies", "2")
"""A run that measures one point of load."""
OWN = "cpu-classifier-onnx-fp32"
"""The converted case."""
OWN_POINT = ("-v", "--models", MODEL, "-k", f"{OWN} and b001-c002", "--concurrencies", "2")
"""A run that converts it, and measures one point of its load."""
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
    def log(self) -> Path:
        """The output of the last run."""
        return self._log(len(self.runs))

    def _log(self, number: int) -> Path:
        return self.folder / f"log-{number}"

    def command(self, *options: str) -> list[str]:
        """The command line of a run with these options, which have the real paths."""
        paths = {REPOSITORY: str(self.repository), MODEL: str(self.model)}
        return command(*(paths.get(word, word) for word in options), repos=self.repos, results=self.results)

    def start(
        self,
        *options: str,
        words: Sequence[str] | None = None,
        environment: Mapping[str, str | None] = {},
    ) -> "subprocess.Popen[bytes]":
        """Start a run of the suite with these options, or the command `words`; a variable of None is
        unset."""
        number = len(self.runs) + 1
        run = self.household.start(
            words or self.command(*options), self._log(number), cwd=ROOT, **environment
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

    def __str__(self) -> str:
        return self.name


_STAGES = {
    "evaluating": (SLOW_PROOF, "answers without labels"),
    "measuring": (
        (*ONE_POINT, "--precision-target", "0.01", "--point-budget-s", "60"),
        "measure online.*pass [2-9]",
    ),
}
"""The options of a run, and what it prints at the stage."""


def _reach(place: Place, stage: str) -> None:
    """Start a run, and wait until it is at the stage."""
    options, announcement = _STAGES[stage]
    place.start(*options)
    place.says(announcement)
    if stage == "measuring":
        path = place.results / "cpu" / f"{SLOW}.json"
        place.wait_for(
            lambda: path.is_file() and '"unfinished"' in path.read_text(), "a record of the passes"
        )


def _hangs(place: Place) -> ProgramResult:
    _reach(place, "evaluating")
    place.process("tritonserver").suspend()
    return place.ends()


def _killed(place: Place, program: str) -> ProgramResult:
    _reach(place, "evaluating")
    place.process(program).kill()
    return place.ends()


def _load_generator_killed(place: Place) -> ProgramResult:
    """The pass is repeated, and the record says so."""
    _reach(place, "measuring")
    place.process("perf_analyzer").kill()
    ended = place.ends()
    (load,) = place.record(SLOW).loads
    assert "damaged-passes" in [mark.code for mark in load.marks]
    return ended


def _tox(place: Place) -> ProgramResult:
    """A run through the real tox, with the timeouts of this project's tox.ini."""
    project = ConfigParser()
    project.read(ROOT / "tox.ini")
    timeouts = {key: project["testenv"][key] for key in ("interrupt_timeout", "terminate_timeout")}
    words = place.command(*SLOW_PROOF, "--junit-xml", str(place.folder / "junit.xml"))
    config = place.folder / "tox.ini"
    config.write_text(
        "[testenv]\nskip_install = true\npackage = skip\npass_env = *\nallowlist_externals = *\n"
        f"change_dir = {ROOT}\n"
        + "".join(f"{key} = {value}\n" for key, value in timeouts.items())
        + f"commands = {shlex.join(words)}\n",
    )
    options = ["-e", "py", "--root", str(place.folder), "-c", str(config)]
    place.start(words=[str(tox_program()), "run", *options])
    place.says("answers without labels")
    os.killpg(place.runs[-1].pid, signal.SIGINT)
    place.ends(90)
    assert place.household.left(60) == [], "processes are left"
    text = place.log.read_text(errors="replace")
    assert (place.folder / "junit.xml").is_file(), text
    assert "interrupted, so only" in text, text
    return ProgramResult(ENDED, text)


def tox_program() -> Path | None:
    """The program tox: beside this Python, else on PATH."""
    beside_python = Path(sys.executable).with_name("tox")
    on_path = shutil.which("tox")
    return beside_python if beside_python.exists() else Path(on_path) if on_path else None


def _next_run_cleans(place: Place) -> ProgramResult:
    _reach(place, "evaluating")
    for process in place.household.processes():
        process.kill()  # the guards too
    place.runs[-1].wait()
    assert place.household.left(10) == [], "killed processes are still there"
    ended = place.run(*PROOF)
    assert not folders_of_runs(place.household.temporary)
    return ended


def _comparison_killed(place: Place) -> ProgramResult:
    """The next comparison removes its worktree and its unfinished folder."""
    options = (*OWN_POINT, "--against", "HEAD", "--point-budget-s", "2")
    place.start(*options)
    place.says("against HEAD .*: ")
    time.sleep(2)
    place.runs[-1].kill()
    place.runs[-1].wait()
    place.household.left(30)
    ended = place.run(*options, seconds=600)  # a second build
    assert not [*place.repos.glob("*unfinished*"), *place.repos.glob(".against/*unfinished*")]
    worktrees = subprocess.run(
        ["git", "worktree", "list"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert str(place.repos) not in worktrees, "a worktree is left"
    assert place.record(OWN).loads
    return ended


def _bare_environment(place: Place) -> ProgramResult:
    c_locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    return place.run(*PROOF, environment={"PATH": "", "HOME": None, **c_locale})


def _needs_own_memory() -> str:
    return "" if own_machine.enter() else "needs root, and a kernel that lets it mount"


def _disk_fills(place: Place) -> ProgramResult:
    """The disk is full when a record is written again; the record from before stays readable."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place.results)], check=True)
    try:
        _reach(place, "measuring")
        subprocess.run(
            ["sh", "-c", "cat /dev/zero > full"], cwd=place.results, stderr=subprocess.DEVNULL, check=False
        )
        time.sleep(3)
        place.runs[-1].send_signal(signal.SIGINT)
        ended = place.ends()
        assert place.record(SLOW).loads, "what was measured before is gone"
    finally:
        subprocess.run(["umount", "--lazy", str(place.results)], check=True)
    return ended


_FULL = (ENDED, -signal.SIGINT, INFRASTRUCTURE)
"""Ended by Ctrl-C, or by the signal itself if it comes between the end of the run and that of its process; or
failed before it came."""
SCENARIOS = [
    Scenario(
        "Ctrl-C in the terminal of tox", _tox, (ENDED,), needs=lambda: "" if tox_program() else "needs tox"
    ),
    *(
        Scenario(f"SIGKILL to {program}", partial(_killed, program=program), (INFRASTRUCTURE,))
        for program in ("tritonserver", "triton_python_backend_stub")
    ),
    Scenario("SIGKILL to the load generator while measuring", _load_generator_killed, (PASSED,)),
    Scenario("SIGKILL to the guards too; the next run cleans up", _next_run_cleans, (PASSED,)),
    Scenario("SIGKILL while comparing with a commit", _comparison_killed, (PASSED, 10)),
    Scenario("the server stops for good while evaluating", _hangs, (INFRASTRUCTURE,)),
    Scenario("an empty PATH, no HOME, and the locale C", _bare_environment, (PASSED,)),
    Scenario("the disk is full when a record is written", _disk_fills, _FULL, _needs_own_memory),
]
