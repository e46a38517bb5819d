"""Runs by another user of the machine, which only root can start."""

import functools
import os
import stat
import subprocess
import sys

from tests.faults.place import Place
from tests.faults.scenario import program, root
from tests.whole_runs.suite import ROOT

BECOME = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups")
"""Runs a command as a user who owns nothing."""
_READS_ALL = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")


def become() -> tuple[str, ...]:
    """Runs a command as a user who owns nothing, and reads all if root's folders hide this environment."""
    return BECOME if _can(BECOME) else (*BECOME, *_READS_ALL)


def cannot_become() -> str:
    """Why a user who owns nothing cannot run the suite from this environment, or an empty text."""
    missing = root() or program("setpriv")()
    return missing or (
        "" if _can(BECOME) else "another user cannot read this environment, by the modes of its folders"
    )


def cannot_become_one_who_reads() -> str:
    """Why not even a user who reads all files can, or an empty text."""
    missing = root() or program("setpriv")()
    return missing or ("" if _can(become()) else "another user cannot use this environment")


@functools.cache
def _can(words: tuple[str, ...]) -> bool:
    command = [*words, sys.executable, "-c", "import pytest, fixtures"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0


def give(place: Place) -> None:
    """Let another user run in this place."""
    for path in place.folder.parents:
        if path.stat().st_uid == os.getuid() and not path.stat().st_mode & stat.S_IXOTH:
            path.chmod(0o711)
    for folder in (place.folder, place.household.temporary, place.repos, place.results):
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 12345, 12345)
