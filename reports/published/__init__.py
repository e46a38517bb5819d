"""The figures NVIDIA published for its Triton deployments, as data: a CSV per model, a line per table row."""

import csv
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.record.schema import COMPONENTS

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Path(__file__).parent

_CASE = ("model", "gpu", "gpu_label", "scenario", "format", "accelerator", "precision")
_LATENCIES_MS = tuple(f"latency_{name}_ms" for name in ("p50", "p90", "p95", "p99", "avg"))

#: Every column in its order, with what reads its cells. A cell is empty where the source has no such figure.
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
    found = []
    for path in sorted(FOLDER.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            found += [
                {name: read(row[name]) if row[name] else None for name, read in COLUMNS.items()}
                for row in csv.DictReader(file)
            ]
    return found
