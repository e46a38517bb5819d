"""The figures NVIDIA published for its Triton deployments, as data: a CSV per model, a line per table row.
`names/<model>.csv` has the names of the tables' settings and columns, in their order."""

import csv
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.record.safe_open import is_plain
from reports.record.schema import COMPONENTS

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


def load() -> "pd.DataFrame":
    """Every published row in one table, whose columns are COLUMNS."""
    import pandas as pd  # takes long to import, and `rows` does without

    return pd.DataFrame(rows()).convert_dtypes(convert_floating=False)


@functools.cache
def rows() -> Sequence[Mapping[str, Any]]:
    """Every published row by column, ordered by model and then as in its source; None for an empty cell."""
    published_rows = []
    for path in sorted(FOLDER.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            published_rows += [
                {name: read(row[name]) if row[name] else None for name, read in COLUMNS.items()}
                for row in csv.DictReader(file)
            ]
    return published_rows


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
    """The name in reports.published.COLUMNS of the column printed as `name`; KeyError if there is none."""
    return _PRINTED[name.lower().removesuffix("(ms)").strip()]
