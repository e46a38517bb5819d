"""Killed runs: the next run removes what they leave."""

import subprocess
import time
from pathlib import Path

from reports.record import files
from tests.faults.place import OWN, OWN_POINT, PROOF, Ended, Place, folders_of_runs
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


def _folders(*paths: Path) -> set[str]:
    return {path.name for folder in paths if folder.is_dir() for path in folder.iterdir()}


def _comparison_killed(place: Place) -> Ended:
    """The next comparison removes its worktree and its unfinished folder."""
    options = (*OWN_POINT, "--against", "HEAD", "--point-budget-s", "2")
    place.start(*options)
    place.says("against HEAD .*: ")
    time.sleep(2)
    place.runs[-1].kill()
    place.runs[-1].wait()
    place.household.left(30)
    ended = place.run(*options, seconds=600)  # a second build
    assert not [name for name in _folders(place.repos, place.repos / ".against") if "unfinished" in name]
    worktrees = subprocess.run(
        ["git", "worktree", "list"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert str(place.repos) not in worktrees, "a worktree is left"
    assert files.read(place.results / "cpu" / f"{OWN}.json").loads
    return ended


SCENARIOS = [
    Scenario("SIGKILL to the guards too; the next run cleans up", _next_run_cleans, (PASSED,)),
    Scenario("a comparison with a commit is killed", _comparison_killed, (PASSED, 10)),
]
