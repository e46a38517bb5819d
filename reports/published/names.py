"""What NVIDIA's tables call settings and columns, in their order, as data: `names/<model>.csv`."""

import csv
import functools
from dataclasses import dataclass
from pathlib import Path

from reports.record.safe_open import is_plain
from reports.record.schema import COMPONENTS

FOLDER = Path(__file__).parent / "names"

_PARTS = ("parameters", "configuration", "columns")
_DEFAULT = "resnet50"
_MICRO = "-micro"
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
"""Printed names of columns, in lower case and without `(ms)`, and what reports.published.COLUMNS calls
them."""


@dataclass(frozen=True)
class Names:
    """The names in the tables of one model and scenario, as printed and in their order."""

    parameters: tuple[str, ...]
    """Settings that the scenario's tables share; empty where each table has all of its own."""
    configuration: tuple[str, ...]
    """Settings beside each table; some stand only where they apply."""
    columns: tuple[str, ...]


@functools.cache
def names_of(model: str, scenario: str) -> Names:
    """The published names for a model's tables; a micro model has those of its full one.

    A model without publication has ResNet50's; a scenario without one has the model's other scenario's.
    """
    path = FOLDER / f"{model.removesuffix(_MICRO)}.csv"
    if not is_plain(model) or not path.exists():
        path = FOLDER / f"{_DEFAULT}.csv"
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    of_scenario = [row for row in rows if row["scenario"] == scenario] or rows
    return Names(
        *(tuple(row["name"] for row in of_scenario if row["part"] == part) for part in _PARTS),
    )


def column_of(name: str) -> str:
    """The column of reports.published.COLUMNS that a table's column of this printed name is; KeyError where
    it is none."""
    return _COLUMNS[name.lower().removesuffix("(ms)").strip()]
