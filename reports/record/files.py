"""Records as JSON files: written whole or not at all, checked by name and type when read, and for readers
elsewhere without the names of machines."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import structs

from reports.record import disk, validate
from reports.record.sanitize import cut, one_line, path_text, visible
from reports.record.schema import LONGEST_TEXT, Case, Machine, Record, case_id

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


def read(path: Path, folder: Path | None = None) -> Record:
    """Read one record, in or below `folder`, by default its own. Raises RecordError, with the file and the
    key, if it is incomplete or inconsistent, or lies behind a link in the folder."""
    record = parse(Record, path, folder, _LARGEST_RECORD_BYTES)
    for key, problem in validate.problems(record):
        raise RecordError(f"{path_text(path)}: {key}: {problem}. Take the file out of the folder.")
    return record


def parse(
    kind: type[_Kind], path: Path, folder: Path | None = None, largest_bytes: int = disk.LARGEST_BYTES
) -> _Kind:
    """Read a file of type `kind` from `folder` with `disk.content`. Raises RecordError, which names the file
    and the key."""
    try:
        return msgspec.json.decode(disk.content(path, folder, largest_bytes), type=kind)
    except OSError as error:
        raise RecordError(f"{path_text(path)}: cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else one_line(str(error), 500)
        fix = "Delete the file and measure the case again."
        if "unknown field" in reason or "$.schema" in reason:
            fix = "Use the tritonproof that wrote it, or delete it and measure the case again."
        raise RecordError(f"{path_text(path)}: {reason}. {fix}") from error


def read_folder(results: Path) -> dict[Path, Record]:
    """Every record below a results folder, by name; none if there is no such folder. Raises RecordError as
    `read_arguments` does."""
    (records,) = _read_each([(results, record_paths(results))])
    return records


def read_arguments(arguments: Sequence[Path]) -> list[dict[Path, Record]]:
    """The records of each argument, by name. Raises one RecordError that names every unreadable file, or the
    first argument without records."""
    return _read_each([(argument, record_files(argument)) for argument in arguments])


def _read_each(sources: Sequence[tuple[Path, Sequence[Path]]]) -> list[dict[Path, Record]]:
    contents: list[dict[Path, Record]] = []
    problems: dict[Path, str] = {}
    for argument, paths in sources:
        contents.append({})
        for path in paths:
            try:
                contents[-1][path] = read_given(path, argument)
            except RecordError as error:
                problems[path] = str(error)
    if problems:
        raise RecordError("\n".join(problems.values()))
    return contents


def read_given(path: Path, argument: Path) -> Record:
    """Read a record that is an argument or lies in one. Raises RecordError as `read` does, and if a file of a
    folder is not named after its case: a copy would add a second row for one measurement."""
    folder = argument if argument.is_dir() else None  # what is behind a link in it is not what was given
    record = read(path, folder)
    expected = path_of(record.case, argument)
    if folder is not None and path not in (expected, argument / expected.name):
        raise RecordError(
            f"{path_text(path)}: holds the case whose file is {expected}. Give it that name, or take it out "
            "of the folder."
        )
    return record


def record_files(argument: Path) -> list[Path]:
    """The files of an argument's records: of the record itself, of a results folder, or of a folder of one
    target. Raises RecordError if there are none."""
    if argument.is_file() and is_record(argument):
        # The argument itself may be a link; the files of the case lie where it leads.
        return [argument.resolve() if argument.is_symlink() else argument]
    paths = record_paths(argument) or record_paths_in(argument)
    if not paths:
        problem = "no record, nor a folder of records" if argument.exists() else "no such file or folder"
        raise RecordError(f"{argument}: {problem}. Give a folder of records (TARGET/CASE.json), or one.")
    return paths


def record_paths(results: Path) -> list[Path]:
    """The record files below a results folder, by name."""
    paths = disk.strict_glob(results, "*/*.json")
    return [path for path in paths if is_record(path) and path.parent.name != SUPERSEDED]


def record_paths_in(folder: Path) -> list[Path]:
    """The record files of a folder of one target, by name."""
    return [path for path in disk.strict_glob(folder, "*.json") if is_record(path)]


def is_record(path: Path) -> bool:
    """Whether a file is a record by its name and its folder's name, and not a file beside one."""
    is_beside = path.name.endswith(SAMPLES_SUFFIX) or path.parent.name.endswith(SEARCH_SUFFIX)
    return path.suffix == ".json" and not is_beside and not path.name.startswith(".")


# --- the machines of measurements --------------------------------------------------------------------------

MEASURED = tuple(
    name
    for name, hint in get_type_hints(Record).items()
    if any("origin" in getattr(kind, "__struct_fields__", ()) for kind in get_args(hint))
)
"""The fields of a record that have an origin: one measurement, None, or a tuple of measurements."""


def machine_digest(machine: Machine) -> str:
    """Eight hexadecimal digits that identify a machine's stamp."""
    stamp = json.dumps(msgspec.to_builtins(machine), sort_keys=True)
    return hashlib.sha256(stamp.encode()).hexdigest()[:8]


def without_names(record: Record) -> Record:
    """The record without the names of hosts and the UUIDs of GPUs, for readers elsewhere."""
    changes = {name: _without_names(getattr(record, name)) for name in MEASURED}
    return structs.replace(record, machine=structs.replace(record.machine, gpu_uuids=()), **changes)


def _without_names(measured: Any) -> Any:
    """The measurement, and any inside it such as the load point of a search, without these names."""
    if measured is None:
        return None
    if isinstance(measured, tuple):
        return tuple(map(_without_names, measured))
    inside = {
        name: _without_names(getattr(measured, name))
        for name in ("load", "accuracy")
        if hasattr(measured, name)
    }
    origin = measured.origin and structs.replace(measured.origin, host="", gpu_uuids=())
    return structs.replace(measured, origin=origin, **inside)
