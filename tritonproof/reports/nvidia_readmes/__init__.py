"""The figures NVIDIA published for its Triton deployments, as data, and the records to compare with them.

A CSV per model has a line per table row; `names/<model>.csv` names the settings and columns in order."""

import csv
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from tritonproof.record.schema import COMPONENTS, Estimate, LoadPoint, PointResult, Ratio
from tritonproof.reports import phrases
from tritonproof.reports.publishable import Publishable

FOLDER = Path(__file__).parent
_INTEGERS = ("max_batch_size", "instances", "max_queue_delay_us", "sequence_length", "batch", "concurrency")
_LATENCIES = ("p50", "p90", "p95", "p99", "avg")
TYPES: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys((*_INTEGERS, "table"), int),
    "cuda_graphs": lambda cell: cell == "True",
    **dict.fromkeys(("score_percent", "throughput_per_s", *(f"{name}_ms" for name in COMPONENTS)), float),
    **dict.fromkeys((f"latency_{name}_ms" for name in _LATENCIES), float),
}
"""The parsers of the columns that are no text. A cell is empty where the source has no such figure."""
NvidiaRow = Mapping[str, Any]
"""A published row by column; None where the source does not publish the quantity."""


@functools.cache
def rows() -> Sequence[NvidiaRow]:
    """Every published row, ordered by model and then as in its source."""
    return [
        {name: TYPES.get(name, str)(cell) if cell else None for name, cell in row.items()}
        for path in sorted(FOLDER.glob("*.csv"))
        for row in _lines_of(path)
    ]


def _lines_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


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
    **{f"{name} latency": f"latency_{name}_ms" for name in _LATENCIES},
}
"""The names of columns by those in print, in lower case and without `(ms)`."""


@dataclass(frozen=True)
class TableNames:
    """The names in the tables of one model and scenario, as printed and in their order."""

    parameters: tuple[str, ...]
    """Settings that the scenario's tables share; empty if each table lists all of its own."""
    configuration: tuple[str, ...]
    """Settings beside each table; some appear only where they apply."""
    columns: tuple[str, ...]


@functools.cache
def nvidia_names(model: str, scenario: str) -> TableNames:
    """The published names for a model's tables. A micro model uses those of its full size, an unpublished
    model ResNet50's, and an unpublished scenario those of the model's other scenario."""
    path = FOLDER / "names" / f"{model.removesuffix('-micro')}.csv"
    if not path.exists():
        path = FOLDER / "names" / "resnet50.csv"
    entries = _lines_of(path)
    chosen = [entry for entry in entries if entry["scenario"] == scenario] or entries
    parts = ("parameters", "configuration", "columns")
    return TableNames(*(tuple(entry["name"] for entry in chosen if entry["part"] == part) for part in parts))


def nvidia_column(name: str) -> str:
    """The name of the column printed as `name`; KeyError if there is none."""
    return _PRINTED[name.lower().removesuffix("(ms)").strip()]


# Accelerators that the format implies: NVIDIA lists them beside it, and the name of a case leaves them out.
_IMPLIED = {"ts-trace": "cuda", "ts-script": "cuda", "tf-trt": "trt"}


@dataclass(frozen=True)
class NvidiaMatch:
    """A record and the published rows that it may be compared with."""

    record: Publishable
    rows: Sequence[NvidiaRow]
    """Those of the record's GPU if there are any, else of every published GPU."""
    why_no_rows: str
    """A sentence on why there are no rows; empty if there are some."""


def match_nvidia(record: Publishable) -> NvidiaMatch:
    """A record with the published rows of its model, format, accelerator and precision. All published figures
    are of one whole GPU; a slice may have its GPU's target, so the driver's name for it counts too."""
    case = record.case
    if case.gpus > 1 or case.target == "mig" or re.search(r"\bMIG\b", record.machine.gpu or ""):
        why = f"It was measured on {phrases.device_text(record)}; NVIDIA's figures are of one whole GPU."
        return NvidiaMatch(record, (), why)
    served = served_as(structs.asdict(case))
    alike = [row for row in rows() if row["model"] == case.model and served_as(row) == served]
    why = "" if alike else f"NVIDIA published no figures of {case.model} as {' '.join(filter(None, served))}."
    return NvidiaMatch(record, [row for row in alike if row["gpu"] == case.target] or alike, why)


def served_as(case: Mapping[str, Any]) -> tuple[str | None, ...]:
    """Format, accelerator unless the format implies it, and precision, of a published row or a case."""
    format_, accelerator = case["format"], case["accelerator"]
    return format_, None if accelerator == _IMPLIED.get(format_) else accelerator, case["precision"]


def nvidia_point(row: NvidiaRow) -> LoadPoint:
    return LoadPoint(row["scenario"], row["batch"], row["concurrency"])


class NvidiaPair(NamedTuple):
    """A measured load point, and the published row of the same point."""

    result: PointResult
    row: NvidiaRow


def pairs(record: Publishable, rows: Sequence[NvidiaRow]) -> list[NvidiaPair]:
    """Each published load point that was measured too, in the order of the source."""
    results = {result.point: result for result in record.points}
    return [NvidiaPair(results[at], row) for row in rows if (at := nvidia_point(row)) in results]


def nvidia_ratio(record: Publishable, result: PointResult) -> Ratio | None:
    """The throughput over that published for the same GPU, format, precision and load point, or None."""
    rows = match_nvidia(record).rows
    row_of = {nvidia_point(row): row for row in rows if row["gpu"] == record.case.target}
    return ratio_to_nvidia(result.throughput_per_s, row_of.get(result.point, {}).get("throughput_per_s"))


def ratio_to_nvidia(measured: Estimate | None, published: float | None) -> Ratio | None:
    """A measured figure over a published one. NVIDIA gives no interval: the ratio has the measured one."""
    if measured is None or not published:
        return None
    bounds = (measured.value / published, measured.low / published, measured.high / published)
    return Ratio(*bounds, measured.confidence, open_above=measured.open_above)
