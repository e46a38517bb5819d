"""Records as JSON files: written whole or not at all, and checked by name and type when read.

It needs the standard library alone.
"""

import dataclasses
import json
import os
import shutil
import types
import typing
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from reports.record import untrusted
from reports.record.schema import SCHEMA, Case, Record, case_id

SAMPLES_SUFFIX = ".samples.json"
"""How the name of a file of samples ends, which lies beside a record and is none itself."""
CONFIG_SUFFIX = ".config.pbtxt"
"""How the name of the configuration ends that a case was served with; it lies beside the record."""

_Kind = TypeVar("_Kind")


class RecordError(Exception):
    """A record file that cannot be used; the message names the file, the key and the cure."""


def path_of(case: Case, results: Path) -> Path:
    """Where the record of `case` lies below the folder `results`."""
    return results / case.target / f"{case_id(case)}.json"


def config_of_search(path: Path) -> str:
    """The name of the config.pbtxt of a search's winner, from the folder of the record at `path`."""
    return f"{path.stem}.search/config.pbtxt"


def write(record: Record, path: Path) -> None:
    """Write `record` with `replace`; a number that is not finite is a ValueError, and the old file stays."""
    replace(path, encode(record))


def encode(record: Record) -> bytes:
    """The content of the record's file; a number that is not finite is a ValueError."""
    return (json.dumps(dataclasses.asdict(record), indent=2, allow_nan=False) + "\n").encode()


def replace(path: Path, content: bytes) -> None:
    """Write `content` so that a reader, or a kill at any moment, sees the old file or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}-{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read(path: Path) -> Record:
    """Read one record; raises RecordError, which names the file and the key, if it is not a whole one.

    The parts of its case are names of files and folders, and nothing else.
    """
    found = parse(Record, path, SCHEMA)
    for key, value in dataclasses.asdict(found.case).items():
        if isinstance(value, str) and not untrusted.is_plain(value):
            raise RecordError(
                f"{path}: case.{key}: {value[:80]!r} cannot be part of a file's name: letters, digits, '.', '_' and "
                "'-' alone. Take the file out of the folder."
            )
    if found.case.gpus < 1:
        raise RecordError(
            f"{path}: case.gpus: {found.case.gpus}: a model is served on one GPU at least. Take the file out of the folder."
        )
    return found


def parse(kind: type[_Kind], path: Path, version: int, folder: Path | None = None) -> _Kind:
    """Read a file that holds the dataclass `kind` of schema `version`; raises RecordError as `read` does.

    It lies in the record's `folder`, or below that, as `beside.opened` has it.
    """
    try:
        data = json.loads(untrusted.content(path, folder), parse_constant=_refuse)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise RecordError(f"{path}: not JSON ({error}). Delete it and measure the case again.") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema is None:
        raise RecordError(
            f"{path}: missing key 'schema': this suite did not write it. Take the file out of the folder."
        )
    if schema != version:
        raise RecordError(
            f"{path}: schema is {schema!r}, this version reads {version}. Measure the case again, "
            "or read it with the version that wrote it."
        )
    found: _Kind = _parse(kind, data, str(path))
    return found


def read_all(results: Path) -> list[Record]:
    """Every record below `results`, in the order of their names. Superseded ones are left out.

    Raises RecordError as `read_each` does, and where a file's name is not that of its case: a copy of a record would
    be a second row for one case.
    """
    paths = record_paths(results)
    found = read_each(paths)
    places = [path_of(record.case, results) for record in found]
    wrong = [
        f"{path}: holds the case whose file is {place}. Give it that name, or take it out of the folder."
        for path, place in zip(paths, places, strict=True)
        if path != place
    ]
    if wrong:
        raise RecordError("\n".join(wrong))
    return found


def read_each(paths: Sequence[Path]) -> list[Record]:
    """Read several records; raises one RecordError that names every file that is not a whole one."""
    found, wrong = [], []
    for path in paths:
        try:
            found.append(read(path))
        except RecordError as error:
            wrong.append(str(error))
    if wrong:
        raise RecordError("\n".join(wrong))
    return found


def record_paths(results: Path) -> list[Path]:
    """The files of the records below a results folder, in the order of their names."""
    return sorted(path for path in results.glob("*/*.json") if _is_record(path))


def record_paths_in(folder: Path) -> list[Path]:
    """The files of the records that lie in a folder itself, such as that of a target."""
    return sorted(path for path in folder.glob("*.json") if _is_record(path))


def _is_record(path: Path) -> bool:
    return not path.name.startswith(".") and not path.name.endswith(SAMPLES_SUFFIX)


def _refuse(constant: str) -> None:
    """NaN and the infinities are no JSON, although Python's parser takes them."""
    raise ValueError(f"it holds {constant}")


def _parse(kind: Any, value: Any, where: str) -> Any:
    """Turn plain JSON into the dataclass `kind`, checking names and types on the way down."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        kind = next(argument for argument in arguments if argument is not type(None))
        return _parse(kind, value, where)
    if dataclasses.is_dataclass(kind):
        return _parse_dataclass(kind, value, where)
    if origin in (Sequence, tuple):
        if not isinstance(value, list):
            raise RecordError(f"{where}: expected a list, found {value!r}")
        if origin is tuple and len(value) != len(arguments):
            raise RecordError(f"{where}: expected a list of {len(arguments)}, found {value!r}")
        return tuple(_parse(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is Mapping:
        if not isinstance(value, dict):
            raise RecordError(f"{where}: expected an object, found {value!r}")
        return {key: _parse(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if origin is Literal:
        if value not in arguments:
            raise RecordError(f"{where}: expected one of {', '.join(arguments)}, found {value!r}")
        return value
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise RecordError(f"{where}: expected {kind.__name__}, found {value!r}")
    return value


def _parse_dataclass(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise RecordError(f"{where}: expected an object, found {value!r}")
    hints = typing.get_type_hints(kind)
    unknown = sorted(set(value) - set(hints))
    required = {f.name for f in dataclasses.fields(kind) if f.default is f.default_factory}
    missing = sorted(required - set(value))
    if unknown or missing:
        problem = f"unknown key {unknown[0]!r}" if unknown else f"missing key {missing[0]!r}"
        raise RecordError(f"{where}: {problem}. Delete the file and measure the case again.")
    return kind(**{key: _parse(hints[key], item, f"{where}: {key}") for key, item in value.items()})
