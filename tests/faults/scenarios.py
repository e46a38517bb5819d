"""The scenarios: signals to a run and to each program that it starts, after which the next run removes what
killed ones leave; an empty environment, a full disk, and another user of the machine."""

import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from configparser import ConfigParser
from pathlib import Path

from tests import own_machine
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
from tests.whole_runs.suite import ROOT

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


def _stub_killed(place: Place) -> ProgramResult:
    _reach(place, "evaluating")
    place.process("triton_python_backend_stub").kill()
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


_ANOTHER_USER = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups")
"""Runs a command as a user who owns nothing."""


def _cannot_become_another() -> str:
    if os.getuid() != 0 or not shutil.which("setpriv"):
        return "needs root and the program setpriv"
    command = [*_ANOTHER_USER, sys.executable, "-c", "import pytest, fixtures"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    return "another user cannot read this environment" if done.returncode else ""


def _as_another_user(place: Place) -> ProgramResult:
    """A user who does not own the environment proves a case."""
    for path in place.folder.parents:
        if path.stat().st_uid == os.getuid() and not path.stat().st_mode & stat.S_IXOTH:
            path.chmod(0o711)
    for folder in (place.folder, place.household.temporary, place.repos, place.results):
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 12345, 12345)
    return place.run(*PROOF, before=_ANOTHER_USER, environment={"HOME": str(place.folder)})


_FULL = (ENDED, -signal.SIGINT, INFRASTRUCTURE)
"""Ended by Ctrl-C, or by the signal itself if it comes between the end of the run and that of its process; or
failed before it came."""
SCENARIOS = [
    Scenario(
        "Ctrl-C in the terminal of tox", _tox, (ENDED,), needs=lambda: "" if tox_program() else "needs tox"
    ),
    Scenario("SIGKILL to the stub of Triton's Python backend", _stub_killed, (INFRASTRUCTURE,)),
    Scenario("SIGKILL to the load generator while measuring", _load_generator_killed, (PASSED,)),
    Scenario("SIGKILL to the guards too; the next run cleans up", _next_run_cleans, (PASSED,)),
    Scenario("SIGKILL while comparing with a commit", _comparison_killed, (PASSED, 10)),
    Scenario("the server stops for good while evaluating", _hangs, (INFRASTRUCTURE,)),
    Scenario("an empty PATH, no HOME, and the locale C", _bare_environment, (PASSED,)),
    Scenario("the disk is full when a record is written", _disk_fills, _FULL, _needs_own_memory),
    Scenario("a user who does not own the environment", _as_another_user, (PASSED,), _cannot_become_another),
]
