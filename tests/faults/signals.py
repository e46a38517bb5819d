"""Signals at every stage of a run: to pytest, and to each program that it starts."""

import os
import shlex
import shutil
import signal
import sys
import time
from configparser import ConfigParser
from pathlib import Path

from tests.faults.place import (
    ONE_POINT,
    SLOW,
    SLOW_PROOF,
    Ended,
    Place,
)
from tests.faults.scenario import ENDED, INFRASTRUCTURE, PASSED, Scenario
from tests.whole_runs.suite import ROOT, TRACE, command

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


def _ended(stage: str, sign: signal.Signals) -> Scenario:
    def act(place: Place) -> Ended:
        reach(place, stage)
        place.runs[-1].send_signal(sign)
        ended = place.ends(90)
        if sign == signal.SIGINT:
            assert (place.folder / "junit.xml").is_file(), ended.text
            assert "nded before its end" in (place.folder / "run.md").read_text()
        if stage == "measuring":
            (load,) = place.record(SLOW).loads
            assert load.marks[0].code == "unfinished"
        return ended

    statuses = (ENDED,) if sign == signal.SIGINT else (-sign,)
    return Scenario(f"{sign.name} to pytest while {stage}", act, statuses, may_leave=sign == signal.SIGKILL)


def _stopped(victim: str, program: str, seconds: float) -> Scenario:
    def act(place: Place) -> Ended:
        reach(place, "measuring")
        process = place.process(program)
        process.suspend()
        time.sleep(seconds)
        process.resume()
        place.says("pass [4-9]|pass [0-9]{2}")
        place.runs[-1].send_signal(signal.SIGINT)
        return place.ends()

    return Scenario(f"{victim} is stopped for {seconds:g} s while measuring", act, (ENDED, INFRASTRUCTURE))


def _hangs(place: Place) -> Ended:
    reach(place, "evaluating")
    place.process("tritonserver").suspend()
    return place.ends()


def _killed(victim: str, program: str, stage: str) -> Scenario:
    def act(place: Place) -> Ended:
        reach(place, stage)
        place.hit(program, signal.SIGKILL)
        return place.ends()

    return Scenario(f"SIGKILL to {victim} while {stage}", act, (INFRASTRUCTURE,))


def _load_generator_killed(place: Place) -> Ended:
    """The pass is repeated, and the record says so."""
    reach(place, "measuring")
    place.hit("perf_analyzer", signal.SIGKILL)
    ended = place.ends()
    (load,) = place.record(SLOW).loads
    assert "damaged-passes" in [mark.code for mark in load.marks]
    return ended


def _tox(place: Place) -> Ended:
    """A run through the real tox, with the timeouts of this project's tox.ini."""
    project = ConfigParser()
    project.read(ROOT / "tox.ini")
    timeouts = {key: project["testenv"][key] for key in ("interrupt_timeout", "terminate_timeout")}
    words = command(*place.words(SLOW_PROOF), repos=place.repos, results=place.results)
    words += ["--junit-xml", str(place.folder / "junit.xml")]
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
    assert "ended before its end" in text, text
    return Ended(ENDED, text)


def tox_program() -> Path | None:
    """The program tox: beside this Python, else on PATH."""
    beside_python = Path(sys.executable).with_name("tox")
    on_path = shutil.which("tox")
    return beside_python if beside_python.exists() else Path(on_path) if on_path else None


SCENARIOS = [
    _ended("converting", signal.SIGINT),
    _ended("measuring", signal.SIGINT),
    _ended("measuring", signal.SIGKILL),
    _killed("the stub of Triton's Python backend", "triton_python_backend_stub", "evaluating"),
    Scenario("SIGKILL to the load generator while measuring", _load_generator_killed, (PASSED,)),
    _killed("a guard", "guard.py", "evaluating"),
    Scenario("the server is stopped for good while evaluating", _hangs, (INFRASTRUCTURE,)),
    _stopped("the server", "tritonserver", 20),
    _stopped("the load generator", "perf_analyzer", 5),
    Scenario(
        "Ctrl-C in the terminal of tox", _tox, (ENDED,), needs=lambda: "" if tox_program() else "needs tox"
    ),
]
