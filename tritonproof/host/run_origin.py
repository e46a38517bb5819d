"""Which run of which commit on which machine a measurement belongs to."""

import contextlib
import functools
import os
import platform
import re
import uuid
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

from tritonproof.base.paths import IS_INSTALLED, SUITE
from tritonproof.host.machine import gpus
from tritonproof.host.process import ProgramError, run_program
from tritonproof.record.setup import Origin

RUN_VARIABLE = "TRITONPROOF_RUN"
"""The variable with the id of a run of several processes or machines; without it, each process makes one."""
STARTED_VARIABLE = "TRITONPROOF_RUN_STARTED"
"""The variable with the time when such a run began, in UTC, ISO 8601."""
HOST_VARIABLE = "TRITONPROOF_HOST"
"""The variable that names the machine if its network name does not, as in a container."""
COMMIT_VARIABLE = "TRITONPROOF_COMMIT"
"""The variable with the commit of a copy without git's folder; it ends in `-dirty` if the copy differs."""
DIRTY = "-dirty"


class RunIdentity(NamedTuple):
    """A run's id, and the time when it began, in UTC, ISO 8601."""

    id: str
    started: str


def origin(device: str, identity: RunIdentity) -> Origin:
    """Where a measurement of the run `identity` on "cpu" or "cuda" comes from."""
    commit, clean = commit_of(SUITE)
    uuids = () if device == "cpu" else tuple(gpu.uuid for gpu in gpus())
    return Origin(
        identity.id, os.environ.get(HOST_VARIABLE) or platform.node(), uuids, commit, clean, identity.started
    )


@functools.cache
def own_run() -> RunIdentity:
    """This process's run, or the one that the environment says it is part of."""
    started = os.environ.get(STARTED_VARIABLE) or datetime.now(timezone.utc).isoformat(timespec="seconds")
    return RunIdentity(os.environ.get(RUN_VARIABLE) or uuid.uuid4().hex, started)


@functools.cache
def commit_of(root: Path) -> tuple[str | None, bool | None]:
    """A checkout's commit, and whether its files are unchanged; both None if unknown, as in a wheel."""
    if named := os.environ.get(COMMIT_VARIABLE):
        return named.removesuffix(DIRTY), not named.endswith(DIRTY)
    if IS_INSTALLED:  # a repository around it is the user's
        return None, None
    command = ["git", "--no-optional-locks", "-C", str(root), "status", "--porcelain=v2", "--branch"]
    with contextlib.suppress(ProgramError):  # git is not installed
        text = run_program(command, limit_s=60).text
        if match := re.search(r"^# branch.oid ([0-9a-f]+)$", text, re.MULTILINE):
            return match.group(1), all(line.startswith("#") for line in text.splitlines())
    return None, None
