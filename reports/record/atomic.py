"""Files and folders that are written whole or not at all, and the leftovers of killed runs."""

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
"""Folders whose entries stand for something else, such as /dev/stdout for the file that a shell writes to."""


def replace(path: Path, content: bytes) -> None:
    """Write `content` so that a reader, or a kill at any moment, sees the old file or the new one, whole.

    The new file keeps the permissions of the old one, and its owner if the process may give files away.
    Leftovers of killed processes in the folder are removed. An OSError names `path`, also for anything but a
    regular file there."""
    make_folder(path.parent)
    _clean_once(path.parent.absolute())
    with named(path):
        old = path.lstat() if os.path.lexists(path) else None
        if old is not None and not stat.S_ISREG(old.st_mode):
            raise OSError(
                errno.EEXIST, "it is no regular file, and is never replaced. Move it away", str(path)
            )
        descriptor, temporary = _locked(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(descriptor)
                if old is not None:
                    with contextlib.suppress(PermissionError):  # only root gives files away
                        os.fchown(descriptor, old.st_uid, old.st_gid)
                    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
                temporary.replace(path)  # under the lock, so that nobody takes it for a leftover
        finally:
            temporary.unlink(missing_ok=True)


def write_given(path: Path, content: bytes) -> None:
    """Write `content` to a user's path: a file as `replace` does, also behind a symbolic link; a pipe, a
    terminal or /dev/null in place. An OSError names `path`."""
    if path.exists() and not os.access(path, os.W_OK):  # the folder may let it be replaced
        raise PermissionError(errno.EACCES, "it may not be written to. Name another file", str(path))
    with named(path):
        if (path.is_file() and not stands_for_another(path)) or not path.exists():
            replace(Path(os.path.realpath(path)), content)
        else:
            with path.open("ab") as file:
                file.write(content)


def stands_for_another(path: Path) -> bool:
    """Whether a path, such as /dev/stdout, stands for something else, which is written to, never replaced."""
    return Path(os.path.realpath(path.parent)).as_posix().startswith(_STANDS_FOR_ANOTHER)


def make_folder(path: Path) -> None:
    """Make a folder and its parents; an OSError, which names `path`, if something else is there."""
    try:
        with named(path):
            path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        check_folder(path)  # which says what is there
        raise


def check_folder(path: Path) -> None:
    """Raise an OSError, which names `path`, if a folder cannot be written into; makes and writes nothing."""
    if (found := obstacle(path)) is not None:
        raise OSError(errno.ENOTDIR, f"it {found[1]}. Name another place", str(path))


def obstacle(folder: Path) -> tuple[Path, str] | None:
    """The path that prevents writing into a folder, which need not exist, and why; None if nothing does."""
    place = next(one for one in (folder, *folder.absolute().parents) if os.path.lexists(one))
    # Those of Path raise where they may not look.
    if not os.path.exists(place):  # noqa: PTH110
        return place, "is a symbolic link to nothing"
    if not os.path.isdir(place):  # noqa: PTH112
        return place, "is not a folder"
    return None if os.access(place, os.W_OK | os.X_OK) else (place, "may not be written to")


@contextlib.contextmanager
def named(path: Path) -> Iterator[None]:
    """Let a system's OSError name this file, not the temporary one or none."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextlib.contextmanager
def unfinished_folder(output: Path) -> Iterator[Path]:
    """A new folder beside `output`, to be renamed into place; what is left of it is removed afterwards."""
    make_folder(output.parent)
    remove_leftovers(output.parent)
    with named(output):
        descriptor, folder = _locked(output, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _locked(path: Path, flags: int) -> tuple[int, Path]:
    """A new file or folder beside `path`, locked while its descriptor is open."""
    while True:
        temporary = path.parent / f".{path.stem[:_LONGEST_STEM]}-{uuid.uuid4().hex}.tmp"
        if flags & os.O_DIRECTORY:
            temporary.mkdir()
        descriptor = os.open(temporary, flags | os.O_CLOEXEC, 0o666)
        with contextlib.suppress(OSError):  # a file system without locks: nobody else gets one there either
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if temporary.exists():
            return descriptor, temporary
        os.close(descriptor)  # another process took it for a leftover before it was locked


def remove_leftovers(folder: Path) -> list[Path]:
    """Remove this user's temporary files and folders that no process has locked; returns the removed ones."""
    try:
        found = sorted(entry for entry in folder.iterdir() if _TEMPORARY.fullmatch(entry.name))
    except OSError:
        return []
    return [path for path in found if _is_removed(path)]


_clean_once = functools.cache(remove_leftovers)
"""Once per process and folder."""


def _is_removed(path: Path) -> bool:
    """Whether no process has it locked, and it is gone."""
    with contextlib.suppress(OSError):  # held, gone meanwhile, a link
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_uid != os.getuid():
                return False
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            return not path.exists()
        finally:
            os.close(descriptor)
    return False
