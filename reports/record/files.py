"""Records as JSON files: written whole or not at all, and checked by name and type when read."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from reports.record import disk, validate
from reports.record.sanitize import cut, is_printable, one_line, path_text, visible
from reports.record.schema import LONGEST_TEXT, Case, Record, case_id

SAMPLES_SUFFIX = ".samples.json"
"""The suffix of a file of samples beside a record."""
CONFIG_SUFFIX = ".config.pbtxt"
"""The suffix of the configuration with which Triton served a case, beside its record."""
SEARCH_SUFFIX = ".search"
"""The suffix of the folder with the files of a search's winner, beside its record."""
SUPERSEDED = "superseded"
"""The folder for records of another machine; no target has this name."""

_LARGEST_RECORD_BYTES = 16 * 2**20
"""A load point of ten passes takes some 4 kB, and a sweep has far fewer than a thousand."""
_Kind = TypeVar("_Kind")


class RecordError(Exception):
    """A record file that cannot be used; the message names the file, the key and the fix."""


def path_of(case: Case, results: Path) -> Path:
    return results / case.target / f"{case_id(case)}.json"


def config_of_search(path: Path) -> str:
    """The config.pbtxt of a search's winner, relative to the folder of the record at `path`."""
    return f"{path.stem}{SEARCH_SUFFIX}/config.pbtxt"


def write(record: Record, path: Path) -> None:
    """Write `record` with `disk.replace`; for a number that is not finite it writes nothing, but raises
    ValueError."""
    disk.replace(path, encode(record))


def encode(record: Record) -> bytes:
    """The content of the record's file; raises ValueError for a number that is not finite."""
    plain = _shown(msgspec.to_builtins(record))
    return (json.dumps(plain, indent=2, allow_nan=False) + "\n").encode()


def _shown(value: Any) -> Any:
    """Plain values, with texts such as a server's error cut to a record's limit and made visible."""
    if isinstance(value, str):
        return cut(visible(value), LONGEST_TEXT)
    if isinstance(value, dict):
        return {_shown(key): _shown(item) for key, item in value.items()}
    return [_shown(item) for item in value] if isinstance(value, list | tuple) else value


def read(path: Path) -> Record:
    """Read one record. Raises RecordError, with the file and the key, if it is incomplete or inconsistent."""
    record = parse(Record, path, largest_bytes=_LARGEST_RECORD_BYTES)
    for key, problem in validate.problems(record):
        raise RecordError(f"{path}: {key}: {problem}. Take the file out of the folder.")
    return record


def parse(
    kind: type[_Kind], path: Path, folder: Path | None = None, largest_bytes: int = disk.LARGEST_BYTES
) -> _Kind:
    """Read a file of type `kind` from `folder` with `disk.content`. Raises RecordError, which names the file
    and the key."""
    try:
        return msgspec.json.decode(disk.content(path, folder, largest_bytes), type=kind)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else one_line(str(error), 500)
        fix = "Delete the file and measure the case again."
        if "unknown field" in reason or "$.schema" in reason:
            fix = "Use the tritonproof that wrote it, or delete it and measure the case again."
        raise RecordError(f"{path}: {reason}. {fix}") from error


@dataclass(frozen=True)
class FolderRecords:
    """The records of several files, and the error of each file that is no record."""

    records: dict[Path, Record]
    unreadable: dict[Path, str]
    """Each error names the file and the fix."""

    def all(self) -> Mapping[Path, Record]:
        """All records, or one RecordError that names every unreadable file."""
        if self.unreadable:
            raise RecordError("\n".join(self.unreadable.values()))
        return self.records


def read_folder(results: Path) -> FolderRecords:
    """Every record below `results` by name. A file that is not named after its case counts as unreadable: a
    copy of a record would add a second row for one measurement. Raises RecordError as `record_paths` does."""
    contents = read_each(record_paths(results))
    for path, record in [*contents.records.items()]:
        if path != (expected := path_of(record.case, results)):
            contents.unreadable[path] = (
                f"{path}: holds the case whose file is {expected}. Give it that name, or take it out of the "
                "folder."
            )
            del contents.records[path]
    return contents


def read_each(paths: Sequence[Path]) -> FolderRecords:
    """Read several records; an unreadable one never hides the others."""
    contents = FolderRecords({}, {})
    for path in paths:
        try:
            contents.records[path] = read(path)
        except RecordError as error:
            contents.unreadable[path] = str(error)
    return contents


def record_paths(results: Path) -> list[Path]:
    """The record files below a results folder, by name. Raises as `listed` does, and RecordError if a
    target's folder is a symbolic link, which other readers do not follow, or if records lie beside the
    targets' folders: a reader of one level would miss the other."""
    paths = [
        path for path in listed(results, "*/*.json") if is_record(path) and path.parent.name != SUPERSEDED
    ]
    for path in record_paths_in(results) if paths else ():
        if _begins_as_record(path):
            raise RecordError(
                f"{path}: lies beside the folder of a target that holds records, such as {paths[0]}. Move it "
                "into the folder of its own target, or take it out."
            )
    for folder in dict.fromkeys(path.parent for path in paths):
        if folder.is_symlink():
            raise RecordError(
                f"{folder}: it is a symbolic link, and no folder of a target's. Put the folder itself there, "
                "or give the one that it leads to."
            )
    return paths


def record_paths_in(folder: Path) -> list[Path]:
    return [path for path in listed(folder, "*.json") if is_record(path)]


def _begins_as_record(path: Path) -> bool:
    """Whether a file looks like a record, not like one of pytest-benchmark's; true if unreadable."""
    try:
        with disk.opened(path) as file:
            return re.match(rb'\s*\{\s*"case"\s*:', file.read(100)) is not None
    except OSError:
        return True


def listed(folder: Path, pattern: str) -> list[Path]:
    """The paths below a foreign folder, as `disk.strict_glob` gives them. Raises RecordError for a name
    with control characters: printed, it could pass for output of the suite."""
    paths = disk.strict_glob(folder, pattern)
    for path in paths:
        if not is_printable(str(path.relative_to(folder))):
            raise RecordError(
                f"{path_text(path)}: its name holds control characters, or bytes that are no UTF-8. Rename "
                "it, or take it out of the folder."
            )
    return paths


def is_record(path: Path) -> bool:
    """Whether a file is a record by its name and its folder's name, and not a file beside one."""
    is_beside = path.name.endswith(SAMPLES_SUFFIX) or path.parent.name.endswith(SEARCH_SUFFIX)
    return path.suffix == ".json" and not is_beside and not path.name.startswith(".")
