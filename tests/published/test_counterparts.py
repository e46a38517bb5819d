"""Every published row stands beside a case that was measured just so."""

from typing import Any, cast

import pandas as pd
import pytest

from reports import published
from tests import samples
from tests.published.cases import case_on, joined, latencies


def test_every_published_row_stands_beside_a_case_measured_just_so() -> None:
    """Names of formats and accelerators lead each of the 488 rows to one case, and each case to its rows."""
    figures = published.load()
    implied = {"ts-trace", "ts-script", "tf-trt"}
    records = []
    names = ["gpu", "model", "format", "accelerator", "precision"]
    for key, published_rows in figures.groupby(names, dropna=False):
        gpu, model, format_, accelerator, precision = cast(tuple[Any, ...], key)
        inside = format_ in implied or pd.isna(accelerator)
        loads = [
            samples.load(
                row["scenario"],
                row["batch"] if row["scenario"] == "offline" else row["concurrency"],
                row["throughput_per_s"],
                latency_ms=latencies(p99=row["latency_p99_ms"], avg=row["latency_avg_ms"]),
            )
            for _, row in published_rows.iterrows()
        ]
        records.append(
            case_on(f"{gpu} {model} {format_} {'-' if inside else accelerator} {precision}", *loads)
        )
    rows = joined(*records)
    assert len(rows) == len(figures) == 488
    for name in ("throughput", "latency_p99", "latency_avg"):
        assert rows[f"{name}_ratio"].tolist() == pytest.approx([1] * 488)
    assert rows["same_gpu"].all()
    assert (rows["published_format"] == rows["format"]).all()
    assert not rows.duplicated(["published_source", "published_table", "batch", "concurrency"]).any()
