"""What lies in folders, of which nothing is left out in silence: `Path.glob`, `Path.rglob` and `os.walk` pass
over each folder that this user may not list, so that a part of what was given would count as all of it."""

import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

_OF_THE_FILE_SYSTEM = "lost+found"
"""What ext4 makes for root alone at the top of each of its disks, such as a volume that a container
mounts."""


def matching(folder: Path, pattern: str) -> list[Path]:
    """The paths below a folder that fit a pattern such as `*/*.json`, in the order of their names; none where
    there is no such folder. Raises PermissionError, which names the folder, for one that may not be
    listed."""
    found = [folder]
    for part in pattern.split("/"):
        found = [path / one.name for path in found for one in _entries(path) if fnmatchcase(one.name, part)]
    return sorted(found)


def below(folder: Path, is_entered: Callable[[Path], bool] = lambda _folder: True) -> Iterator[Path]:
    """All that lies in a folder and in those below it, one after the other, but what lies in folders that are
    not to be entered and behind links; nothing where there is no such folder. Raises PermissionError as
    `matching` does."""
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
