"""The records that a merge is given, by case, each once, and the files that belong to them.

It needs the standard library alone.
"""

import bisect
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reports import sources
from reports.record import files, machines
from reports.record.files import RecordError
from reports.record.folders import below
from reports.record.machines import MachineId, Measurement
from reports.record.schema import Record, case_id


@dataclass(frozen=True)
class Input:
    """A record and its file. It has the attributes of a Record, which `decoding.built` makes of it."""

    record: Record
    paths: Sequence[Path]
    """All files that hold this content."""
    content: bytes
    measured: Sequence[Measurement]
    machines: Sequence[MachineId]
    """The machines that it was measured on, in the order of their names."""

    @property
    def path(self) -> Path:
        """The first of the record's files, which stands for all of them in messages."""
        return self.paths[0]


@dataclass(frozen=True)
class Inputs:
    """The arguments of a merge, and the files found in them."""

    records: Mapping[str, Sequence[Path]]
    """The files of the records by the name of their case, which the file's name says."""
    folders: Mapping[Path, Sequence[str]]
    """The sorted names of the entries of each folder that holds records."""
    given: Sequence[Path]
    """The folders and files of the command line."""


def found(arguments: Iterable[Path]) -> Inputs:
    """The records of folders and files; one that is given twice, or reached in two ways, is there once. Raises
    RecordError where an argument has none."""
    given = list(dict.fromkeys(arguments))
    records: dict[str, dict[Path, None]] = {}
    for argument in given:
        for path in sources.record_files(argument):
            if argument.is_file():
                name = case_id(files.checked(path)[1].case)
            else:
                name = path.stem.partition(files.MACHINE_SIGN)[0]
            records.setdefault(name, {})[path] = None
    folders = {path.parent for paths in records.values() for path in paths}
    return Inputs(
        {name: _once(paths) for name, paths in sorted(records.items())},
        {folder: sorted(entry.name for entry in folder.iterdir()) for folder in folders},
        given,
    )


def _once(paths: Iterable[Path]) -> list[Path]:
    real = {os.path.realpath(path.parent) + os.sep + path.name: path for path in paths}
    return [real[key] for key in sorted(real)]


def read(name: str, paths: Sequence[Path]) -> list[Input]:
    """The records of one case, each content once, in an order that does not depend on that of the folders.

    Raises one RecordError that names every file that is not a whole one, or holds another case.
    """
    found: dict[bytes, tuple[Record, list[Path]]] = {}
    wrong = []
    for path in paths:
        try:
            content, record = files.checked(path)
        except RecordError as error:
            wrong.append(str(error))
            continue
        if case_id(record.case) != name:
            place = path.with_name(f"{case_id(record.case)}.json")
            wrong.append(
                f"{path}: holds the case whose file is {place}. Give it that name, or take it out of the folder."
            )
        found.setdefault(content, (record, []))[1].append(path)
    if wrong:
        raise RecordError("\n".join(wrong))
    return [_input(*found[content], content) for content in sorted(found)]


def _input(record: Record, paths: Sequence[Path], content: bytes) -> Input:
    measured = machines.measurements(record)
    return Input(record, paths, content, measured, machines.machines_of(record, measured))


def beside(path: Path, inputs: Inputs) -> list[Path]:
    """The files whose names, or whose folders' names, begin with that of the record; not the record itself."""
    names, start = inputs.folders[path.parent], f"{path.stem}."
    entries = []
    for name in names[bisect.bisect_left(names, start) :]:
        if not name.startswith(start):
            break
        if name != path.name:
            entries.append(path.parent / name)
    return [one for entry in entries for one in ([entry] if entry.is_symlink() else visible(entry))]


def visible(path: Path) -> list[Path]:
    """The file itself, or what is in the folder but for folders; not what is hidden, such as locks. A link is a file."""
    if not path.is_dir():
        return [path]
    inside = below(path, lambda folder: not folder.name.startswith("."))
    return sorted(
        one for one in inside if not one.name.startswith(".") and (one.is_symlink() or not one.is_dir())
    )
