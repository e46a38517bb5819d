"""Matches records with the published figures of the same model, format, precision and GPU."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports import published
from reports.record.schema import Estimate, Load, LoadSetting, Record
from reports.text.publishable import Publishable

# Accelerators that the format implies: NVIDIA lists them beside it, and the name of a case leaves them out.
_IMPLIED = {"ts-trace": "cuda", "ts-script": "cuda", "tf-trt": "trt"}

PublishedRow = Mapping[str, Any]
"""A published row by column; None where the source does not publish the quantity."""
PointKey = tuple[str, int, int]
"""Scenario, batch and concurrency."""


@dataclass(frozen=True)
class Match:
    """A record and the published rows that it may be compared with."""

    record: Publishable
    rows: Sequence[PublishedRow]
    """Those of the record's GPU if there are any, else of every published GPU."""
    missing: str
    """A sentence on why there are no rows; empty if there are some."""


def match(record: Publishable) -> Match:
    """A record with the published rows of its model, format, accelerator and precision."""
    if missing := _part_or_several_gpus(record):
        return Match(record, (), missing)
    rows, model = published.rows(), record.case.model
    of_model = [row for row in rows if row["model"] == model]
    served_alike = [row for row in of_model if served_as(row) == measured_as(record)]
    if not of_model:
        models = ", ".join(sorted({row["model"] for row in rows}))
        missing = f"NVIDIA published no figures of {model}, only of {models}."
    elif not served_alike:
        names = ", ".join(dict.fromkeys(format_name(served_as(row)) for row in of_model))
        missing = f"NVIDIA published {model} as {names}, not as {format_name(measured_as(record))}."
    return Match(record, [row for row in served_alike if is_same_gpu(record, row)] or served_alike, missing)


def published_ratio(record: Publishable, load: Load) -> Estimate | None:
    """The load's throughput over the one published for the same GPU, format, accelerator, precision and load
    point; None if there is none."""
    if load.request_rate_per_s is not None:
        return None
    rows = (row for row in match(record).rows if is_same_gpu(record, row) and point_of(row) == point(load))
    reference = next((row["throughput_per_s"] for row in rows), None)
    return over_published(load.throughput_per_s, reference) if reference else None


def over_published(measured: Estimate, reference: float) -> Estimate:
    """A measured figure over a published one. NVIDIA gives no interval: the ratio has the measured one."""
    bounds = (measured.value / reference, measured.low / reference, measured.high / reference)
    return Estimate(*bounds, measured.confidence, open_above=measured.open_above)


def _part_or_several_gpus(record: Record) -> str:
    """A sentence if the record is not of one whole GPU, as all published figures are. A slice may have its
    GPU's target, so the driver's name for it counts too."""
    if record.case.target == "mig" or re.search(r"\bMIG\b", record.machine.gpu or ""):
        return (
            f"It was measured on {record.machine.gpu}, a part of a GPU; NVIDIA's figures are of whole ones."
        )
    if record.case.gpus > 1:
        return f"It was measured on {record.case.gpus} GPUs; NVIDIA's figures are of one."
    return ""


def measured_as(record: Record) -> tuple[str | None, ...]:
    """The value of `served_as` for a record, to compare with that of a published row."""
    case = record.case
    return served_as({"format": case.format, "accelerator": case.accelerator, "precision": case.precision})


def served_as(row: PublishedRow) -> tuple[str | None, ...]:
    """Format, accelerator unless the format implies it, and precision."""
    format_, accelerator = row["format"], row["accelerator"]
    return format_, None if accelerator == _IMPLIED.get(format_) else accelerator, row["precision"]


def is_same_gpu(record: Record, row: PublishedRow) -> bool:
    return bool(row["gpu"] == record.case.target)


def format_name(served: Sequence[str | None]) -> str:
    """The format's name in a sentence, such as `onnx trt fp16`."""
    return " ".join(part for part in served if part)


def pairs(record: Publishable, rows: Sequence[PublishedRow]) -> Iterator[tuple[Load, PublishedRow]]:
    """Each load point with the row of the same point, in the order of the source."""
    loads = measured_points(record)
    for row in rows:
        if load := loads.get(point_of(row)):
            yield load, row


def measured_points(record: Publishable) -> dict[PointKey, Load]:
    """The load points, without those at a request rate, as NVIDIA published none."""
    return {point(load): load for load in record.loads if load.request_rate_per_s is None}


def point(at: LoadSetting) -> PointKey:
    return at.scenario, at.batch, at.concurrency


def point_of(row: PublishedRow) -> PointKey:
    return row["scenario"], row["batch"], row["concurrency"]
