"""Private folders in TMPDIR and private shared memory, whose names anybody could take; and clean-ups."""

import contextlib
import errno
import fcntl
import glob
import os
import re
import secrets
import shlex
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tritonproof.base.errors import ProofError, SetupError

PREFIX = "tritonproof-"
SHARED_MEMORY_FOLDER = Path("/dev/shm")
"""Where shared memory has its names, for all programs of this machine."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH_WITHOUT_SPECIALS = re.compile(r"[\w./+@=,-]+", re.ASCII)
"""Paths without special characters: a shell starts Triton's Python backend, and docker splits at colons."""
_RUNS = "runs"
_NEW, _NEW_S = ".new-", 60.0
"""The prefix of a new folder that is not locked yet, and more seconds than locking takes."""


def user_folder() -> Path:
    """The folder of this user's files: in the temporary folder, or in /tmp if that folder's name has a
    character that some program misreads. Use `private_folder`, since anybody can take this name first."""
    folder = tempfile.gettempdir()
    return Path(folder if _PATH_WITHOUT_SPECIALS.fullmatch(folder) else "/tmp") / f"{PREFIX}{os.getuid()}"


def private_folder(*names: str) -> Path:
    """The folder by these names below `user_folder()`, created if missing, to which nobody else can write.
    Raises SetupError if any folder on the way is a link, a file, another user's, or writable for others."""
    path = user_folder()
    for name in ("", *names):
        path /= name
        _ensure_private(path)
    return path


def _ensure_private(path: Path) -> None:
    problem = ""
    try:
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        status = path.lstat()
        is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
        if not is_own or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            problem = f"is not private: {stat.filemode(status.st_mode)}, user {status.st_uid}"
        elif stat.S_IMODE(status.st_mode) & 0o077:
            path.chmod(0o700)
    except OSError as error:
        problem = f"cannot be opened ({error.strerror})"
    if problem:
        fix = f"remove it (rm -r {shlex.quote(str(path))}), or set TMPDIR to a folder of your own"
        raise SetupError(f"the folder for this user's own files {problem}", where=path, fix=fix)


@contextlib.contextmanager
def scratch_folder(purpose: str, within: Path | None = None) -> Iterator[Path]:
    """A folder named after its `purpose` for the length of the block, `within` another or in the folder of
    this user's runs. Raises SetupError if that may be somebody else's."""
    parent = private_folder(_RUNS) if within is None else within
    with locked_folder(parent, f"{PREFIX}{purpose}-") as folder:
        yield folder


@contextlib.contextmanager
def report_full_disk(folder: Path, fix: str = "set TMPDIR to another folder") -> Iterator[None]:
    """Raise ProofError, which names the folder, if the block finds its disk full or read-only."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT):
            raise
        fix = f"free some space there (df -h, df -i), or {fix}"
        raise ProofError(f"the folder cannot be written to: {error}", where=folder, fix=fix) from error


@contextlib.contextmanager
def locked_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A private folder with this prefix, locked for the length of the block and then removed. The kernel
    frees the lock of a process that dies; `remove_unlocked` removes its folder later."""
    path = parent / f"{prefix}{secrets.token_hex(4)}"
    unlocked = path.with_name(f"{_NEW}{path.name}")
    unlocked.mkdir(mode=0o700)
    lock = os.open(unlocked, _FOLDER)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        unlocked.rename(path)
        yield path
    finally:
        for folder in (path, unlocked):
            shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_orphaned_folders() -> list[Path]:
    """Remove and return what this user's killed runs left. Raises SetupError for another user's folder."""
    # `private_folder` would create it.
    return remove_unlocked(private_folder(_RUNS)) if os.path.lexists(user_folder() / _RUNS) else []


def remove_unlocked(parent: Path, prefix: str = PREFIX) -> list[Path]:
    """Remove and return this user's folders in `parent` with this prefix that no process has locked."""
    removed = []
    for path in sorted([*parent.glob(f"{prefix}*"), *parent.glob(f"{_NEW}{prefix}*")]):
        with contextlib.suppress(OSError):  # held, gone meanwhile, a link, or not a folder
            lock = os.open(path, _FOLDER)
            try:
                status = os.fstat(lock)
                is_new = path.name.startswith(_NEW) and status.st_mtime > time.time() - _NEW_S
                if status.st_uid == os.getuid() and not is_new:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
                    removed += [] if path.exists() else [path]
            finally:
                os.close(lock)
    return removed


def hide_segments(prefix: str, folder: Path = SHARED_MEMORY_FOLDER) -> None:
    """Close this user's segments with this prefix to all others: Triton's Python backend opens its own to
    everybody, whatever the umask is (Boost calls fchmod with 0644)."""
    for path in folder.glob(f"{glob.escape(prefix)}*"):
        with contextlib.suppress(OSError):  # gone, a link, or another user's
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.fchmod(descriptor, 0o600)
            finally:
                os.close(descriptor)
