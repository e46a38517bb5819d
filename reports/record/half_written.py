"""Files beside records while they are written, under names of their own; what a killed run left of them goes.

It needs the standard library alone.
"""

import contextlib
import os
import re
import stat
import uuid
from pathlib import Path
from typing import BinaryIO

_NAME = re.compile(r"\..+-[0-9a-f]{32}\.tmp")


def begun(path: Path) -> tuple[Path, BinaryIO]:
    """A new file beside `path`, open for writing and locked for as long as it is; it is no record until it is renamed."""
    while True:
        temporary = path.with_name(f".{path.stem}-{uuid.uuid4().hex}.tmp")
        file = temporary.open("xb")
        with contextlib.suppress(ImportError, OSError):  # without locks nobody removes it either
            _lock(file.fileno())
        if temporary.exists():
            return temporary, file
        file.close()  # who removes what is not locked was faster


def found(results: Path) -> list[Path]:
    """The files below a results folder, of this user's, that no process writes any more."""
    return [path for path in _candidates(results) if _is_left(path, remove=False)]


def remove(results: Path) -> list[Path]:
    """Remove what `found` finds; returns it."""
    return [path for path in _candidates(results) if _is_left(path, remove=True)]


def _candidates(results: Path) -> list[Path]:
    return sorted(path for path in results.glob("*/.*.tmp") if _NAME.fullmatch(path.name))


def _is_left(path: Path, *, remove: bool) -> bool:
    with contextlib.suppress(ImportError, OSError):  # written right now, gone meanwhile, or not ours
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
                return False
            _lock(descriptor)
            if remove:
                path.unlink()
            return True
        finally:
            os.close(descriptor)
    return False


def _lock(descriptor: int) -> None:
    """Lock an open file; raises BlockingIOError where another process holds it, ImportError on a system without."""
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
