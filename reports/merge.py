"""Merges the records of several folders into a new one: all of them, or none if a case is there twice or a
target's are of two machines. It handles one case at a time, so that memory does not grow with the number of
records."""

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from reports.compare import differing
from reports.record import commands, disk, files, per_sample
from reports.record.disk import strict_walk
from reports.record.sanitize import one_line
from reports.record.schema import Record, case_id


@dataclass
class Merged:
    """The state of a merge."""

    folder: Path
    anonymous: bool
    by_case: dict[str, Path] = field(default_factory=dict)
    """The file of each case."""
    by_target: dict[str, tuple[Path, Record]] = field(default_factory=dict)
    """A record of each target; the others must be of the same machine."""


def merge(arguments: Sequence[Path], output: Path, *, anonymous: bool = False) -> int:
    """Write the records of folders and files, with the files beside them, into a new folder; returns their
    number. Raises RecordError, which names every contradiction and unreadable file, and then writes
    nothing."""
    destination = Path(os.path.realpath(output))
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise files.RecordError(f"{output}: not an empty folder. Give a new one with --output.")
    for argument in arguments:
        if argument.is_dir() and destination.is_relative_to(os.path.realpath(argument)):
            raise files.RecordError(
                f"{output}: lies in {argument}, which is to be merged. Give another --output."
            )
    found = ((path, argument) for argument in arguments for path in files.record_files(argument))
    # A file that two arguments reach counts once.
    given = {Path(os.path.realpath(path.parent), path.name): (path, argument) for path, argument in found}
    beside = _files_beside(path for path, _ in given.values())
    problems: list[str] = []
    disk.make_folder(destination.parent)
    with disk.errors_naming(destination):
        unfinished = TemporaryDirectory(dir=destination.parent, prefix=".merge-", ignore_cleanup_errors=True)
    with unfinished as folder:
        merged = Merged(Path(folder, "all"), anonymous)
        merged.folder.mkdir()
        for _, (path, argument) in sorted(given.items()):
            try:
                _add(merged, path, files.read_given(path, argument), beside[path])
            except files.RecordError as error:
                problems.append(str(error))
        if problems:
            raise files.RecordError("\n".join(problems))
        with disk.errors_naming(destination):
            merged.folder.replace(destination)
    return len(merged.by_case)


def _add(merged: Merged, path: Path, record: Record, beside: Iterable[Path]) -> None:
    name, target = case_id(record.case), record.case.target
    if (other_path := merged.by_case.setdefault(name, path)) != path:
        raise files.RecordError(f"{path}: holds the case {name}, and so does {other_path}. Leave one out.")
    # A table of one target must not mix two machines.
    other_path, other = merged.by_target.setdefault(target, (path, record))
    if settings := _differing_settings(other, record):
        raise files.RecordError(
            f"target {target}: two machines: {other_path} and {path} differ in {settings}. Merge each "
            f"machine's into a folder of its own; {commands.tool('reports', 'compare')} sets them side by "
            "side."
        )
    destination = files.path_of(record.case, merged.folder)
    destination.parent.mkdir(exist_ok=True)
    content = files.encode(files.without_names(record)) if merged.anonymous else disk.content(path)
    destination.write_bytes(content)
    for file in beside:
        ending = str(file.relative_to(path.parent))[len(path.stem) :]
        if ending.endswith(files.SAMPLES_SUFFIX):
            per_sample.read(file, path.parent)  # raises RecordError if it is damaged
        if not (merged.anonymous and ending.endswith(".server.log")):  # a log may name the machine
            _copy(file, path.parent, destination.parent / f"{destination.stem}{ending}")


def _differing_settings(first: Record, second: Record) -> str:
    """The settings of the machine that differ; two GPUs of one machine are equal."""
    settings = [
        f"{setting.name} ({setting.before} and {setting.after})"
        for setting in differing(first, second)
        if setting.name.startswith(("machine.", "versions.")) and setting.name != "machine.gpu_uuids"
    ]
    return one_line(", ".join(settings), 300)


def _files_beside(records: Iterable[Path]) -> dict[Path, list[Path]]:
    """The files that belong to each record: their names, or their folders' names, begin with the record's."""
    beside: dict[Path, list[Path]] = {record: [] for record in records}
    for folder in sorted({record.parent for record in beside}):
        for entry in sorted(folder.iterdir()):
            owner = entry
            while owner.suffix and owner.with_suffix(".json") not in beside:
                owner = owner.with_suffix("")
            if owner.suffix and owner.with_suffix(".json") != entry:
                is_folder = entry.is_dir() and not entry.is_symlink()
                beside[owner.with_suffix(".json")] += _files_in(entry) if is_folder else [entry]
    return beside


def _files_in(folder: Path) -> list[Path]:
    """All files in a folder except hidden ones, such as locks. A link counts as a file."""
    inside = strict_walk(folder, lambda entered: not entered.name.startswith("."))
    return sorted(file for file in inside if file.name[0] != "." and (file.is_symlink() or not file.is_dir()))


def _copy(file: Path, folder: Path, destination: Path) -> None:
    """Copy a file that lies in or below a record's folder."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    with disk.opened(file, folder) as content, destination.open("xb") as copy:
        shutil.copyfileobj(content, copy)
