"""Listings that leave nothing out in silence: `Path.glob`, `Path.rglob` and `os.walk` skip each folder that
this user may not list, so that a part would count as all."""

import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

_OF_THE_FILE_SYSTEM = "lost+found"
"""What ext4 makes for root at the top of each disk, such as a volume that a container mounts."""


def matching(folder: Path, pattern: str) -> list[Path]:
    """The sorted paths below a folder that match a pattern such as `*/*.json`; none if there is no such
    folder. Raises PermissionError, which names the folder, for one that may not be listed."""
    found = [folder]
    for part in pattern.split("/"):
        found = [path / one.name for path in found for one in _entries(path) if fnmatchcase(one.name, part)]
    return sorted(found)


def below(folder: Path, is_entered: Callable[[Path], bool] = lambda _folder: True) -> Iterator[Path]:
    """Everything below a folder, except behind links and in folders that are not entered; nothing if there is
    no such folder. Raises PermissionError as `matching` does."""
    pending = [folder]
    while pending:
        for entry in _entries(pending.pop()):
            path = Path(entry.path)
            yield path
            if entry.is_dir(follow_symlinks=False) and is_entered(path):
                pending.append(path)


def _entries(folder: Path) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as found:
            return [entry for entry in found if entry.name != _OF_THE_FILE_SYSTEM]
    except (FileNotFoundError, NotADirectoryError):
        return []
