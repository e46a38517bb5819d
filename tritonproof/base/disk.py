"""Opens, lists and writes files. Of a foreign folder, such as somebody's CI artifact, only its own content is
read, and what cannot be read raises an error. Files are written whole or not at all."""

import contextlib
import errno
import hashlib
import heapq
import io
import itertools
import os
import re
import stat
import uuid
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

# `Path.glob`, `Path.rglob` and `os.walk` skip folders that this user may not list: their results would look
# complete.


def strict_glob(folder: Path, pattern: str) -> list[Path]:
    """The sorted paths below a folder that match a pattern such as `*/*.json`; none if there is no such
    folder. Raises PermissionError, which names the folder, if this user may not list one."""
    paths = [folder]
    for part in pattern.split("/"):
        entries = itertools.chain(*map(_entries, paths))
        paths = [Path(entry.path) for entry in entries if fnmatchcase(entry.name, part)]
    return sorted(paths)


def strict_walk(
    folder: Path, is_entered: Callable[[Path], bool] = lambda _folder: True, *, follow_links: bool = False
) -> Iterator[Path]:
    """Everything below a folder, except in folders that `is_entered` excludes, and behind links unless
    `follow_links`, which lists each folder's content once: links may lead in circles. Nothing if there is no
    such folder. Raises PermissionError as `strict_glob` does."""
    pending, links, walked = [folder], list[Path](), set[str]()
    while pending or links:
        current = pending.pop() if pending else heapq.heappop(links)  # of two links, always the same one
        if follow_links:
            if (target := os.path.realpath(current)) in walked:
                continue
            walked.add(target)
        for entry in _entries(current):
            path = Path(entry.path)
            yield path
            if entry.is_dir(follow_symlinks=False) and is_entered(path):
                pending.append(path)
            elif follow_links and entry.is_symlink() and path.is_dir() and is_entered(path):
                heapq.heappush(links, path)


def _entries(folder: Path) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            # ext4 makes this folder for root at the top of each disk, such as a volume of a container.
            return [entry for entry in entries if entry.name != "lost+found"]
    except (FileNotFoundError, NotADirectoryError):
        return []


MAX_BYTES = 256 * 2**20
"""The largest file that the suite reads whole. The samples of 50,000 pictures, the largest evaluation set,
with two metrics after three stages take some 8 MB, and the record of a long sweep far below 1 MB."""


def is_plain(name: str) -> bool:
    """Whether a name from a record is safe as a file name: valid everywhere, and not in another folder."""
    return re.fullmatch(r"[A-Za-z0-9._-]+", name) is not None and name not in (".", "..")


@contextlib.contextmanager
def opened(path: Path, folder: Path | None = None) -> Iterator[io.BufferedReader]:
    """Open a regular file below `folder`, by default the file's parent. The path of `folder` may contain
    symbolic links, the path from there to the file may not. Raises an OSError that says what is there."""
    folder = folder or path.parent
    real = Path(os.path.realpath(folder), path.relative_to(folder))
    # Check before opening: a pipe would block, and opening a device may have effects.
    if not stat.S_ISREG(real.lstat().st_mode) or os.path.realpath(real) != str(real):
        message = "it is no regular file, or lies behind a symbolic link. Put the file itself there"
        raise OSError(errno.ELOOP, message, str(path))
    with real.open("rb") as file:
        yield file


def content(path: Path, folder: Path | None = None, largest_bytes: int = MAX_BYTES) -> bytes:
    """The content of a file, as `opened` opens it; raises OSError if it is larger than `largest_bytes`."""
    with opened(path, folder) as file:
        if len(data := file.read(largest_bytes + 1)) <= largest_bytes:
            return data
    message = f"it is larger than {largest_bytes / 2**20:g} MiB, which no such file is. Take it away"
    raise OSError(errno.EFBIG, message, str(path))


def has_content(path: Path, wanted: bytes) -> bool:
    """Whether `path` is a regular file with exactly this content."""
    try:
        return content(path, largest_bytes=len(wanted)) == wanted
    except OSError:
        return False


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` so that a reader sees the whole old file or the whole new one, even after a kill. The
    new file gets the old one's permissions, and its owner if the process may give files away. Raises an
    OSError that names `path`, also if anything but a regular file is there."""
    make_folder(path.parent)
    with errors_naming(path):
        old = path.lstat() if os.path.lexists(path) else None
        if old is not None and not stat.S_ISREG(old.st_mode):
            message = "it is no regular file, and is never replaced. Move it away"
            raise OSError(errno.EEXIST, message, str(path))
        # The stem is cut, so that the name never exceeds a file system's limit.
        temporary = path.parent / f".{path.stem[:40]}-{uuid.uuid4().hex}.tmp"
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                if old is not None:
                    with contextlib.suppress(PermissionError):  # only root gives files away
                        os.fchown(file.fileno(), old.st_uid, old.st_gid)
                    os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def write_user_file(path: Path, content: bytes) -> None:
    """Write `content` to a path that the user gave: replace a file, also one behind a symbolic link, and
    append to a pipe, a terminal or /dev/null. Raises an OSError that names `path`."""
    if path.exists() and not os.access(path, os.W_OK):  # its folder may still let `write_atomically` succeed
        raise PermissionError(errno.EACCES, "it may not be written to. Name another file", str(path))
    with errors_naming(path):
        if (path.is_file() and not stands_for_another(path)) or not path.exists():
            write_atomically(Path(os.path.realpath(path)), content)
        else:
            with path.open("ab") as file:
                file.write(content)


def stands_for_another(path: Path) -> bool:
    """Whether a path stands for another file, as /dev/stdout does: write to it, but never replace it."""
    return os.path.realpath(path.parent).startswith(("/dev", "/proc"))


def make_folder(path: Path) -> None:
    """Make a folder and its parents; raises an OSError that names `path` if something else is there."""
    check_folder(path)
    with errors_naming(path):
        path.mkdir(parents=True, exist_ok=True)


def check_folder(path: Path) -> None:
    """Raise an OSError that names `path` if this user could not write into that folder; creates nothing."""
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
def errors_naming(path: Path) -> Iterator[None]:
    """Make the system's OSErrors within the block name `path`, instead of a temporary file or no file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal. hashlib.file_digest is new in Python 3.11."""
    hasher = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(2**18):
            hasher.update(piece)
    return hasher.hexdigest()


def files_in(path: Path) -> list[Path]:
    """The file at `path`, or all files below the folder at `path`, sorted by name."""
    return sorted(file for file in strict_walk(path) if file.is_file()) if path.is_dir() else [path]
