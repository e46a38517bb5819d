"""Merges the records of several folders into a new one: all of them, or none if any two contradict each
other. It handles one case at a time, so that memory does not grow with the number of records."""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import structs

from reports import sources
from reports.compare import differing
from reports.record import commands, disk, files, per_sample
from reports.record.disk import strict_walk
from reports.record.origins import SEVERAL, SINGLE, measurements, without_names
from reports.record.sanitize import one_line
from reports.record.schema import Record, case_id


@dataclass
class Merged:
    """The state of a merge, and its result."""

    folder: Path
    anonymous: bool
    records: int = 0
    joined: list[str] = field(default_factory=list)
    """The cases with a record joined from several."""
    left_out: list[Path] = field(default_factory=list)
    """Files that belong to no record, and logs that are not kept."""
    problems: list[str] = field(default_factory=list)
    """The contradictions; with any of them, nothing is written."""
    first: dict[str, tuple[Path, Record]] = field(default_factory=dict)
    """A record of each target; the others must be of the same machine."""


def merge(arguments: Sequence[Path], output: Path, *, anonymous: bool = False) -> Merged:
    """Write the records of folders and files, with the files beside them, into a new folder. Raises
    RecordError, which names every contradiction and unreadable file, and then writes nothing."""
    inputs = list(dict.fromkeys(arguments))
    destination = Path(os.path.realpath(output))
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise files.RecordError(f"{output}: not an empty folder. Give a new one with --output.")
    for arg in inputs:
        if arg.is_dir() and destination.is_relative_to(os.path.realpath(arg)):
            raise files.RecordError(f"{output}: lies in {arg}, which is to be merged. Give another --output.")
    paths_by_case = _paths_by_case(inputs)
    beside = _files_beside(path for paths in paths_by_case.values() for path in paths)
    damaged: list[str] = []
    disk.make_folder(destination.parent)
    with disk.errors_naming(destination):
        unfinished = TemporaryDirectory(dir=destination.parent, prefix=".merge-", ignore_cleanup_errors=True)
    with unfinished as folder:
        merged = Merged(Path(folder, "all"), anonymous)
        merged.folder.mkdir()
        for name, paths in paths_by_case.items():
            try:
                _add(merged, name, paths, beside)
            except files.RecordError as error:
                damaged.append(str(error))
        if damaged or merged.problems:
            lines = ["the records cannot be merged, and nothing was written:", *merged.problems]
            raise files.RecordError("\n".join(damaged) or "\n- ".join(lines))
        with disk.errors_naming(destination):
            merged.folder.replace(destination)
    used = {*beside, *(file for companions in beside.values() for file in companions)}
    merged.left_out += [path for argument in inputs for path in _visible(argument) if path not in used]
    return merged


def _paths_by_case(inputs: Iterable[Path]) -> dict[str, list[Path]]:
    """The record files by case, according to their names; a file that two arguments reach counts once."""
    by_case: dict[str, dict[str, Path]] = {}
    for argument in inputs:
        for path in sources.record_files(argument):
            name = case_id(files.read(path).case) if argument.is_file() else path.stem
            by_case.setdefault(name, {})[f"{os.path.realpath(path.parent)}/{path.name}"] = path
    return {name: [paths[real] for real in sorted(paths)] for name, paths in sorted(by_case.items())}


def _add(merged: Merged, name: str, paths: Sequence[Path], beside: Mapping[Path, Sequence[Path]]) -> None:
    records = {path: files.read(path) for path in paths}
    for path, record in records.items():
        if case_id(record.case) != name:
            case_name = case_id(record.case)
            raise files.RecordError(f"{path}: holds the case {case_name}. Give it that name, or take it out.")
        target = record.case.target  # a table of one target must not mix two machines
        other_path, other = merged.first.setdefault(target, (path, record))
        parts = ("machine.", "versions.")
        if other.machine != record.machine and (settings := _differing(other, record, parts)):
            merged.problems.append(
                f"target {target}: two machines: {other_path} and {path} differ in {settings}. Merge each "
                f"machine's into a folder of its own; {commands.tool('reports', 'compare')} sets them side "
                "by side."
            )
    # The order of the arguments does not matter: the record that changed last comes last.
    first, *others = sorted(paths, key=lambda path: records[path].updated)
    combined = records[first]
    for path in others:
        both = " and ".join(sorted(map(str, (first, path))))
        merged.problems += [f"{both}: {problem}" for problem in contradictions(combined, records[path])]
        combined = join_records(combined, records[path])
    if merged.problems:
        return  # nothing will be written
    merged.records += 1
    if any(record != combined for record in records.values()):
        merged.joined.append(name)
    destination = files.path_of(combined.case, merged.folder)
    destination.parent.mkdir(exist_ok=True)
    shown = without_names(combined) if merged.anonymous else combined
    destination.write_bytes(disk.content(first) if shown == records[first] else files.encode(shown))
    for path in reversed((first, *others)):
        for file in beside[path]:
            _copy(merged, file, path, destination)


def contradictions(record: Record, other: Record) -> list[str]:
    """Why two records of a case cannot be joined: another build or setup, or two figures of one thing."""
    parts = ("deployment.", "build.", *(["serving."] if record.serving and other.serving else []))
    if settings := _differing(record, other, parts):
        return [f"differ in {settings}. Measure the case again with one setup, or leave one out."]
    first, second = measurements(record), measurements(other)
    # A deterministic model's measurements may be equal in all but their origin.
    conflicts = [
        " ".join(str(part) for part in key if part != "")
        for key in first.keys() & second.keys()
        if key[0] != "starts" and structs.replace(first[key], origin=second[key].origin) != second[key]
    ]
    conflicts += ["price_per_hour"] * (len({record.price_per_hour, other.price_per_hour} - {None}) > 1)
    return [f"have different figures of {name}. Leave one of the files out." for name in sorted(conflicts)]


def _differing(first: Record, second: Record, parts: Sequence[str]) -> str:
    """The settings that differ, in these parts of the setup; two GPUs of one machine are equal."""
    settings = [
        f"{setting.name} ({setting.before} and {setting.after})"
        for setting in differing(first, second)
        if setting.name.startswith(tuple(parts)) and setting.name != "machine.gpu_uuids"
    ]
    return one_line(", ".join(settings), 300)  # a digest has 64 characters


def join_records(earlier: Record, later: Record) -> Record:
    """The record joined from two that do not contradict each other; the later one has precedence."""
    measured = measurements(earlier) | measurements(later)
    changes: dict[str, Any] = {name: measured.get((name,)) for name in SINGLE}
    changes |= {name: tuple(measured[key] for key in sorted(measured) if key[0] == name) for name in SEVERAL}
    ledger = max(later, earlier, key=lambda one: (one.accuracy is not None, one.accuracy_missing or ""))
    uuids = {*earlier.machine.gpu_uuids, *later.machine.gpu_uuids}
    return structs.replace(
        later,
        machine=structs.replace(later.machine, gpu_uuids=tuple(sorted(uuids))),
        serving=later.serving or earlier.serving,
        accuracy_missing=ledger.accuracy_missing,
        price_per_hour=earlier.price_per_hour if later.price_per_hour is None else later.price_per_hour,
        stage_seconds={**earlier.stage_seconds, **later.stage_seconds},
        **changes,
    )


def _files_beside(records: Iterable[Path]) -> dict[Path, list[Path]]:
    """The files that belong to each record: their names, or their folders' names, begin with the record's."""
    beside: dict[Path, list[Path]] = {record: [] for record in records}
    for folder in sorted({record.parent for record in beside}):
        for entry in sorted(folder.iterdir()):
            owner = entry
            while owner.suffix and owner.with_suffix(".json") not in beside:
                owner = owner.with_suffix("")
            if owner.suffix and owner.with_suffix(".json") != entry:
                beside[owner.with_suffix(".json")] += [entry] if entry.is_symlink() else _visible(entry)
    return beside


def _visible(path: Path) -> list[Path]:
    """The file itself, or all files in the folder except hidden ones, such as locks. A link counts as a
    file."""
    if not path.is_dir():
        return [path]
    inside = strict_walk(path, lambda folder: not folder.name.startswith("."))
    return sorted(file for file in inside if file.name[0] != "." and (file.is_symlink() or not file.is_dir()))


def _copy(merged: Merged, file: Path, record: Path, destination: Path) -> None:
    ending = str(file.relative_to(record.parent))[len(record.stem) :]
    target = destination.parent / f"{destination.stem}{ending}"
    if ending.endswith(files.SAMPLES_SUFFIX):
        per_sample.read(file, record.parent)  # raises RecordError if it is damaged
    if ending.endswith(".server.log") and (merged.anonymous or target.exists()):
        # A log may name the machine. Of several logs the latest record's stays.
        merged.left_out.append(file)
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with disk.opened(file, record.parent) as content, target.open("xb") as copy:
            shutil.copyfileobj(content, copy)
    elif disk.content(file, record.parent) != target.read_bytes():
        merged.problems.append(
            f"{file}: differs from that beside another record of the case. Take one of them out."
        )
