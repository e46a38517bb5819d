"""The rows of the history: one for each measurement of a record that names its run."""

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import structs

from reports.record import untrusted
from reports.record.origins import machine_digest
from reports.record.schema import Estimate, Load, Origin, case_id, point_id
from reports.text.labels import grouped, kind_of_device
from reports.text.publishable import Publishable

Figure = tuple[float, float, float | None]
"""A value with the bounds of its interval: value, low, high; three times the value where no interval is known, and None
for high where it is open above."""
Kind = Literal["load", "accuracy", "efficiency", "soak"]
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One measurement: a load point, a metric of the ledger, a scenario's efficiency, or what a soak watched."""

    run: str
    """The id of the run that measured it."""
    started: str
    """When that run began, in UTC, ISO 8601."""
    host: str
    """The machine's network name; empty where it was left out."""
    machine: str
    """Eight hexadecimal digits that stand for the machine's stamp: hardware, driver, system and versions."""
    device: str
    """The CPU or GPU, as a reader knows it."""
    commit: str | None
    """The commit of the checkout; None where it was in no repository."""
    clean: bool | None
    """Whether the checkout's files were those of the commit; None where there is none."""
    target: str
    case: str
    kind: Kind
    at: str
    """The load point (`offline b008-c001`), the name of the metric, or what was watched (`open files`)."""
    figures: Mapping[str, Figure]
    """The figures by name, with units: throughput_per_s, latency_p50_ms, latency_p99_ms; score; in_process_ratio;
    growth_bytes_per_request."""
    build: str
    """The digest of what the artifact was made from."""
    triton: str | None = None
    """The version of Triton; None where the case was not served."""
    better: Literal["higher", "lower"] = "higher"
    """Which way a metric is better; higher: it is a fraction."""
    samples: int = 0
    """On how many samples a metric was measured."""
    passed: bool = True
    """Whether a ledger's limits were kept, and whether what a soak watched was not shown to leak."""
    marks: tuple[str, ...] = ()
    """The codes of why it is to be read with care."""


_DECODER = msgspec.json.Decoder(Row)
Key = tuple[str, str, str, str, str, str]


key: Callable[[Row], Key] = operator.attrgetter("run", "host", "machine", "case", "kind", "at")
"""The key of a row, which is in a history once: run, machine, case, and load point or metric."""


def rows_of(record: Publishable) -> list[Row]:
    """A row for each measurement of a record that may be shown and says where it comes from."""
    return [*_of_loads(record), *_of_accuracy(record), *_of_efficiency(record), *_of_soak(record)]


def without_origin(record: Publishable) -> int:
    """The number of measurements of a record that no history can have, because they do not name their run."""
    origins = [load.origin for load in record.loads] + [one.origin for one in record.efficiency]
    origins += [one.origin for one in (record.accuracy, record.soak) if one]
    return origins.count(None)


def encode(row: Row) -> bytes:
    """The row as a line of JSON; a number that is not finite is a ValueError. `run` comes first."""
    values = structs.asdict(row)
    return json.dumps(values, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def decode_lines(content: bytes) -> Sequence[Row] | None:
    """The rows of lines of whatever origin; None where one of them is no whole row."""
    try:
        found = _DECODER.decode_lines(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    # Plots have these in their names.
    names = {name for row in found for name in (row.target, row.case, row.machine)}
    commits = {row.commit for row in found} - {None}
    is_sound = all(map(untrusted.is_plain, names)) and all(_COMMIT.fullmatch(one) for one in commits if one)
    return found if is_sound and "" not in commits else None


def _of_loads(record: Publishable) -> Iterator[Row]:
    for load in record.loads:
        if load.origin is not None:
            latencies = {
                f"latency_{name}_ms": figure(load.latency_ms[name])
                for name in ("p50", "p99")
                if name in load.latency_ms
            }
            figures = {"throughput_per_s": figure(load.throughput_per_s), **latencies}
            marks = tuple(dict.fromkeys(mark.code for mark in load.marks))
            yield _row(record, load.origin, "load", _point(load), figures, marks=marks)


def _of_accuracy(record: Publishable) -> Iterator[Row]:
    ledger = record.accuracy
    if ledger is None or ledger.origin is None or record.accuracy_missing:
        return
    for score in ledger.scores:
        figures = {"score": (score.served, score.served, score.served)}
        more = {"better": score.better, "samples": ledger.samples, "passed": ledger.passed}
        yield _row(record, ledger.origin, "accuracy", score.metric, figures, **more)


def _of_efficiency(record: Publishable) -> Iterator[Row]:
    for one in record.efficiency:
        if one.origin is not None:
            at = f"{one.scenario} {point_id(one.batch, one.concurrency)}"
            yield _row(record, one.origin, "efficiency", at, {"in_process_ratio": figure(one.ratio)})


def _of_soak(record: Publishable) -> Iterator[Row]:
    soak = record.soak
    if soak is None or soak.origin is None:
        return
    for what, grown in grouped(soak.growth, lambda one: one.what).items():
        figures = {f"growth_{one.unit}_per_{one.per}": figure(one.slope) for one in grown}
        passed = all(one.verdict != "failed" for one in grown)
        yield _row(record, soak.origin, "soak", what, figures, passed=passed)


def _row(
    record: Publishable, origin: Origin, kind: Kind, at: str, figures: Mapping[str, Figure], **more: Any
) -> Row:
    return Row(
        run=origin.run,
        started=origin.started,
        host=origin.host,
        machine=machine_digest(record.machine),
        device=kind_of_device(record),
        commit=origin.commit,
        clean=origin.clean,
        target=record.case.target,
        case=case_id(record.case),
        kind=kind,
        at=at,
        figures=figures,
        build=record.build.digest,
        triton=record.serving.triton if record.serving else None,
        **more,
    )


def _point(load: Load) -> str:
    place = point_id(load.batch, load.concurrency, load.request_rate_per_s, load.arrivals)
    return f"{load.scenario} {place}"


def figure(estimate: Estimate) -> Figure:
    """An estimate as a row of the history has it."""
    return (estimate.value, estimate.low, None if estimate.open_above else estimate.high)
