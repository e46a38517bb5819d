"""What goes wrong around a run while it is under way: files that go or fill up, clocks, and who holds the machine."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from reports.record import files
from tests.faults.place import OWN, OWN_POINT, OWN_SERVED, PROOF, SLOW_PROOF, Ended, Place
from tests.faults.scenario import ENDED, INFRASTRUCTURE, PASSED, REFUSED, Scenario
from tests.faults.signals import reach
from tests.whole_runs.suite import ROOT

_FAILED = (INFRASTRUCTURE, REFUSED)
_INTERRUPTED = (ENDED, -signal.SIGINT)
"""Ended by a Ctrl-C; by the signal itself where that comes when the run has ended and its process has not."""


def _gone(name: str, options: tuple[str, ...], said: str, what: Callable[[Place], Path]) -> Scenario:
    """What a run needs is deleted while it evaluates."""

    def act(place: Place) -> Ended:
        place.start(*options)
        place.says(said)
        shutil.rmtree(what(place))
        return place.ends()

    return Scenario(f"{name} is deleted in mid-run", act, (PASSED, *_FAILED))


def _temporary_gone(place: Place) -> Ended:
    """The temporary folder is deleted while a run measures, which is told to end a while after."""
    reach(place, "measuring")
    shutil.rmtree(place.household.temporary, ignore_errors=True)  # the run may put something there meanwhile
    with contextlib.suppress(subprocess.TimeoutExpired):
        place.runs[-1].wait(8)
    place.runs[-1].send_signal(signal.SIGINT)
    ended = place.ends()
    place.household.temporary.mkdir(exist_ok=True)
    return ended


def _hold(place: Place, seconds: float) -> int:
    """The process id of another run that holds the machine for so long."""
    holder = place.start(
        words=[
            sys.executable,
            "-c",
            "import time\nfrom fixtures.host import locks\n"
            f"with locks.hold_machine(exclusive=True):\n    print('held', flush=True)\n    time.sleep({seconds})\n",
        ],
    )
    place.says("held")
    return holder.pid


def _holder_is_killed(place: Place) -> Ended:
    """Who is waited for is killed, and the run goes on."""
    holder = _hold(place, 600)
    place.start(*PROOF)
    place.says(f"process {holder}", 60)
    os.kill(holder, signal.SIGKILL)
    return place.ends()


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
    Scenario("a comparison with a commit is killed", _comparison_killed, (PASSED, 10)),
    _gone("the build", OWN_SERVED, "evaluate through Triton", lambda place: place.build),
    _gone("the folder of records", SLOW_PROOF, "answers without labels", lambda place: place.results),
    Scenario(
        "the temporary folder is deleted while it measures",
        _temporary_gone,
        (*_INTERRUPTED, *_FAILED),
        may_leave=True,
    ),
    Scenario("another run holds the machine and is killed", _holder_is_killed, (PASSED,)),
]
