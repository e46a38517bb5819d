"""The history: a row for each measurement of each run, in one file of JSON lines per target.

Lines are only ever added. Runs that add at the same time wait for each other, and a line that a kill cut off is named and
left out when the history is read.
"""

import fcntl
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from reports.record import atomic, safe_open
from reports.record.files import RecordError, listed
from reports.record.origins import machine_digest
from reports.record.sanitize import one_line
from reports.record.schema import Estimate, Origin, case_id, point_id
from reports.text.labels import counted, grouped
from reports.text.publishable import Publishable

SUFFIX = ".jsonl"
_DEFAULT_RESULTS = Path(__file__).parent / "results"
_LONGEST_REASON = 200

Figure = tuple[float, float, float | None]
"""A value with the bounds of its interval: value, low, high; three times the value where no interval is known, and None for
high where it is open above."""
Kind = Literal["load", "accuracy", "efficiency"]
_Name = Annotated[str, Meta(pattern="^[A-Za-z0-9._-]+$")]
"""A name that stays in its folder when it becomes the name of a file."""


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One measurement: a load point, a metric of the accuracy, or a scenario's efficiency."""

    run: str
    """The id of the run that measured it; this and the next fields but `machine` are as in `schema.Origin`."""
    started: str
    host: str
    machine: _Name
    """Eight hexadecimal digits that stand for the machine's stamp: hardware, driver, system and versions."""
    commit: Annotated[str, Meta(pattern="^[0-9a-f]{7,64}$")] | None
    clean: bool | None
    target: _Name
    case: _Name
    kind: Kind
    at: str
    """The load point (`offline b008-c001`), or the name of the metric."""
    figures: Mapping[str, Figure]
    """The figures by name, with units: throughput_per_s, latency_p99_ms, score, error, in_process_ratio ..."""
    build: str
    """The digest of what the artifact was made from."""
    triton: str | None = None
    samples: int = 0
    """On how many samples a metric was measured."""

    @property
    def key(self) -> tuple[str, ...]:
        """What a history holds once: the run, the machine, the case, and the load point or metric."""
        return (self.run, self.host, self.machine, self.case, self.kind, self.at)


class History(NamedTuple):
    """The rows that the files of a folder hold, and a sentence for each file with lines that are no rows and were left out."""

    rows: Sequence[Row]
    damaged: Sequence[str]


_DECODER = msgspec.json.Decoder(Row)


def folder_of(results: Path) -> Path:
    """Where the history of the records in a folder lies: `reports/history` for the checkout's own, for others in the
    folder, so that a scratch run never adds to the checkout's."""
    if os.path.realpath(results) == os.path.realpath(_DEFAULT_RESULTS):
        return results.parent / "history"
    return results / "history"


def read(folder: Path) -> History:
    """All rows of a folder in the order they were added, each once; none where there is no such folder.

    Raises RecordError where a file cannot be read, and where something else than a folder has its name.
    """
    if os.path.lexists(folder) and not folder.is_dir():
        raise RecordError(f"{folder}: not a folder. Give the one of the history, or leave --history out.")
    rows: dict[tuple[str, ...], Row] = {}
    damaged: list[str] = []
    for path in listed(folder, f"*{SUFFIX}"):
        try:
            found, wrong = _decoded(safe_open.content(path).splitlines())
        except OSError as error:
            raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
        for row in found:
            rows.setdefault(row.key, row)
        if wrong:
            number, why = next(iter(wrong.items()))
            more = f" ({counted(len(wrong) - 1, 'more line')} like it)" if len(wrong) > 1 else ""
            damaged.append(f"{path}, line {number}: left out, as it is no row of a history: {why}{more}")
    return History([*rows.values()], damaged)


def append(folder: Path, rows: Iterable[Row]) -> int:
    """Add the rows that are not there yet; returns how many that were. Raises OSError where the folder cannot be written."""
    atomic.make_folder(folder)
    by_target = grouped(rows, lambda row: row.target)
    return sum(_append(folder / f"{target}{SUFFIX}", found) for target, found in by_target.items())


def _append(path: Path, rows: Sequence[Row]) -> int:
    with path.open("ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        present = file.read()
        # After each test of a run a year of history is looked through, so other runs' lines are not parsed.
        runs = {msgspec.json.encode(row.run) for row in rows}
        own, _ = _decoded([line for line in present.splitlines() if any(run in line for run in runs)])
        known = {row.key for row in own}
        fresh = {row.key: row for row in rows if row.key not in known}
        # A line that a kill cut off stays a line of its own, and is named when it is read.
        start = b"\n" if present and not present.endswith(b"\n") else b""
        file.write(start + b"".join(msgspec.json.encode(row) + b"\n" for row in fresh.values()))
        file.flush()
        os.fsync(file.fileno())
        return len(fresh)


def _decoded(lines: Sequence[bytes]) -> tuple[list[Row], dict[int, str]]:
    """The rows of lines of any origin, and what is wrong with each other line, by its number."""
    rows: list[Row] = []
    wrong: dict[int, str] = {}
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(_DECODER.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            wrong[number] = one_line(str(error), _LONGEST_REASON)
    return rows, wrong


def rows_of(record: Publishable) -> list[Row]:
    """A row for each measurement of a record that may be shown and says where it comes from."""
    rows = []
    for load in record.loads:
        place = point_id(load.batch, load.concurrency, load.request_rate_per_s, load.arrivals)
        figures = {"throughput_per_s": _figure(load.throughput_per_s)}
        if "p99" in load.latency_ms:
            figures["latency_p99_ms"] = _figure(load.latency_ms["p99"])
        rows += _row(record, load.origin, "load", f"{load.scenario} {place}", figures)
    if record.accuracy is not None and not record.accuracy_missing:
        for score in record.accuracy.scores:
            figures = {"score" if score.better == "higher" else "error": (score.served,) * 3}
            rows += _row(
                record, record.accuracy.origin, "accuracy", score.metric, figures, record.accuracy.samples
            )
    for one in record.efficiency:
        at = f"{one.scenario} {point_id(one.batch, one.concurrency)}"
        rows += _row(record, one.origin, "efficiency", at, {"in_process_ratio": _figure(one.ratio)})
    return rows


def _row(
    record: Publishable,
    origin: Origin | None,
    kind: Kind,
    at: str,
    figures: Mapping[str, Figure],
    samples: int = 0,
) -> list[Row]:
    """A row in a list; an empty one where the measurement does not say which run it is of."""
    if origin is None:
        return []
    return [
        Row(
            run=origin.run,
            started=origin.started,
            host=origin.host,
            machine=machine_digest(record.machine),
            commit=origin.commit,
            clean=origin.clean,
            target=record.case.target,
            case=case_id(record.case),
            kind=kind,
            at=at,
            figures=figures,
            build=record.build.digest,
            triton=record.serving.triton if record.serving else None,
            samples=samples,
        )
    ]


def _figure(estimate: Estimate) -> Figure:
    return (estimate.value, estimate.low, None if estimate.open_above else estimate.high)
