"""Which of the figures NVIDIA published a record may stand beside: same model, format, precision and GPU.

Like stands beside like; where it is other hardware, the callers say so.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports import published
from reports.record.schema import Estimate, Load, LoadSetting, Record
from reports.text.labels import grouped
from reports.text.publishable import HiddenPoint, Publishable

# Accelerators that a format's name already says: published beside it, and none in a case's name.
_IMPLIED = {"ts-trace": "cuda", "ts-script": "cuda", "tf-trt": "trt"}

PublishedRow = Mapping[str, Any]
"""A published row by column; None where the source does not publish the quantity."""
PointKey = tuple[str, int, int]
"""Scenario, batch and concurrency."""


@dataclass(frozen=True)
class Match:
    """A record and the published rows it may stand beside."""

    record: Publishable
    rows: Sequence[PublishedRow]
    """All of the record's GPU where there are some, else of every published GPU."""
    missing: str
    """Why there are no rows, as a sentence; empty where there are some."""


@functools.cache
def _published() -> Sequence[PublishedRow]:
    return published.rows()


def match(record: Publishable) -> Match:
    """A record with the published rows of its model, format, accelerator and precision."""
    rows = _published()
    case = record.case
    of_model = [row for row in rows if row["model"] == case.model]
    like = [row for row in of_model if served_as(row) == measured_as(record)]
    of_gpu = [row for row in like if is_same_gpu(record, row)]
    missing = _why_beside_none(record)
    if missing:
        return Match(record, (), missing)
    if not of_model:
        models = ", ".join(sorted({row["model"] for row in rows}))
        missing = f"NVIDIA published no figures of {case.model}, only of {models}."
    elif not like:
        names = ", ".join(dict.fromkeys(format_name(served_as(row)) for row in of_model))
        missing = f"NVIDIA published {case.model} as {names}, not as {format_name(measured_as(record))}."
    return Match(record, of_gpu or like, missing)


def published_ratio(record: Publishable, load: Load) -> Estimate | None:
    """The load's throughput over that published for the same GPU, format, accelerator, precision and point.

    The published figure has no interval: the ratio's is the measured one over it. None where nothing was
    published for just this.
    """
    if load.request_rate_per_s is not None:
        return None
    rows = (row for row in match(record).rows if is_same_gpu(record, row) and point_of(row) == point(load))
    reference = next((row["throughput_per_s"] for row in rows), None)
    if not reference:
        return None
    return over_published(load.throughput_per_s, reference)


def over_published(measured: Estimate, reference: float) -> Estimate:
    """A measured figure over a published one, which has no interval: the ratio's is the measured one over
    it."""
    bounds = (measured.value / reference, measured.low / reference, measured.high / reference)
    return Estimate(*bounds, measured.confidence, open_above=measured.open_above)


def _why_beside_none(record: Record) -> str:
    """Why a record may stand beside nothing that was published, as a sentence: all of that is of one whole
    GPU. A slice may have the target of a GPU too, so its driver's name tells."""
    if record.case.target == "mig" or re.search(r"\bMIG\b", record.machine.gpu or ""):
        return (
            f"It was measured on {record.machine.gpu}, a part of a GPU; NVIDIA's figures are of whole ones."
        )
    if record.case.gpus > 1:
        return f"It was measured on {record.case.gpus} GPUs; NVIDIA's figures are of one."
    return ""


def measured_as(record: Record) -> tuple[str | None, ...]:
    """Format, accelerator and precision of a record, as `served_as` gives those of a published row."""
    case = record.case
    return served_as({"format": case.format, "accelerator": case.accelerator, "precision": case.precision})


def served_as(row: PublishedRow) -> tuple[str | None, ...]:
    """Format, accelerator unless the format's name says it, and precision."""
    format_, accelerator = row["format"], row["accelerator"]
    return format_, None if accelerator == _IMPLIED.get(format_) else accelerator, row["precision"]


def is_same_gpu(record: Record, row: PublishedRow) -> bool:
    return bool(row["gpu"] == record.case.target)


def format_name(served: Sequence[str | None]) -> str:
    """The format's name in a sentence, such as `onnx trt fp16`."""
    return " ".join(part for part in served if part)


def groups(match: Match) -> list[list[PublishedRow]]:
    """The rows of each published GPU, in the order of their source."""
    return list(grouped(match.rows, lambda row: row["gpu"]).values())


def pairs(
    record: Publishable, rows: Sequence[PublishedRow]
) -> Iterator[tuple[Load | HiddenPoint, PublishedRow]]:
    """Each measured point, shown or hidden, with the row of the same point, in the order of the source:
    offline comes first."""
    found = measured_points(record)
    for row in rows:
        if at := found.get(point_of(row)):
            yield at, row


def measured_points(record: Publishable) -> dict[PointKey, Load | HiddenPoint]:
    """The measured points, shown or hidden; those at a request rate were not published, nor is anything like
    them."""
    measured: tuple[Load | HiddenPoint, ...] = (*record.loads, *record.hidden)
    return {point(at): at for at in measured if at.request_rate_per_s is None}


def point(at: LoadSetting) -> PointKey:
    return at.scenario, at.batch, at.concurrency


def point_of(row: PublishedRow) -> PointKey:
    return row["scenario"], row["batch"], row["concurrency"]
