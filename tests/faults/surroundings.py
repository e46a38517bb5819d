"""What a run finds around it: folders, limits, terminals, clocks, and other programs on the machine."""

import functools
import os
import stat
import subprocess
import sys

from tests.faults.place import PROOF, Ended, Place
from tests.faults.scenario import INFRASTRUCTURE, PASSED, REFUSED, Scenario, program, root, root_and
from tests.whole_runs.suite import ROOT

_FAILED = (INFRASTRUCTURE, REFUSED)
BECOME = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups")
"""What runs a command as somebody who has nothing."""


def cannot_become() -> str:
    """Why nobody who has nothing can run the suite from this environment; empty where one can."""
    missing = root() or program("setpriv")()
    return missing or (
        "" if _can(BECOME) else "another user cannot read this environment, by the modes of its folders"
    )


@functools.cache
def _can(words: tuple[str, ...]) -> bool:
    asked = [*words, sys.executable, "-c", "import pytest, fixtures"]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, check=False).returncode == 0


def give(place: Place) -> None:
    """Let another user run in this place."""
    for path in place.folder.parents:
        if path.stat().st_uid == os.getuid() and not path.stat().st_mode & stat.S_IXOTH:
            path.chmod(0o711)
    for folder in (place.folder, place.household.temporary, place.repos, place.results):
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 12345, 12345)


def _mounted(name: str, script: str, statuses: tuple[int, ...]) -> Scenario:
    """What a file system of its own does, which no other process sees; `$HERE` is the scenario's folder."""

    def act(place: Place) -> Ended:
        place.repos.mkdir(exist_ok=True)
        place.results.mkdir(exist_ok=True)
        for folder in ("full", "tmp"):
            (place.folder / folder).mkdir()
        return place.run(
            *PROOF,
            before=("unshare", "--mount", "sh", "-c", f'{script}; exec "$@"', "sh"),
            environment={"HERE": str(place.folder), "TMPDIR": str(place.folder / "tmp")},
        )

    return Scenario(name, act, statuses, needs=_can_mount)


def _can_mount() -> str:
    if said := root_and("unshare")():
        return said
    done = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    )
    return "" if done.returncode == 0 else "must not mount a file system"


def _as_another_user(place: Place) -> Ended:
    """Who does not own the environment proves a case."""
    give(place)
    return place.run(*PROOF, before=BECOME, environment={"HOME": str(place.folder)})


def _with_environment(name: str, changes: dict[str, str | None]) -> Scenario:
    return Scenario(name, lambda place: place.run(*PROOF, environment=changes), (PASSED,))


SCENARIOS = [
    _with_environment("an empty PATH and no HOME", {"PATH": "", "HOME": None}),
    _with_environment("the locale C", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    _mounted(
        "TMPDIR is full",
        "mount -t tmpfs -o size=16k none $TMPDIR; head -c 99999 /dev/zero > $TMPDIR/full",
        (PASSED, *_FAILED),
    ),
    _mounted("/dev/shm has 1 MiB", "mount -t tmpfs -o size=1m none /dev/shm", (PASSED, *_FAILED)),
    Scenario("a user who does not own the environment", _as_another_user, (PASSED,), needs=cannot_become),
]
