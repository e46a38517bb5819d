"""The figures NVIDIA published for its Triton deployments, as data: one CSV per model, one row per table
row."""

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.record.schema import COMPONENTS

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Path(__file__).parent

_TEXTS = (
    "model",
    "gpu",
    "gpu_label",
    "scenario",
    "format",
    "accelerator",
    "precision",
    "accelerator_precision",
)
_COMPONENTS_MS = tuple(f"{name}_ms" for name in COMPONENTS)
_LATENCIES_MS = tuple(f"latency_{name}_ms" for name in ("p50", "p90", "p95", "p99", "avg"))

#: Every column in its order, with its type. A cell is missing where the source does not publish the quantity.
COLUMNS = {
    **dict.fromkeys(_TEXTS, "string"),
    "max_batch_size": "Int64",
    "instances": "Int64",
    "max_queue_delay_us": "Int64",
    "preferred_batch_sizes": "string",  # such as `64 128`
    "cuda_graphs": "boolean",
    "sequence_length": "Int64",
    "metric": "string",
    "score_percent": "float64",
    "batch": "Int64",
    "concurrency": "Int64",
    "throughput_per_s": "float64",
    **dict.fromkeys(_COMPONENTS_MS, "float64"),
    **dict.fromkeys(_LATENCIES_MS, "float64"),
    "source": "string",
    "table": "Int64",  # from 1, within its source
}


def load() -> "pd.DataFrame":
    """Every published row, ordered by model and then as in its source; the columns are COLUMNS."""
    import pandas as pd

    tables = [pd.read_csv(path, dtype=COLUMNS) for path in sorted(FOLDER.glob("*.csv"))]
    return pd.concat(tables, ignore_index=True)


def rows() -> list[dict[str, Any]]:
    """Every published row as plain values by column, None where a cell is empty. Without pandas, which takes
    long to import."""
    found = []
    for path in sorted(FOLDER.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            found += [
                {name: _PLAIN[kind](row[name]) if row[name] else None for name, kind in COLUMNS.items()}
                for row in csv.DictReader(file)
            ]
    return found


_PLAIN: Mapping[str, Callable[[str], Any]] = {
    "string": str,
    "Int64": int,
    "boolean": lambda cell: cell == "True",
    "float64": float,
}
