"""The figures NVIDIA published for its Triton deployments, as data: one CSV per model, one row per table row."""

from pathlib import Path

import pandas as pd

from reports.record import COMPONENTS

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


def load(folder: Path = FOLDER) -> pd.DataFrame:
    """Every published row, ordered by model and then as in its source; the columns are COLUMNS."""
    parts = [pd.read_csv(path, dtype=COLUMNS) for path in sorted(folder.glob("*.csv"))]
    return pd.concat(parts, ignore_index=True)[list(COLUMNS)]
