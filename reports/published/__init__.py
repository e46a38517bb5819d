"""The figures NVIDIA published for its Triton deployments, as data, and the records to compare with them.

A CSV per model has a line per table row; `names/<model>.csv` has the names of the tables' settings and
columns, in their order.
"""

import csv
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from reports.record.safe_open import is_plain
from reports.record.schema import COMPONENTS, Estimate, Load, Record
from reports.text.publishable import Publishable

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Path(__file__).parent
_NAMES = FOLDER / "names"

_CASE = ("model", "gpu", "gpu_label", "scenario", "format", "accelerator", "precision")
_LATENCIES_MS = tuple(f"latency_{name}_ms" for name in ("p50", "p90", "p95", "p99", "avg"))

#: Every column in order, with the parser of its cells. A cell is empty where the source has no such figure.
COLUMNS: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys((*_CASE, "accelerator_precision"), str),
    "max_batch_size": int,
    "instances": int,
    "max_queue_delay_us": int,
    "preferred_batch_sizes": str,  # such as `64 128`
    "cuda_graphs": lambda cell: cell == "True",
    "sequence_length": int,
    "metric": str,
    "score_percent": float,
    "batch": int,
    "concurrency": int,
    "throughput_per_s": float,
    **dict.fromkeys((*(f"{name}_ms" for name in COMPONENTS), *_LATENCIES_MS), float),
    "source": str,
    "table": int,  # from 1, within its source
}
PublishedRow = Mapping[str, Any]
"""A published row by column; None where the source does not publish the quantity."""


def load() -> "pd.DataFrame":
    """Every published row in one table, whose columns are COLUMNS."""
    import pandas as pd  # takes long to import, and `rows` does without

    return pd.DataFrame(rows()).convert_dtypes(convert_floating=False)


@functools.cache
def rows() -> Sequence[PublishedRow]:
    """Every published row, ordered by model and then as in its source."""
    published_rows = []
    for path in sorted(FOLDER.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            published_rows += [
                {name: read(row[name]) if row[name] else None for name, read in COLUMNS.items()}
                for row in csv.DictReader(file)
            ]
    return published_rows


# --- the names in print ------------------------------------------------------------------------------------

_PRINTED = {
    "precision": "precision",
    "backend accelerator": "accelerator",
    "sequence length": "sequence_length",
    "client batch size": "batch",
    "batch": "batch",
    "concurrent client requests": "concurrency",
    "concurrency": "concurrency",
    "inferences/second": "throughput_per_s",
    "network+server send/recv": "network_server_send_recv_ms",
    **{name.replace("_", " "): f"{name}_ms" for name in COMPONENTS},
    **{f"{name} latency": f"latency_{name}_ms" for name in ("p50", "p90", "p95", "p99", "avg")},
}
"""The names in COLUMNS by those in print, in lower case and without `(ms)`."""


@dataclass(frozen=True)
class Names:
    """The names in the tables of one model and scenario, as printed and in their order."""

    parameters: tuple[str, ...]
    """Settings that the scenario's tables share; empty if each table lists all of its own."""
    configuration: tuple[str, ...]
    """Settings beside each table; some appear only where they apply."""
    columns: tuple[str, ...]


@functools.cache
def names_of(model: str, scenario: str) -> Names:
    """The published names for a model's tables. A micro model uses those of its full size, an unpublished
    model ResNet50's, and an unpublished scenario those of the model's other scenario."""
    path = _NAMES / f"{model.removesuffix('-micro')}.csv"
    if not is_plain(model) or not path.exists():
        path = _NAMES / "resnet50.csv"
    with path.open(newline="", encoding="utf-8") as file:
        entries = list(csv.DictReader(file))
    chosen = [entry for entry in entries if entry["scenario"] == scenario] or entries
    parts = ("parameters", "configuration", "columns")
    return Names(*(tuple(entry["name"] for entry in chosen if entry["part"] == part) for part in parts))


def column_of(name: str) -> str:
    """The name in COLUMNS of the column printed as `name`; KeyError if there is none."""
    return _PRINTED[name.lower().removesuffix("(ms)").strip()]


# --- the rows that a record may be compared with -----------------------------------------------------------

# Accelerators that the format implies: NVIDIA lists them beside it, and the name of a case leaves them out.
_IMPLIED = {"ts-trace": "cuda", "ts-script": "cuda", "tf-trt": "trt"}

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
    model, served = record.case.model, served_as(structs.asdict(record.case))
    of_model = [row for row in rows() if row["model"] == model]
    served_alike = [row for row in of_model if served_as(row) == served]
    if not of_model:
        models = ", ".join(sorted({row["model"] for row in rows()}))
        missing = f"NVIDIA published no figures of {model}, only of {models}."
    elif not served_alike:
        names = ", ".join(dict.fromkeys(" ".join(filter(None, served_as(row))) for row in of_model))
        missing = f"NVIDIA published {model} as {names}, not as {' '.join(filter(None, served))}."
    return Match(record, [row for row in served_alike if is_same_gpu(record, row)] or served_alike, missing)


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


def served_as(case: Mapping[str, Any]) -> tuple[str | None, ...]:
    """Format, accelerator unless the format implies it, and precision, of a published row or a case."""
    format_, accelerator = case["format"], case["accelerator"]
    return format_, None if accelerator == _IMPLIED.get(format_) else accelerator, case["precision"]


def is_same_gpu(record: Record, row: PublishedRow) -> bool:
    return bool(row["gpu"] == record.case.target)


def measured_points(record: Publishable) -> dict[PointKey, Load]:
    """The load points, without those at a request rate, as NVIDIA published none."""
    return {_point(load): load for load in record.loads if load.request_rate_per_s is None}


def _point(load: Load) -> PointKey:
    return load.scenario, load.batch, load.concurrency


def point_of(row: PublishedRow) -> PointKey:
    return row["scenario"], row["batch"], row["concurrency"]


class Pair(NamedTuple):
    """A measured load point, and the published row of the same point."""

    load: Load
    row: PublishedRow


def pairs(record: Publishable, rows: Sequence[PublishedRow]) -> list[Pair]:
    """Each published load point that was measured too, in the order of the source."""
    loads = measured_points(record)
    return [Pair(loads[point_of(row)], row) for row in rows if point_of(row) in loads]


def published_ratio(record: Publishable, load: Load) -> Estimate | None:
    """The load's throughput over the one published for the same GPU, format, accelerator, precision and load
    point; None if there is none."""
    rows_of_gpu = {point_of(row): row for row in match(record).rows if is_same_gpu(record, row)}
    row = None if load.request_rate_per_s is not None else rows_of_gpu.get(_point(load))
    return over_published(load.throughput_per_s, row["throughput_per_s"]) if row else None


def over_published(measured: Estimate, reference: float) -> Estimate:
    """A measured figure over a published one. NVIDIA gives no interval: the ratio has the measured one."""
    bounds = (measured.value / reference, measured.low / reference, measured.high / reference)
    return Estimate(*bounds, measured.confidence, open_above=measured.open_above)
