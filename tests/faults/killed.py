"""Runs that are killed: what they leave goes with the next one."""

import os
import subprocess
import time
from pathlib import Path

from reports.record import files
from tests.faults.place import DOUBLER, MODEL, OWN, OWN_POINT, PROOF, Ended, Place, folders_of_runs
from tests.faults.scenario import PASSED, Scenario
from tests.faults.signals import reach
from tests.whole_runs.suite import ROOT


def _next_run_cleans(place: Place) -> Ended:
    reach(place, "evaluating")
    for process in place.household.processes():
        process.kill()  # the guards too
    place.runs[-1].wait()
    assert place.household.left(10) == [], "killed processes are still there"
    ended = place.run(*PROOF)
    assert not folders_of_runs(place.household.temporary)
    return ended


def _killed_while_a_record_is_written(place: Place) -> Ended:
    place.run(*PROOF)
    left = place.results / "cpu" / f".{DOUBLER}-0123456789abcdef0123456789abcdef.tmp"
    left.write_text("{")
    long_ago = time.time() - 86400
    os.utime(left, (long_ago, long_ago))
    ended = place.run(*PROOF)
    assert not left.exists(), "what a killed run left stays"
    return ended


def _killed_while_converting(place: Place) -> Ended:
    """The processes that convert end with the run, and the next run has what there is of their models."""
    (place.folder / "repos").mkdir()
    second = place.folder / "second"
    second.mkdir()
    for path in (place.model, place.model.with_suffix(".onnx")):
        (second / path.name).write_bytes(path.read_bytes())
    text = (second / place.model.name).read_text()
    (second / place.model.name).write_text(text.replace('name="classifier"', 'name="second"'))
    both = ("--models", MODEL, "--models", str(second / place.model.name))
    options = ("-v", *both, "-k", "onnx-fp32 and conversion")
    place.start(*options)
    place.says("models, 2 at once")
    time.sleep(1)
    place.runs[-1].kill()
    place.runs[-1].wait()
    assert place.household.left(30) == [], "a process that converts goes on"
    return place.run(*options)


def _folders(*paths: Path) -> set[str]:
    return {path.name for folder in paths if folder.is_dir() for path in folder.iterdir()}


def _comparison_killed(place: Place) -> Ended:
    """Its worktree and its unfinished folder are gone after the next comparison."""
    options = (*OWN_POINT, "--against", "HEAD", "--point-budget-s", "2")
    place.start(*options)
    place.says("against HEAD .*: ")
    time.sleep(2)
    place.runs[-1].kill()
    place.runs[-1].wait()
    place.household.left(30)
    ended = place.run(*options, seconds=600)  # a second build
    assert not [name for name in _folders(place.repos, place.repos / ".against") if "unfinished" in name]
    listed = subprocess.run(
        ["git", "worktree", "list"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert str(place.repos) not in listed, "a worktree is left"
    assert files.read(place.results / "cpu" / f"{OWN}.json").loads
    return ended


SCENARIOS = [
    Scenario("SIGKILL to the guards too; the next run cleans up", _next_run_cleans, (PASSED,)),
    Scenario("killed while it wrote a record", _killed_while_a_record_is_written, (PASSED,)),
    Scenario("killed while models are converted", _killed_while_converting, (PASSED,)),
    Scenario("a comparison with a commit is killed", _comparison_killed, (PASSED, 10)),
]
