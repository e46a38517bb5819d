"""Files and folders that are written whole or not at all, and what a killed run left of that.

It needs the standard library alone.
"""

import contextlib
import errno
import fcntl
import functools
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

_LONGEST_STEM = 40  # of a name's characters, so that a temporary name is never too long for a file system
_TEMPORARY = re.compile(r"\..*-[0-9a-f]{32}\.tmp", re.DOTALL)
_STANDS_FOR_ANOTHER = ("/dev", "/proc")
"""Folders whose entries are names for something else, such as /dev/stdout for the file that a shell writes to."""


def replace(path: Path, content: bytes) -> None:
    """Write `content` so that a reader, or a kill at any moment, sees the old file or the new one, whole.

    What is there and is no regular file, such as a symbolic link, is an OSError, and stays. What killed processes left
    unfinished in the folder is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _clean_once(path.parent.absolute())
    mode = _mode(path)
    descriptor, temporary = _temporary_file(path)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
            if mode is not None:
                os.fchmod(descriptor, mode)
            temporary.replace(path)  # under the lock, so that nobody takes it for a leftover
    finally:
        temporary.unlink(missing_ok=True)


def write_given(path: Path, content: bytes) -> None:
    """Write `content` to what a user named: a regular file as `replace` does, also where a symbolic link leads to it; to a
    pipe or a terminal, or /dev/null, without replacing it.

    An OSError for all else, such as a disk, and for a pipe that nobody reads.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    stands_for_another = any(
        Path(os.path.realpath(path.parent)).is_relative_to(folder) for folder in _STANDS_FOR_ANOTHER
    )
    if stat.S_ISREG(mode) and not stands_for_another:
        return replace(Path(os.path.realpath(path)), content)
    if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)):
        what = "a folder" if stat.S_ISDIR(mode) else "a device or a socket"
        raise OSError(errno.EINVAL, f"it is {what}, which no report is written to. Name a file", str(path))
    # Without O_NONBLOCK a pipe that nobody reads would be waited for without end.
    flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise OSError(errno.ENXIO, "it is a pipe that nobody reads", str(path)) from error
    with os.fdopen(descriptor, "wb") as file:
        os.set_blocking(descriptor, True)
        file.write(content)
    return None


@contextlib.contextmanager
def unfinished_folder(output: Path) -> Iterator[Path]:
    """A new folder beside `output` to gather files in, for its content to be put in place by renaming it; what is left of
    it afterwards is removed, and so are those of killed processes."""
    output.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(output.parent)
    while True:
        folder = _temporary_name(output)
        folder.mkdir()
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if _is_ours(descriptor, folder):
            break
        os.close(descriptor)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def leftovers(folder: Path) -> list[Path]:
    """What killed processes left unfinished in a folder: this user's temporary files and folders that no process holds."""
    return [path for path in _temporaries(folder) if _is_left(path, remove=False)]


def remove_leftovers(folder: Path) -> list[Path]:
    """Remove what `leftovers` finds; returns what is gone."""
    return [path for path in _temporaries(folder) if _is_left(path, remove=True)]


_clean_once = functools.cache(remove_leftovers)
"""A process that writes many files looks through their folder once."""


def _temporaries(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if _TEMPORARY.fullmatch(entry.name))
    except OSError:
        return []


def _is_left(path: Path, *, remove: bool) -> bool:
    """Whether nobody writes it any more, and with `remove` whether it is gone."""
    with contextlib.suppress(OSError):  # held, gone meanwhile, a link
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_uid != os.getuid():
                return False
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not remove:
                return True
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            return not path.exists()
        finally:
            os.close(descriptor)
    return False


def _mode(path: Path) -> int | None:
    """The permissions of the file that is to be replaced; None where there is none."""
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found):
        raise OSError(
            errno.EEXIST,
            "it is a symbolic link, a folder, or no regular file, which is never replaced. Move it away",
            str(path),
        )
    return stat.S_IMODE(found)


def _temporary_name(path: Path) -> Path:
    return path.with_name(f".{path.stem[:_LONGEST_STEM]}-{uuid.uuid4().hex}.tmp")


def _temporary_file(path: Path) -> tuple[int, Path]:
    """A new file beside `path`, locked for as long as its descriptor is open."""
    while True:
        temporary = _temporary_name(path)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        if _is_ours(descriptor, temporary):
            return descriptor, temporary
        os.close(descriptor)


def _is_ours(descriptor: int, path: Path) -> bool:
    """Lock what was just made; False where another process took it for a leftover before it was locked."""
    with contextlib.suppress(OSError):  # a file system without locks: nobody else gets one there either
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return path.exists()
