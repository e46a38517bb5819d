"""What NVIDIA's tables call settings and columns, in their order, as data: `names/<model>.csv`."""

import csv
import functools
from dataclasses import dataclass
from pathlib import Path

from reports.record.safe_open import is_plain
from reports.record.schema import COMPONENTS

FOLDER = Path(__file__).parent / "names"

_COLUMNS = {
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
"""The names in reports.published.COLUMNS by those in print, in lower case and without `(ms)`."""


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
    path = FOLDER / f"{model.removesuffix('-micro')}.csv"
    if not is_plain(model) or not path.exists():
        path = FOLDER / "resnet50.csv"
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    chosen = [row for row in rows if row["scenario"] == scenario] or rows
    parts = ("parameters", "configuration", "columns")
    return Names(*(tuple(row["name"] for row in chosen if row["part"] == part) for part in parts))


def column_of(name: str) -> str:
    """The name in reports.published.COLUMNS of a column with this printed name; KeyError if there is none."""
    return _COLUMNS[name.lower().removesuffix("(ms)").strip()]
