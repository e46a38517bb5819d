"""Opens files so that a foreign folder, such as somebody's CI artifact, shows only its own content, and lists
folders without silent gaps: `Path.glob`, `Path.rglob` and `os.walk` skip each folder that this user may not
list, and a part would pass for the whole."""

import contextlib
import errno
import hashlib
import io
import os
import re
import stat
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO

_OF_THE_FILE_SYSTEM = "lost+found"
"""The folder that ext4 makes for root at the top of each disk, such as a volume of a container."""


def matching(folder: Path, pattern: str) -> list[Path]:
    """The sorted paths below a folder that match a pattern such as `*/*.json`; none if there is no such
    folder. Raises PermissionError, which names the folder, if this user may not list one."""
    paths = [folder]
    for part in pattern.split("/"):
        paths = [
            path / entry.name for path in paths for entry in _entries(path) if fnmatchcase(entry.name, part)
        ]
    return sorted(paths)


def below(folder: Path, is_entered: Callable[[Path], bool] = lambda _folder: True) -> Iterator[Path]:
    """Everything below a folder, except behind links and in folders that `is_entered` excludes; nothing if
    there is no such folder. Raises PermissionError as `matching` does."""
    pending = [folder]
    while pending:
        for entry in _entries(pending.pop()):
            path = Path(entry.path)
            yield path
            if entry.is_dir(follow_symlinks=False) and is_entered(path):
                pending.append(path)


def _entries(folder: Path) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.name != _OF_THE_FILE_SYSTEM]
    except (FileNotFoundError, NotADirectoryError):
        return []


LARGEST_BYTES = 256 * 2**20
"""The largest file that the suite reads whole. The samples of 50,000 pictures, the largest evaluation set,
with two metrics after three stages take some 8 MB, and the record of a long sweep far below 1 MB."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def is_plain(name: str) -> bool:
    """Whether a record's value may name a file: it stays in its folder, on every file system."""
    return _NAME.fullmatch(name) is not None and name not in (".", "..")


@contextlib.contextmanager
def opened(path: Path, folder: Path | None = None) -> Iterator[io.BufferedReader]:
    """Open a regular file in or below the record's `folder`, by default the file's own. Symbolic links may
    lead to the folder, but not further down. An OSError says what else is there."""
    folder = folder or path.parent
    try:
        real = Path(os.path.realpath(folder), path.relative_to(folder))
        # Check before opening: a pipe would block, and opening a device may have effects.
        if not stat.S_ISREG(real.lstat().st_mode) or os.path.realpath(real) != str(real):
            raise OSError(
                errno.ELOOP,
                "it is, or lies behind, a symbolic link, or is no regular file. Take it out of the folder, "
                "or put the file itself there",
                str(path),
            )
        file = real.open("rb")
    except PermissionError as error:
        message = f"{error.strerror}. Let this user read it, and enter the folders around it"
        raise PermissionError(error.errno, message, str(path)) from error
    with file:
        yield file


def content(path: Path, folder: Path | None = None, largest_bytes: int = LARGEST_BYTES) -> bytes:
    """The content of a file, as `opened` opens it; raises OSError if it is larger than `largest_bytes`."""
    with opened(path, folder) as file:
        if len(data := file.read(largest_bytes + 1)) <= largest_bytes:
            return data
    message = f"it is larger than {largest_bytes / 2**20:g} MiB, which no such file is. Take it away"
    raise OSError(errno.EFBIG, message, str(path))


def holds(path: Path, wanted: bytes) -> bool:
    """Whether `path` is a regular file with exactly this content."""
    try:
        return content(path, largest_bytes=len(wanted)) == wanted
    except OSError:
        return False


def given(path: Path, largest_bytes: int = LARGEST_BYTES) -> bytes:
    """The content of a user's file, also behind symbolic links. For anything but a regular file of at most
    `largest_bytes` it raises an OSError, whose `strerror` is for the user."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return content(Path(os.path.realpath(path)), largest_bytes=largest_bytes)


def sha256(file: BinaryIO) -> bytes:
    """The digest of a file from its position on, in pieces: hashlib.file_digest is new in Python 3.11."""
    hasher = hashlib.sha256()
    while piece := file.read(2**18):
        hasher.update(piece)
    return hasher.digest()
