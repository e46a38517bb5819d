"""The history: a row for each measurement of each run, in a file of JSON lines for each target. Processes
only append whole lines; a reader names and skips a line that a kill cut off."""

import fcntl
from collections.abc import Iterable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from tritonproof.base import disk
from tritonproof.base.sanitize import one_line, path_text
from tritonproof.record import record_files, setup
from tritonproof.record.fields import Estimate, Number
from tritonproof.reports.phrases import first_of, grouped
from tritonproof.reports.publishable import Publishable

SUFFIX = ".jsonl"


class HistoryRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One measurement: a load point, an accuracy metric, or a scenario's efficiency.

    `run`, `started`, `host`, `commit` and `clean` are those of `setup.Origin`; `machine` is the digest of
    its stamp; `at` is the load point (`offline b008-c001`) or the metric; `samples` is how many a metric has.
    A figure is its value, low and high; high is None if the interval is open above."""

    run: str
    started: str
    host: str
    machine: setup.FilePart
    commit: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{7,64}$")] | None
    clean: bool | None
    target: setup.FilePart
    case: setup.FilePart
    kind: Literal["load", "accuracy", "efficiency"]
    at: str
    figures: Mapping[str, tuple[Number, Number, Number | None]]
    build: str
    triton: str | None = None
    samples: int = 0


_OF_ORIGIN = ("run", "started", "host", "commit", "clean")
row_identity = attrgetter("run", "host", "machine", "case", "kind", "at")  # a history has one row of each


def read(folder: Path) -> tuple[list[HistoryRow], list[str]]:
    """All rows in a folder in the order of adding, each once; and for each file with lines that are no rows a
    sentence. Both are empty if the folder does not exist."""
    rows: dict[tuple[str, ...], HistoryRow] = {}
    damaged: list[str] = []
    for path in disk.strict_glob(folder, f"*{SUFFIX}"):
        problems = []
        for number, line in enumerate(disk.content(path).splitlines(), start=1):
            try:
                row = msgspec.json.decode(line, type=HistoryRow)
                rows.setdefault(row_identity(row), row)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                problems.append(f"line {number}: left out, as it is no row: {one_line(str(error), 200)}")
        damaged += [f"{path_text(path)}, {first_of(problems, 1)}"] if problems else []
    return [*rows.values()], damaged


def append(folder: Path, rows: Iterable[HistoryRow]) -> int:
    """Add the missing rows and return their number. Raises OSError if the folder cannot be written."""
    disk.make_folder(folder)
    added = 0
    for target, group in grouped(rows, lambda row: row.target).items():
        with (folder / f"{target}{SUFFIX}").open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            content = file.read()
            # Equal rows are equal lines, so a year's file need not be parsed after each run.
            stored = set(content.splitlines())
            missing = [line for line in dict.fromkeys(map(msgspec.json.encode, group)) if line not in stored]
            # A line that a kill cut off stays a line of its own, which `read` names.
            separator = b"\n" if content and not content.endswith(b"\n") else b""
            file.write(separator + b"".join(line + b"\n" for line in missing))
            added += len(missing)
    return added


def rows_of(record: Publishable) -> list[HistoryRow]:
    """A row for each measurement that may be published and whose run is known."""
    measured: list[tuple[Any, Any, str, dict[str, Estimate]]] = []
    for result in record.points:
        speeds = {"throughput_per_s": result.throughput_per_s, "latency_p99_ms": result.latency_ms["p99"]}
        measured.append((result, "load", f"{result.point.scenario} {result.point}", speeds))
    for score in record.accuracy.scores if record.accuracy and record.main_score else ():
        name, served = "score" if score.better == "higher" else "error", score.served
        measured.append((record.accuracy, "accuracy", score.metric, {name: Estimate(served, served, served)}))
    for measurement in record.efficiency:
        at = f"{measurement.point.scenario} {measurement.point}"
        measured.append((measurement, "efficiency", at, {"in_process_ratio": measurement.ratio}))
    return [
        HistoryRow(
            **{name: getattr(measurement.origin, name) for name in _OF_ORIGIN},
            machine=record_files.machine_digest(record_files.without_names(record.machine)),
            target=record.case.target,
            case=record.name,
            kind=kind,
            at=at,
            figures={
                key: (estimate.value, estimate.low, None if estimate.open_above else estimate.high)
                for key, estimate in estimates.items()
            },
            build=record.build.digest,
            triton=record.serving.triton if record.serving else None,
            samples=measurement.samples if kind == "accuracy" else 0,
        )
        for measurement, kind, at, estimates in measured
        if measurement.origin is not None
    ]
