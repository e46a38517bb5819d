"""Writes files and folders whole or not at all, and removes the leftovers of killed runs."""

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

_LONGEST_STEM = 40  # characters of a name, so that a temporary name never exceeds a file system's limit
_TEMPORARY = re.compile(r"\..*-[0-9a-f]{32}\.tmp", re.DOTALL)
_STANDS_FOR_ANOTHER = ("/dev", "/proc")
"""Folders whose entries stand for other files, as /dev/stdout does for the one that a shell redirects to."""


def replace(path: Path, content: bytes) -> None:
    """Write `content` so that a reader sees the whole old file or the whole new one, even after a kill.

    The new file keeps the old one's permissions, and its owner if the process may give files away. This also
    removes leftovers of killed processes from the folder. Raises an OSError that names `path`, also if
    anything but a regular file is there."""
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
    """Write `content` to a user's path: to a file as `replace` does, also behind a symbolic link; to a pipe,
    a terminal or /dev/null in place. Raises an OSError that names `path`."""
    if path.exists() and not os.access(path, os.W_OK):  # its folder may still let `replace` succeed
        raise PermissionError(errno.EACCES, "it may not be written to. Name another file", str(path))
    with named(path):
        if (path.is_file() and not stands_for_another(path)) or not path.exists():
            replace(Path(os.path.realpath(path)), content)
        else:
            with path.open("ab") as file:
                file.write(content)


def stands_for_another(path: Path) -> bool:
    """Whether a path stands for another file, as /dev/stdout does: write to it, but never replace it."""
    return Path(os.path.realpath(path.parent)).as_posix().startswith(_STANDS_FOR_ANOTHER)


def make_folder(path: Path) -> None:
    """Make a folder and its parents; raises an OSError that names `path` if something else is there."""
    try:
        with named(path):
            path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        check_folder(path)  # its error says what is there
        raise


def check_folder(path: Path) -> None:
    """Raise an OSError that names `path` if this user cannot write into a folder; creates nothing."""
    if (problem := obstacle(path)) is not None:
        raise OSError(errno.ENOTDIR, f"it {problem[1]}. Name another place", str(path))


def obstacle(folder: Path) -> tuple[Path, str] | None:
    """The path that prevents writing into a folder, which need not exist, and the reason; or None."""
    nearest = next(level for level in (folder, *folder.absolute().parents) if os.path.lexists(level))
    # Path's own methods raise an error in folders that this user may not search.
    if not os.path.exists(nearest):  # noqa: PTH110
        return nearest, "is a symbolic link to nothing"
    if not os.path.isdir(nearest):  # noqa: PTH112
        return nearest, "is not a folder"
    return None if os.access(nearest, os.W_OK | os.X_OK) else (nearest, "may not be written to")


@contextlib.contextmanager
def named(path: Path) -> Iterator[None]:
    """Make the system's OSErrors name `path`, not the temporary file or none."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextlib.contextmanager
def unfinished_folder(output: Path) -> Iterator[Path]:
    """A new folder beside `output` that the caller renames into place; removes the rest of it afterwards."""
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
        os.close(descriptor)  # another process removed it as a leftover before the lock


def remove_leftovers(folder: Path) -> list[Path]:
    """Remove this user's temporary files and folders that no process has locked, and return their paths."""
    try:
        leftovers = sorted(entry for entry in folder.iterdir() if _TEMPORARY.fullmatch(entry.name))
    except OSError:
        return []
    return [path for path in leftovers if _is_removed(path)]


_clean_once = functools.cache(remove_leftovers)
"""Removes leftovers once per process and folder."""


def _is_removed(path: Path) -> bool:
    """Remove a leftover unless a process has it locked; returns whether it is gone."""
    with contextlib.suppress(OSError):  # locked, gone meanwhile, or a link
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
