"""Records as JSON files: written whole or not at all, and checked by name and type when read.

It needs the standard library alone; with msgspec it reads faster.
"""

import dataclasses
import json
import os
import shutil
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from reports.record import decoding, half_written, machines, untrusted
from reports.record.schema import SCHEMA, Case, Record, case_id

SAMPLES_SUFFIX = ".samples.json"
"""How the name of a file of samples ends, which lies beside a record and is none itself."""
CONFIG_SUFFIX = ".config.pbtxt"
"""How the name of the configuration ends that a case was served with; it lies beside the record."""

MACHINE_SIGN = "@"
"""What stands between the case and the machine in the name of a file; no part of a case's name holds it."""

_Kind = TypeVar("_Kind")


class RecordError(Exception):
    """A record file that cannot be used; the message names the file, the key and the cure."""


def path_of(case: Case, results: Path, machine: str = "") -> Path:
    """Where the record of `case` lies below the folder `results`; of one of several machines that measured it, with that
    machine's name: `cpu-resnet50-onnx-fp32@node7.json`."""
    return results / case.target / f"{name_of(case, machine)}.json"


def name_of(case: Case, machine: str = "") -> str:
    """What a record is called: its case, and where several machines measured that, which of them."""
    return f"{case_id(case)}{MACHINE_SIGN}{machine}" if machine else case_id(case)


def machine_in(path: Path) -> str:
    """The machine that the name of a record's file says; empty where the case was measured on one."""
    return path.stem.partition(MACHINE_SIGN)[2]


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
    temporary, file = half_written.begun(path)
    try:
        with file:
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
    return decoding.built(Record, checked(path)[1])


def checked(path: Path) -> tuple[bytes, Record]:
    """The content of one record's file, and what it says, for a reader of very many: it has the attributes of a Record,
    which `decoding.built` makes of it, and takes a fraction of the time. Raises RecordError as `read` does."""
    content = _content(path, None)
    found = _plain(Record, path, content, SCHEMA)
    for key in ("target", "model", "format", "accelerator", "precision"):
        value = getattr(found.case, key)
        if key == "precision" and value == "" and found.build.as_found:
            continue  # its own configuration says in which precision it computes
        if value is not None and not untrusted.is_plain(value):
            raise RecordError(
                f"{path}: case.{key}: {value[:80]!r} cannot be part of a file's name: letters, digits, '.', '_' and "
                "'-' alone. Take the file out of the folder."
            )
    if found.case.gpus < 1:
        raise RecordError(
            f"{path}: case.gpus: {found.case.gpus}: a model is served on one GPU at least. Take the file out of the folder."
        )
    return content, found


def parse(kind: type[_Kind], path: Path, version: int, folder: Path | None = None) -> _Kind:
    """Read a file that holds the dataclass `kind` of schema `version`; raises RecordError as `read` does.

    It lies in the record's `folder`, or below that, as `untrusted.opened` has it.
    """
    return decoding.built(kind, _plain(kind, path, _content(path, folder), version))


def _content(path: Path, folder: Path | None) -> bytes:
    try:
        return untrusted.content(path, folder)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error


def _plain(kind: type[_Kind], path: Path, content: bytes, version: int) -> _Kind:
    """The values of a file, of the dataclass or like it; RecordError where they are not whole."""
    fast = decoding.plain(kind, content)
    if fast is not None and getattr(fast, decoding.VERSION_KEY) == version:
        return fast
    try:
        data = json.loads(content, parse_constant=_refuse)
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

    Raises RecordError as `read_named` does.
    """
    return [record for _, record in read_named(results)]


def read_named(results: Path) -> list[tuple[str, Record]]:
    """Every record below `results` after the machine that its file's name says, which is empty where the case was measured
    on one.

    Raises RecordError as `read_each` does, and where a file's name is not that of its case and machine: a copy of a
    record would be a second row for one measurement.
    """
    paths = record_paths(results)
    found = read_each(paths)
    names = [
        machines.label_of(record) if machine_in(path) else ""
        for path, record in zip(paths, found, strict=True)
    ]
    places = [path_of(record.case, results, name) for record, name in zip(found, names, strict=True)]
    wrong = [
        f"{path}: holds the case whose file is {place}. Give it that name, or take it out of the folder."
        for path, place in zip(paths, places, strict=True)
        if path != place
    ]
    several = {path_of(record.case, results) for record, name in zip(found, names, strict=True) if name}
    wrong += [
        f"{path}: lies beside records of the same case that name their machines ({path.stem}{MACHINE_SIGN}...). Move it "
        "to a folder of its own, and join the two with `python -m reports merge`."
        for path in places
        if path in several
    ]
    if wrong:
        raise RecordError("\n".join(wrong))
    return list(zip(names, found, strict=True))


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
    hints = decoding.hints(kind)
    unknown = sorted(set(value) - set(hints))
    required = {f.name for f in dataclasses.fields(kind) if f.default is f.default_factory}
    missing = sorted(required - set(value))
    if unknown or missing:
        problem = f"unknown key {unknown[0]!r}" if unknown else f"missing key {missing[0]!r}"
        raise RecordError(f"{where}: {problem}. Delete the file and measure the case again.")
    return kind(**{key: _parse(hints[key], item, f"{where}: {key}") for key, item in value.items()})
