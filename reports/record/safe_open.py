"""Records and the files beside them, opened so that a folder of another's making shows nothing but what is in it.

A folder of records may come from anywhere, such as an artifact of somebody's CI job.
"""

import contextlib
import errno
import hashlib
import io
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

LARGEST_BYTES = 256 * 2**20
"""The most bytes of a file that is read whole. The samples of 50,000 pictures, the largest evaluation set, with two
metrics after three stages are some 8 MB, and the record of a long sweep is far below 1 MB."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO would be waited for


def is_plain(name: str) -> bool:
    """Whether a value of a record may be the name of a file: it stays in its folder, on every file system."""
    return _NAME.fullmatch(name) is not None and name not in (".", "..")


@contextlib.contextmanager
def opened(path: Path, folder: Path | None = None) -> Iterator[io.BufferedReader]:
    """A file for reading that lies in the record's `folder`, by default the one it is in, or below that.

    The folder may be reached through symbolic links; below it none is followed. Raises FileNotFoundError where there is
    no such file, and another OSError where there is something else than a regular one.
    """
    folder = folder or path.parent
    *above, name = path.relative_to(folder).parts
    with contextlib.ExitStack() as stack:
        with _permitted(path):
            # A folder whose content may not be listed, as others' often are, is enough.
            inside = _descriptor(stack, folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            for part in above:
                _check(path, stat.S_ISDIR(os.stat(part, dir_fd=inside, follow_symlinks=False).st_mode))
                inside = _descriptor(stack, part, _FLAGS | os.O_DIRECTORY, inside)
            # Before it is opened too: opening a device may do something.
            _check(path, stat.S_ISREG(os.stat(name, dir_fd=inside, follow_symlinks=False).st_mode))
            file = stack.enter_context(os.fdopen(os.open(name, _FLAGS, dir_fd=inside), "rb"))
            _check(path, stat.S_ISREG(os.fstat(file.fileno()).st_mode))
        yield file


@contextlib.contextmanager
def _permitted(path: Path) -> Iterator[None]:
    """Let what modes refuse name the whole path, with what to do."""
    try:
        yield
    except PermissionError as error:
        said = f"{error.strerror}. Let this user read it, and enter the folders around it"
        raise PermissionError(error.errno, said, str(path)) from error


def _descriptor(stack: contextlib.ExitStack, path: Path | str, flags: int, inside: int | None = None) -> int:
    descriptor = os.open(path, flags, dir_fd=inside)
    stack.callback(os.close, descriptor)
    return descriptor


def _check(path: Path, is_what_it_should_be: bool) -> None:
    if not is_what_it_should_be:
        raise OSError(
            errno.ELOOP,
            "it is, or lies behind, a symbolic link, or is no regular file. Take it out of the folder, or put the "
            "file itself there",
            str(path),
        )


def content(path: Path, folder: Path | None = None, largest_bytes: int = LARGEST_BYTES) -> bytes:
    """What a file holds that is `opened` so; a larger one than `largest_bytes` is an OSError."""
    with opened(path, folder) as file:
        if os.fstat(file.fileno()).st_size <= largest_bytes:
            found = file.read(largest_bytes + 1)
            if len(found) <= largest_bytes:  # it may have grown
                return found
    raise OSError(
        errno.EFBIG,
        f"it is larger than {largest_bytes / 2**20:g} MiB, which no such file is. Take it away",
        str(path),
    )


def holds(path: Path, wanted: bytes) -> bool:
    """Whether a regular file holds just this; False for whatever else is there, and for nothing."""
    try:
        return content(path, largest_bytes=len(wanted)) == wanted
    except OSError:
        return False


def given(path: Path, largest_bytes: int = LARGEST_BYTES) -> bytes:
    """What a file holds that a user named; symbolic links are followed. Raises FileNotFoundError, and another OSError for
    what is no regular file, such as a pipe, or larger than `largest_bytes`; its `strerror` is for the user."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a device, a pipe or a socket"
        raise OSError(errno.EINVAL, f"it is {what}, and no regular file", str(path))
    return content(Path(os.path.realpath(path)), largest_bytes=largest_bytes)


def digest(path: Path, folder: Path | None = None) -> bytes:
    """SHA-256 of a file that is `opened` so, of whatever size."""
    with opened(path, folder) as file:
        return hashlib.file_digest(file, "sha256").digest()
