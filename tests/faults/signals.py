"""Signals to a run, and to each program that it starts; the next run removes what killed ones leave."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from configparser import ConfigParser
from functools import partial
from pathlib import Path

from tests.faults.place import (
    ENDED,
    INFRASTRUCTURE,
    ONE_POINT,
    OWN,
    OWN_POINT,
    PASSED,
    PROOF,
    SLOW,
    SLOW_PROOF,
    Place,
    ProgramResult,
    Scenario,
    folders_of_runs,
)
from tests.helpers import ROOT
from tests.whole_runs.suite import TRACE

_STAGES = {
    "converting": (("-v", "-k", f"{TRACE} and conversion"), "convert"),
    "evaluating": (SLOW_PROOF, "answers without labels"),
    "measuring": (
        (*ONE_POINT, "--precision-target", "0.01", "--point-budget-s", "60"),
        "measure online.*pass [2-9]",
    ),
}
"""The options of a run, and what it prints at the stage."""


def reach(place: Place, stage: str) -> None:
    """Start a run, and wait until it is at the stage."""
    options, announcement = _STAGES[stage]
    if stage == "converting":
        (place.folder / "repos").mkdir()  # nothing is converted yet
    place.start(
        *options, "--junit-xml", str(place.folder / "junit.xml"), "--summary", str(place.folder / "run.md")
    )
    place.says(announcement)
    if stage == "measuring":
        path = place.results / "cpu" / f"{SLOW}.json"
        place.wait_for(
            lambda: path.is_file() and '"unfinished"' in path.read_text(), "a record of the passes"
        )


def _interrupted(place: Place) -> ProgramResult:
    reach(place, "converting")
    place.runs[-1].send_signal(signal.SIGINT)
    ended = place.ends(90)
    assert (place.folder / "junit.xml").is_file(), ended.text
    assert "nded before its end" in (place.folder / "run.md").read_text()
    return ended


def _stopped(place: Place) -> ProgramResult:
    """The server does not answer for 20 s, and later the load generator for 5."""
    reach(place, "measuring")
    for program, seconds, later in (("tritonserver", 20, "[4-9]"), ("perf_analyzer", 5, "([7-9]|[0-9]{2})")):
        process = place.process(program)
        process.suspend()
        time.sleep(seconds)
        process.resume()
        place.says(f"pass {later}")
    place.runs[-1].send_signal(signal.SIGINT)
    return place.ends()


def _hangs(place: Place) -> ProgramResult:
    reach(place, "evaluating")
    place.process("tritonserver").suspend()
    return place.ends()


def _killed(place: Place, program: str) -> ProgramResult:
    reach(place, "evaluating")
    place.process(program).kill()
    return place.ends()


def _load_generator_killed(place: Place) -> ProgramResult:
    """The pass is repeated, and the record says so."""
    reach(place, "measuring")
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
    place.file(
        "tox.ini",
        "[testenv]\nskip_install = true\npackage = skip\npass_env = *\nallowlist_externals = *\n"
        f"change_dir = {ROOT}\n"
        + "".join(f"{key} = {value}\n" for key, value in timeouts.items())
        + f"commands = {shlex.join(words)}\n",
    )
    config = ["--root", str(place.folder), "-c", str(place.folder / "tox.ini")]
    place.start(words=[str(tox_program()), "run", "-e", "py", *config])
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
    reach(place, "evaluating")
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


SCENARIOS = [
    Scenario("Ctrl-C while converting", _interrupted, (ENDED,)),
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
    Scenario("server and load generator stop for a while when measuring", _stopped, (ENDED, INFRASTRUCTURE)),
]
