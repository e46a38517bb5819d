"""Opens files so that a foreign folder, such as somebody's CI artifact, shows only its own content."""

import contextlib
import errno
import hashlib
import io
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

LARGEST_BYTES = 256 * 2**20
"""The largest file that is read whole. The samples of 50,000 pictures, the largest evaluation set, with two
metrics after three stages take some 8 MB, and the record of a long sweep far below 1 MB."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def is_plain(name: str) -> bool:
    """Whether a record's value may name a file: it stays in its folder, on every file system."""
    return _NAME.fullmatch(name) is not None and name not in (".", "..")


@contextlib.contextmanager
def opened(path: Path, folder: Path | None = None) -> Iterator[io.BufferedReader]:
    """A regular file for reading from the record's `folder`, by default its own, or below. Symbolic links may
    lead to the folder; below it none is followed. An OSError says what else is there."""
    folder = folder or path.parent
    try:
        real = Path(os.path.realpath(folder), path.relative_to(folder))
        # Before it is opened: a pipe would be waited for, and opening a device may do something.
        if not stat.S_ISREG(real.lstat().st_mode) or os.path.realpath(real) != str(real):
            raise OSError(
                errno.ELOOP,
                "it is, or lies behind, a symbolic link, or is no regular file. Take it out of the folder, "
                "or put the file itself there",
                str(path),
            )
        file = real.open("rb")
    except PermissionError as error:
        said = f"{error.strerror}. Let this user read it, and enter the folders around it"
        raise PermissionError(error.errno, said, str(path)) from error
    with file:
        yield file


def content(path: Path, folder: Path | None = None, largest_bytes: int = LARGEST_BYTES) -> bytes:
    """The content of a file that is `opened` so; one larger than `largest_bytes` is an OSError."""
    with opened(path, folder) as file:
        if len(found := file.read(largest_bytes + 1)) <= largest_bytes:
            return found
    said = f"it is larger than {largest_bytes / 2**20:g} MiB, which no such file is. Take it away"
    raise OSError(errno.EFBIG, said, str(path))


def holds(path: Path, wanted: bytes) -> bool:
    """Whether a regular file has just this content; False for anything else, and for nothing."""
    try:
        return content(path, largest_bytes=len(wanted)) == wanted
    except OSError:
        return False


def given(path: Path, largest_bytes: int = LARGEST_BYTES) -> bytes:
    """The content of a user's file; symbolic links are followed. For anything but a regular file of at most
    `largest_bytes` an OSError, whose `strerror` is for the user."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return content(Path(os.path.realpath(path)), largest_bytes=largest_bytes)


def sha256(file: BinaryIO) -> bytes:
    """The digest of a file from its position on, in pieces: hashlib.file_digest is new in Python 3.11."""
    found = hashlib.sha256()
    while piece := file.read(2**18):
        found.update(piece)
    return found.digest()
