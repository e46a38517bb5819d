"""Records as JSON files: writes them whole or not at all, checks them when it reads them, and removes the
names of machines for readers elsewhere."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from tritonproof.base import disk
from tritonproof.base.commands import os_error_text
from tritonproof.base.paths import CONFIG_FILE
from tritonproof.base.sanitize import cut, one_line, path_text, visible
from tritonproof.record import Record, StepFailure, correctness, setup, speed
from tritonproof.record.fields import MAX_NUMBER, MAX_TEXT_CHARS, Estimate, Slope, Struct

SAMPLES_SUFFIX = ".samples.json"
"""The suffix of a file of samples beside a record."""
CONFIG_SUFFIX = ".config.pbtxt"
"""The suffix of the configuration with which Triton served a case, beside its record."""
SEARCH_SUFFIX = ".search"
"""The suffix of the folder with the files of a search's winner, beside its record."""
SUPERSEDED = "superseded"
"""The folder for records of another machine; no target has this name."""

_MAX_RECORD_BYTES = 16 * 2**20
"""The most bytes of a record: a load point of ten passes takes 4 kB, and no sweep has a thousand."""
_Kind = TypeVar("_Kind")


class RecordError(Exception):
    """A record file that cannot be used; the message names the file, the key and the fix."""


def record_path(case: setup.CaseKey, results_folder: Path) -> Path:
    return results_folder / case.target / f"{case!s}.json"


def config_of_search(path: Path) -> str:
    """The config.pbtxt of a search's winner, relative to the folder of the record at `path`."""
    return f"{path.stem}{SEARCH_SUFFIX}/{CONFIG_FILE}"


def write(record: Record, path: Path) -> None:
    """Write `record` whole or not at all. Raises ValueError, and writes nothing, as `encode` does."""
    disk.write_atomically(path, encode(record))


def encode(record: Record) -> bytes:
    """The content of the record's file; raises ValueError for a number that is not finite."""
    plain = _shown(msgspec.to_builtins(record))
    return (json.dumps(plain, indent=2, allow_nan=False) + "\n").encode()


def _shown(value: Any) -> Any:
    """A value of plain types with visible texts, such as a server's error, cut to MAX_TEXT_CHARS, and with
    numbers up to MAX_NUMBER, which wrong answers may exceed."""
    if isinstance(value, str):
        return cut(visible(value), MAX_TEXT_CHARS)
    if isinstance(value, float) and MAX_NUMBER < abs(value) < math.inf:
        return math.copysign(MAX_NUMBER, value)
    if isinstance(value, dict):
        return {_shown(key): _shown(item) for key, item in value.items()}
    return [_shown(item) for item in value] if isinstance(value, list | tuple) else value


def read(path: Path, folder: Path | None = None) -> Record:
    """Read one record, in or below `folder`, by default its own. Raises RecordError, with the file and the
    key, if it is incomplete or inconsistent, lies behind a link in the folder, or has another name than its
    case requires: a copy would be a second row."""
    record = parse(Record, path, folder, _MAX_RECORD_BYTES)
    for key, problem in _problems(record):
        raise RecordError(f"{path_text(path)}: {key}: {problem}. Take the file out of the folder.")
    if folder and path not in ((expected := record_path(record.case, folder)), folder / expected.name):
        fix = "Give it that name, or take it out of the folder"
        raise RecordError(f"{path_text(path)}: holds the case whose file is {expected}. {fix}.")
    return record


def parse(
    kind: type[_Kind], path: Path, folder: Path | None = None, largest_bytes: int = disk.MAX_BYTES
) -> _Kind:
    """Read a file, by `disk.content`, as a `kind`. Raises RecordError that names the file and the key."""
    try:
        return msgspec.json.decode(disk.content(path, folder, largest_bytes), type=kind)
    except OSError as error:
        raise RecordError(os_error_text(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else one_line(str(error), 500)
        fix = "Use the tritonproof that wrote it, or delete it and measure the case again."
        raise RecordError(f"{path_text(path)}: {reason}. {fix}") from error


def read_folder(folder: Path) -> dict[Path, Record]:
    """Every record of a results folder or of one target's folder, by path. Raises one RecordError that names
    all files that are damaged or not named after their case."""
    return read_each(lambda path: read(path, folder), record_paths(folder))


def read_each(read_one: Callable[[Path], _Kind], paths: Iterable[Path]) -> dict[Path, _Kind]:
    """What `read_one` returns for each path. Raises one RecordError that names every problem."""
    contents: dict[Path, _Kind] = {}
    problems: list[str] = []
    for path in paths:
        try:
            contents[path] = read_one(path)
        except RecordError as error:
            problems.append(str(error))
    if problems:
        raise RecordError("\n".join(dict.fromkeys(problems)))
    return contents


def read_argument(argument: Path) -> dict[Path, Record]:
    """The records of a folder or of a file, by path. Raises RecordError if there are none."""
    if argument.is_file() and is_record(argument):
        # The argument itself may be a link; the files of the case lie where it leads.
        path = argument.resolve() if argument.is_symlink() else argument
        return {path: read(path)}
    if records := read_folder(argument):
        return records
    raise RecordError(f"{argument}: no record is there. Give a folder of records (TARGET/CASE.json), or one.")


def record_paths(folder: Path) -> list[Path]:
    """The record files of a results folder, or else of one target's folder, sorted."""
    of_targets = filter(is_record, disk.strict_glob(folder, "*/*.json"))
    in_use = [path for path in of_targets if path.parent.name != SUPERSEDED]
    return in_use or [path for path in disk.strict_glob(folder, "*.json") if is_record(path)]


def is_record(path: Path) -> bool:
    """Whether a path is a record's by its name and its folder's, and not that of a file beside a record."""
    is_beside = path.name.endswith(SAMPLES_SUFFIX) or path.parent.name.endswith(SEARCH_SUFFIX)
    return path.suffix == ".json" and not is_beside and not path.name.startswith(".")


def machine_digest(machine: setup.Machine) -> str:
    """Eight hexadecimal digits that identify a machine by its stamp."""
    stamp = json.dumps(msgspec.to_builtins(machine), sort_keys=True)
    return hashlib.sha256(stamp.encode()).hexdigest()[:8]


def without_names(part: Any) -> Any:
    """A record, or a part of one, for readers elsewhere: without the names of hosts, the UUIDs of GPUs, the
    folders and servers of baselines, and the reasons of failures and lines of logs that may name them."""
    if isinstance(part, Record) and part.baseline is not None:
        renamed = f" {part.baseline.baseline_name}", " the baseline"
        gates = [
            structs.replace(gate, tried=gate.tried.replace(*renamed), fault=gate.fault.replace(*renamed))
            for gate in part.gates
        ]
        part = structs.replace(part, gates=tuple(gates))
    if isinstance(part, speed.BaselineComparison | speed.SpeedComparison):
        is_commit = re.fullmatch(r"(.+ \()?[0-9a-f]{7}\)?", part.baseline_name)
        part = part if is_commit else structs.replace(part, baseline_name="the baseline")
    if isinstance(part, speed.BaselineComparison):
        part = structs.replace(part, warnings=("the text is left out",) * len(part.warnings))
    if isinstance(part, correctness.AnswerComparison) and part.expected_from.startswith("by "):
        part = structs.replace(part, expected_from="by the baseline")
    if isinstance(part, StepFailure):
        part = structs.replace(part, message="the reason is left out")
    if isinstance(part, setup.Machine):
        return structs.replace(part, gpu_uuids=())
    if isinstance(part, setup.Origin):
        return structs.replace(part, host="", gpu_uuids=())
    if isinstance(part, tuple):
        return tuple(map(without_names, part))
    if isinstance(part, Struct):
        fields = {name: without_names(getattr(part, name)) for name in part.__struct_fields__}
        return structs.replace(part, **fields)
    return part


_Problems = Iterator[tuple[str, str]]  # keys and reasons


def _problems(record: Record) -> _Problems:
    """The key and the description of each contradiction in a record. No run writes one; refusing them lets
    outputs look up and divide without checks."""
    if len(record.name) > 250:  # with `.json` it names a file, in at most 255 bytes (NAME_MAX in limits.h)
        yield "case", "its name is longer than a file's may be"
    if len({result.point for result in record.points}) < len(record.points):
        yield "points", "a load point is there twice"
    if record.case.from_repository and record.conversion is not None:
        yield "case.precision", "it is empty, although the model was converted"
    search = record.search
    if search is not None and search.percentile not in search.result.latency_ms:
        yield "search.percentile", "the load point has no latency of that name"
    warmup = record.model_warmup
    if warmup is not None and not 0 < len(warmup.first_ms) == len(warmup.later_ms):
        yield "model_warmup", "each loading has a first_ms and a later_ms"
    for key, part in _parts(record, ""):
        if isinstance(part, Estimate):
            yield from _estimate_problems(part, key)
        elif isinstance(part, correctness.Ledger) and part.scores and part.samples < 1:
            yield f"{key}.samples", "there are scores, and none of a sample"
        elif isinstance(part, speed.LoadPoint):
            if len({part.concurrency == 0, part.is_at_rate, part.arrivals is not None}) > 1:
                what = "a load point has either requests in flight, or a rate and its arrivals"
                yield f"{key}.arrivals", what
        elif isinstance(part, speed.PointResult):
            yield from _point_problems(part, key)


def _parts(value: Any, key: str) -> Iterator[tuple[str, Struct]]:
    """Every struct in a value, with its key, except passes, which are hundreds and hold no estimate."""
    inside: Iterable[tuple[str, Any]]
    if isinstance(value, Struct):
        yield key.removeprefix("."), value
        inside = ((f".{name}", getattr(value, name)) for name in value.__struct_fields__ if name != "passes")
    elif isinstance(value, dict):
        inside = ((f".{name}", member) for name, member in value.items())
    else:
        inside = ((f"[{number}]", member) for number, member in enumerate(value))
    for suffix, member in inside:
        if isinstance(member, (Struct, dict, tuple)):
            yield from _parts(member, f"{key}{suffix}")


def _point_problems(result: speed.PointResult, key: str) -> _Problems:
    if not {"avg", "p99"} <= result.latency_ms.keys():
        yield f"{key}.latency_ms", "avg or p99 is missing"
    if any("avg" not in one_pass.latency_ms for one_pass in result.passes):
        yield f"{key}.passes", "a latency_ms has no avg"
    if result.components_ms and not result.components_ms.keys() >= {*speed.COMPONENTS}:
        yield f"{key}.components_ms", "one is missing"
    if result.latency_budget is not None and result.latency_budget.percentile not in result.latency_ms:
        yield f"{key}.latency_budget.percentile", "the load point has no latency of that name"


def _estimate_problems(estimate: Estimate, key: str) -> _Problems:
    slack = 1e-9 * abs(estimate.value)  # two ways of computing the same double differ by far less
    if not estimate.low - slack <= estimate.value <= estimate.high + slack:
        yield key, "the value is not in its interval"
    if estimate.value < 1 / MAX_NUMBER and not isinstance(estimate, Slope):
        yield key, f"no speed, latency or ratio is below {1 / MAX_NUMBER:g}"
