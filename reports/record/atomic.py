"""Files and folders that are written whole or not at all, and what a killed run left of that."""

import contextlib
import errno
import fcntl
import functools
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

_LONGEST_STEM = 40  # of a name's characters, so that a temporary name is never too long for a file system
_TEMPORARY = re.compile(r"\..*-[0-9a-f]{32}\.tmp", re.DOTALL)
_STANDS_FOR_ANOTHER = ("/dev", "/proc")
"""Folders whose entries are names for something else, such as /dev/stdout for the file that a shell writes to."""
_OF_THE_KERNEL = ("/proc", "/sys")
"""Folders in which nobody makes a file, though root is said to be allowed to."""


def replace(path: Path, content: bytes) -> None:
    """Write `content` so that a reader, or a kill at any moment, sees the old file or the new one, whole.

    What is there and is no regular file, such as a symbolic link, is an OSError, and stays. What killed processes left
    unfinished in the folder is removed. The new file has the permissions of the old one, and its owner where the process may
    give files away. An OSError names `path`.
    """
    make_folder(path.parent)
    _clean_once(path.parent.absolute())
    with named(path):
        old = _replaced(path)
        descriptor, temporary = _temporary_file(path)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(descriptor)
                if old is not None:
                    # Only root gives away a file, as one that is another user's has to be.
                    with contextlib.suppress(PermissionError):
                        os.fchown(descriptor, old.st_uid, old.st_gid)
                    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
                temporary.replace(path)  # under the lock, so that nobody takes it for a leftover
        finally:
            temporary.unlink(missing_ok=True)


def write_given(path: Path, content: bytes) -> None:
    """Write `content` to what a user named: a regular file as `replace` does, also where a symbolic link leads to it; to a
    pipe or a terminal, or /dev/null, without replacing it.

    An OSError, which names `path`, for all else, such as a disk, for a pipe that nobody reads, and for a file that this user
    may not write to, although the folder would let it be replaced.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if stat.S_ISREG(mode) and not stands_for_another(path):
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, "it may not be written to. Name another file", str(path))
        with named(path):
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
    with named(path), os.fdopen(descriptor, "wb") as file:
        os.set_blocking(descriptor, True)
        file.write(content)
    return None


def is_standard_output(path: Path) -> bool:
    """Whether a path, such as /dev/stdout, leads to what this process prints to."""
    try:
        return os.path.samestat(path.stat(), os.fstat(1))
    except OSError:
        return False


def stands_for_another(path: Path) -> bool:
    """Whether a path is a name for something else, such as /dev/stdout, which is written to and never replaced."""
    return _is_below(path.parent, _STANDS_FOR_ANOTHER)


def _is_below(path: Path, folders: Iterable[str]) -> bool:
    return any(Path(os.path.realpath(path)).is_relative_to(folder) for folder in folders)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, unless it is there; an OSError, which names `path`, where something else is."""
    try:
        with named(path):
            path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        check_folder(path)  # which says what is there
        raise


def check_folder(path: Path) -> None:
    """Raise an OSError, which names `path`, where nothing can be written into a folder, and neither make nor write anything."""
    if (found := obstacle(path)) is not None:
        raise OSError(errno.ENOTDIR, f"it {found[1]}. Name another place", str(path))


def obstacle(folder: Path) -> tuple[Path, str] | None:
    """What keeps files from being written into a folder, which may be yet to be made: the folder itself or one above it, and
    how a sentence on it goes on. None where nothing does."""
    place = next(one for one in (folder, *folder.absolute().parents) if os.path.lexists(one))
    # Those of Path raise where they may not look.
    if not os.path.exists(place):  # noqa: PTH110
        return place, "is a symbolic link to nothing"
    if not os.path.isdir(place):  # noqa: PTH112
        return place, "is not a folder"
    if _is_below(place, _OF_THE_KERNEL):
        return place, "is the kernel's"
    return None if os.access(place, os.W_OK | os.X_OK) else (place, "may not be written to")


@contextlib.contextmanager
def named(path: Path) -> Iterator[None]:
    """Let an OSError name the file that was to be written, and not the temporary one, or none."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # it is not the system's, and says all itself
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextlib.contextmanager
def unfinished_folder(output: Path) -> Iterator[Path]:
    """A new folder beside `output` to gather files in, for its content to be put in place by renaming it; what is left of
    it afterwards is removed, and so are those of killed processes."""
    make_folder(output.parent)
    remove_leftovers(output.parent)
    while True:
        folder = _temporary_name(output)
        with named(output):
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


def remove_leftovers(folder: Path) -> list[Path]:
    """Remove what killed processes left unfinished in a folder: this user's temporary files and folders that no process holds.
    Returns those that are gone."""
    return [path for path in _temporaries(folder) if _is_removed(path)]


_clean_once = functools.cache(remove_leftovers)
"""A process that writes many files looks through their folder once."""


def _temporaries(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if _TEMPORARY.fullmatch(entry.name))
    except OSError:
        return []


def _is_removed(path: Path) -> bool:
    """Whether nobody writes it any more, and it is gone."""
    with contextlib.suppress(OSError):  # held, gone meanwhile, a link
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_uid != os.getuid():
                return False
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            return not path.exists()
        finally:
            os.close(descriptor)
    return False


def _replaced(path: Path) -> os.stat_result | None:
    """Owner and permissions of the file that is to be replaced; None where there is none."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise OSError(
            errno.EEXIST,
            "it is a symbolic link, a folder, or no regular file, which is never replaced. Move it away",
            str(path),
        )
    return found


def _temporary_name(path: Path) -> Path:
    return path.parent / f".{path.stem[:_LONGEST_STEM]}-{uuid.uuid4().hex}.tmp"


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
