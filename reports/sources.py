"""The arguments of `compare` and `trend --add`: folders of records or single records, with their files."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reports.record import files
from reports.record.files import RecordError
from reports.record.schema import case_id
from reports.text.phrases import letter
from reports.text.publishable import Publishable, publishable


@dataclass(frozen=True)
class StoredRecord:
    """A record as a reader may see it, and its file; the case's other files lie beside that."""

    record: Publishable
    path: Path
    letter: str
    """The letter of its argument: A, B, ..."""


@dataclass(frozen=True)
class Source:
    """One argument of a command."""

    name: str
    """The argument as given."""
    letter: str
    is_file: bool
    """Whether it is a single record."""
    records: Mapping[str, StoredRecord]
    """By case, sorted."""
    unreadable: Sequence[str] = ()
    """The errors of files that cannot be read."""


def read(arguments: Sequence[Path], substring: str = "") -> list[Source]:
    """The records of every argument, for cases whose name contains `substring`. Raises RecordError if an
    argument has no readable record or is given twice."""
    sources = [
        _source(argument, letter(number).upper(), substring) for number, argument in enumerate(arguments)
    ]
    owners: dict[Path, Source] = {}
    for source in sources:
        for stored in source.records.values():
            other = owners.setdefault(stored.path.resolve(), source)
            if other is not source:
                raise RecordError(
                    f"{stored.path}: given twice, as {other.letter} ({other.name}) and as {source.letter} "
                    f"({source.name}). Give each folder once."
                )
    return sources


def _source(argument: Path, source_letter: str, substring: str) -> Source:
    records: dict[str, StoredRecord] = {}
    contents = files.read_each(record_files(argument))
    for path, record in (contents.records or contents.all()).items():
        stored = StoredRecord(publishable(record), path, source_letter)
        name = case_id(record.case)
        if name in records:
            raise RecordError(
                f"{path}: holds the case {name}, which is in {records[name].path} too. Give one of the two "
                "files by its name, or take one out of the folder."
            )
        records[name] = stored
    chosen = {name: stored for name, stored in records.items() if substring in name}
    if not chosen:
        raise no_case(argument, substring, records)
    unreadable = [error for path, error in contents.unreadable.items() if substring in path.stem]
    return Source(str(argument), source_letter, argument.is_file(), chosen, unreadable)


def no_case(where: Path, substring: str, names: Iterable[str]) -> RecordError:
    """The error of a substring that is in no case's name."""
    known = ", ".join(dict.fromkeys(names))
    return RecordError(f"{where}: no case has {substring!r} in its name. There are: {known}")


def record_files(argument: Path) -> list[Path]:
    """The files of an argument's records: of the record itself, of a results folder, or of a folder of one
    target. Raises RecordError if there are none, and as `reports.record.files.record_paths` does."""
    if argument.is_file():
        if not files.is_record(argument):
            raise RecordError(
                f"{argument}: not a record. Give a folder of records, or a file TARGET/CASE.json."
            )
        # The argument itself may be a link; the files of the case lie where it leads.
        return [argument.resolve() if argument.is_symlink() else argument]
    if not argument.is_dir():
        problem = "neither a file nor a folder" if argument.exists() else "no such file or folder"
        raise RecordError(f"{argument}: {problem}. Give a folder of records (TARGET/CASE.json), or one.")
    paths = files.record_paths(argument) or files.record_paths_in(argument)
    if not paths:
        raise RecordError(
            f"{argument}: holds no records (TARGET/CASE.json). Give what a run of the benchmarks wrote with "
            "--results DIR."
        )
    return paths
