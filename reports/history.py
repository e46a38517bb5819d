"""The history: a row for each measurement of each run, in one file of JSON lines per target.

Lines are only ever added. Runs that add at the same time wait for each other, and a line that a kill cut off
is named and left out when the history is read.
"""

import fcntl
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from reports.record import atomic, safe_open
from reports.record.files import listed
from reports.record.origins import machine_digest
from reports.record.sanitize import one_line
from reports.record.schema import Estimate, case_id, point_id
from reports.text.labels import counted, grouped
from reports.text.publishable import Publishable

SUFFIX = ".jsonl"
_DEFAULT_RESULTS = Path(__file__).parent / "results"
_LONGEST_REASON = 200

Figure = tuple[float, float, float | None]
"""A value with the bounds of its interval: value, low, high; three times the value where no interval is
known, and None for high where it is open above."""
_Name = Annotated[str, Meta(pattern="^[A-Za-z0-9._-]+$")]
"""A name that stays in its folder when it becomes the name of a file."""


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One measurement: a load point, a metric of the accuracy, or a scenario's efficiency."""

    run: str
    """The id of the run that measured it; this and the next fields but `machine` are as in
    `schema.Origin`."""
    started: str
    host: str
    machine: _Name
    """Eight hexadecimal digits that stand for the machine's stamp: hardware, driver, system and versions."""
    commit: Annotated[str, Meta(pattern="^[0-9a-f]{7,64}$")] | None
    clean: bool | None
    target: _Name
    case: _Name
    kind: Literal["load", "accuracy", "efficiency"]
    at: str
    """The load point (`offline b008-c001`), or the name of the metric."""
    figures: Mapping[str, Figure]
    """The figures by name, with units: throughput_per_s, latency_p99_ms, score, error, in_process_ratio."""
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
    """The rows that the files of a folder hold, and a sentence for each file with lines that are no rows and
    were left out."""

    rows: Sequence[Row]
    damaged: Sequence[str]


_DECODER = msgspec.json.Decoder(Row)


def folder_of(results: Path) -> Path:
    """Where the history of the records in a folder lies: `reports/history` for the checkout's own, for others
    in the folder, so that a scratch run never adds to the checkout's."""
    is_own = os.path.realpath(results) == os.path.realpath(_DEFAULT_RESULTS)
    return (results.parent if is_own else results) / "history"


def read(folder: Path) -> History:
    """All rows of a folder in the order they were added, each once; none where there is no such folder."""
    rows: dict[tuple[str, ...], Row] = {}
    damaged: list[str] = []
    for path in listed(folder, f"*{SUFFIX}"):
        found, wrong = _decoded(safe_open.content(path).splitlines())
        for row in found:
            rows.setdefault(row.key, row)
        if wrong:
            more = f" ({counted(len(wrong) - 1, 'more line')} like it)" if len(wrong) > 1 else ""
            damaged.append(f"{path}, line {wrong[0]}{more}")
    return History([*rows.values()], damaged)


def append(folder: Path, rows: Iterable[Row]) -> int:
    """Add the rows that are not there yet; returns how many that were. Raises OSError where the folder cannot
    be written."""
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


def _decoded(lines: Sequence[bytes]) -> tuple[list[Row], list[str]]:
    """The rows of lines of any origin, and for each other line its number and what is wrong with it."""
    rows: list[Row] = []
    wrong: list[str] = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(_DECODER.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            reason = one_line(str(error), _LONGEST_REASON)
            wrong.append(f"{number}: left out, as it is no row of a history: {reason}")
    return rows, wrong


def rows_of(record: Publishable) -> list[Row]:
    """A row for each measurement of a record that may be shown and says which run it is of."""
    ledger = None if record.accuracy_missing else record.accuracy
    found: list[tuple[Any, Any, str, dict[str, Figure]]] = []
    for load in record.loads:
        place = point_id(load.batch, load.concurrency, load.request_rate_per_s, load.arrivals)
        figures = {
            "throughput_per_s": _figure(load.throughput_per_s),
            "latency_p99_ms": _figure(load.latency_ms["p99"]),
        }
        found.append((load, "load", f"{load.scenario} {place}", figures))
    for score in ledger.scores if ledger else ():
        name = "score" if score.better == "higher" else "error"
        found.append((ledger, "accuracy", score.metric, {name: (score.served,) * 3}))
    for one in record.efficiency:
        at = f"{one.scenario} {point_id(one.batch, one.concurrency)}"
        found.append((one, "efficiency", at, {"in_process_ratio": _figure(one.ratio)}))
    case: dict[str, Any] = {
        "machine": machine_digest(record.machine),
        "target": record.case.target,
        "case": case_id(record.case),
        "build": record.build.digest,
        "triton": record.serving.triton if record.serving else None,
    }
    return [
        Row(
            **case,
            **{name: getattr(one.origin, name) for name in ("run", "started", "host", "commit", "clean")},
            kind=kind,
            at=at,
            figures=figures,
            samples=one.samples if kind == "accuracy" else 0,
        )
        for one, kind, at, figures in found
        if one.origin is not None
    ]


def _figure(estimate: Estimate) -> Figure:
    return (estimate.value, estimate.low, None if estimate.open_above else estimate.high)
