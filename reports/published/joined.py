"""Measured points and their published rows as a tidy table, with the ratios and what is not alike."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from reports.compare.setup_changes import setting_text
from reports.published.matching import (
    Match,
    PublishedRow,
    format_name,
    groups,
    is_same_format,
    is_same_gpu,
    measured_as,
    over_published,
    pairs,
    point,
    served_as,
)
from reports.record.quantities import RATIO
from reports.record.schema import Estimate, Load, Record
from reports.words.labels import device
from reports.words.marks import notes
from reports.words.shown import HiddenPoint, Shown, name_of

# The quantities that are compared: name and unit of the columns, here and in the published figures.
_QUANTITIES = (("throughput", "per_s"), ("latency_p99", "ms"), ("latency_avg", "ms"))
_OF_CASE = ("target", "model", "format", "accelerator", "precision")
_OF_POINT = ("scenario", "batch", "concurrency")
_OF_ROW = ("gpu", "gpu_label", "format", "accelerator", "precision", "score_percent", "source", "table")

#: Every column of the tidy table, in its order. `ratio` is measured over published, and so are its bounds.
COLUMNS = (
    *("case", *_OF_CASE, "device", "passed", "why_no_speed", *_OF_POINT),
    *(f"published_{name}" for name in _OF_ROW),
    *("same_gpu", "same_format", "differences", "metric", "score_percent", "notes"),
    *(
        column
        for name, unit in _QUANTITIES
        for column in (
            *(f"{name}{part}_{unit}" for part in ("", "_low", "_high", "_published")),
            *(f"{name}_ratio{part}" for part in ("", "_low", "_high")),
        )
    ),
)

# Settings that both sides may state, with the scenarios they act in: offline the dynamic batcher is off.
_SETTINGS = {
    "max_batch_size": ("max batch size", ("offline", "online")),
    "instances": ("instances", ("offline", "online")),
    "cuda_graphs": ("CUDA graphs", ("offline", "online")),
    "max_queue_delay_us": ("max queue delay in µs", ("online",)),
    "preferred_batch_sizes": ("preferred batch sizes", ("online",)),
}


def joined(matches: Sequence[Match]) -> pd.DataFrame:
    """One row per measured point and published row of the same point; the columns are COLUMNS.

    A case that has not passed keeps its rows, with the reason in place of every measured number.
    """
    rows = [
        joined_row(one.record, at, row)
        for one in matches
        for group in groups(one)
        for at, row in pairs(one.record, group)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def joined_row(record: Shown, at: Load | HiddenPoint, row: PublishedRow) -> dict[str, Any]:
    """The row of the tidy table, by column; without what was measured at a hidden point."""
    load = at if isinstance(at, Load) else None
    cells = {
        "case": name_of(record),
        **{name: getattr(record.case, name) for name in _OF_CASE},
        "device": device(record),
        "passed": not record.no_speed,
        "why_no_speed": record.no_speed or None,
        **dict(zip(_OF_POINT, point(at), strict=True)),
        **{f"published_{name}": row[name] for name in _OF_ROW},
        "same_gpu": is_same_gpu(record, row),
        "same_format": is_same_format(record, row),
        "differences": "; ".join(differences(record, row)) or None,
        "metric": row["metric"],
        "score_percent": score_percent_of(record, row["metric"]),
        "notes": (notes(load) or None) if load else None,
    }
    measured = {"throughput": load.throughput_per_s} if load else {}
    latencies = load.latency_ms if load else {}
    measured |= {f"latency_{name}": estimate for name, estimate in latencies.items()}
    for name, unit in _QUANTITIES:
        reference = row[f"{name}_{unit}"]
        cells |= _ratios(name, unit, measured.get(name), reference)
    return cells


def _ratios(name: str, unit: str, measured: Estimate | None, reference: float | None) -> dict[str, Any]:
    """A figure, the published one and their ratio, which is empty where its interval is too wide for it to be shown."""
    value, low = (measured.value, measured.low) if measured else (None, None)
    high = measured.high if measured and not measured.open_above else None
    ratio = over_published(measured, reference) if measured and reference else None
    bounds: tuple[float | None, float | None, float | None] = (None, None, None)
    if ratio is not None and RATIO.is_shown(ratio):
        bounds = (ratio.value, ratio.low, ratio.high)  # shown, so not open
    return {
        f"{name}_{unit}": value,
        f"{name}_low_{unit}": low,
        f"{name}_high_{unit}": high,
        f"{name}_published_{unit}": reference,
        **dict(zip((f"{name}_ratio{part}" for part in ("", "_low", "_high")), bounds, strict=True)),
    }


def score_percent_of(record: Record, metric: str | None) -> float | None:
    """The served score of the published metric; records hold fractions."""
    scores = record.accuracy.scores if record.accuracy and metric else ()
    return next((100 * score.served for score in scores if score.metric == metric), None)


def differences(record: Record, row: PublishedRow) -> list[str]:
    """What is not alike, measured first; a setting that the source leaves out is no difference."""
    found = []
    if not is_same_gpu(record, row):
        found.append(f"hardware {device(record)}, published {row['gpu_label']}")
    if not is_same_format(record, row):
        found.append(f"format {format_name(measured_as(record))}, published {format_name(served_as(row))}")
    if record.serving and record.serving.backend == "python":
        found.append("Triton's Python backend, published the format's own")
    if record.build.weights.startswith("random"):
        found.append("weights random, published trained")
    for name, (label, scenarios) in _SETTINGS.items():
        measured, reference = setting_text(getattr(record.deployment, name)), row[name]
        if row["scenario"] in scenarios and reference is not None and measured != setting_text(reference):
            found.append(f"{label} {measured}, published {setting_text(reference)}")
    return found
