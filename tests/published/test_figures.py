"""The published figures are complete and consistent."""

import csv
import itertools
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest

from reports import published
from reports.record.schema import COMPONENTS

COMPONENTS_MS = [f"{name}_ms" for name in COMPONENTS]
PERCENTILES_MS = [f"latency_{name}_ms" for name in ("p50", "p90", "p95", "p99")]
POINT = ["model", "gpu", "scenario", "format", "accelerator", "precision", "batch", "concurrency"]


@pytest.fixture(scope="module")
def figures() -> pd.DataFrame:
    return pd.DataFrame(published.rows())


class Source(NamedTuple):
    """What a model's README publishes: its tables, the points of each, and the settings behind them."""

    tables: int
    gpus: str
    precisions: str
    formats: str
    batches: list[int]
    concurrencies: range
    settings: tuple[int, int, int | None, str | None]
    """The largest batch, instances, the queue's delay in microseconds and preferred sizes."""


POWERS = [2**power for power in range(8)]
SOURCES = {
    "resnet50": Source(
        8, "a100 a40 t4 v100", "fp16", "onnx-trt", POWERS, range(16, 257, 16), (128, 1, 1, "64 128")
    ),
    "resnet50-tf": Source(
        8, "a100 a40 t4 v100", "fp16", "tf-trt-trt", POWERS, range(16, 257, 16), (128, 2, 1, "64 128")
    ),
    "nnunet": Source(
        16, "a100 a40 t4 v100", "fp16 fp32", "ts-script-cuda", POWERS[:3], range(1, 9), (4, 1, 1, "2 4")
    ),
    "bert-dist4l": Source(
        16,
        "a100 a30 t4 v100",
        "fp16",
        "onnx onnx-trt trt ts-trace",
        [1, 8, 16],
        range(0),
        (16, 1, None, None),
    ),
    "fastpitch": Source(
        16, "a100 a40 t4 v100", "fp16 fp32", "ts-trace-cuda", POWERS[:4], range(1, 17), (8, 2, 1, "4 8")
    ),
}


@pytest.mark.parametrize("model", SOURCES)
def test_tables_of_a_source_are_complete(figures: pd.DataFrame, model: str) -> None:
    source, rows = SOURCES[model], figures[figures["model"] == model]
    served = rows["format"] + ("-" + rows["accelerator"]).fillna("")
    combinations = set(zip(rows["scenario"], rows["gpu"], rows["precision"], served, strict=True))
    scenarios = ("offline", "online") if source.concurrencies else ("offline",)
    columns = (scenarios, source.gpus.split(), source.precisions.split(), source.formats.split())
    assert combinations == set(itertools.product(*columns))
    assert rows["table"].nunique() == source.tables
    for _, table in rows.groupby("table"):
        points = list(zip(table["batch"], table["concurrency"], strict=True))
        offline, online = [(size, 1) for size in source.batches], [(1, size) for size in source.concurrencies]
        assert points == (offline if (table["scenario"] == "offline").all() else online)
    names = ["max_batch_size", "instances", "max_queue_delay_us", "preferred_batch_sizes"]
    (settings,) = rows[names].drop_duplicates().itertuples(index=False)
    assert tuple(None if pd.isna(value) else value for value in settings) == source.settings


def test_points_are_unique(figures: pd.DataFrame) -> None:
    assert set(figures["model"]) == set(SOURCES)
    assert len(figures) == 488
    assert not figures.duplicated(POINT).any()
    numbers = ["throughput_per_s", *COMPONENTS_MS, *PERCENTILES_MS, "latency_avg_ms"]
    assert not figures.duplicated(["model", *numbers]).any()


def test_components_add_up_to_average(figures: pd.DataFrame) -> None:
    rows = figures.dropna(subset=COMPONENTS_MS)
    assert len(rows) == 48 + 64 + 64 + 64 + 128
    off_ms = (rows[COMPONENTS_MS].sum(axis=1) - rows["latency_avg_ms"]).abs()
    # Eight roundings of half a digit in BERT, which prints 0.1 ms; one, of six digits, in the other sources.
    limit_ms = rows["latency_avg_ms"].mul(5e-6).clip(lower=1e-9).where(rows["model"] != "bert-dist4l", 0.4)
    assert list(rows.loc[off_ms > limit_ms, "model"]) == []


def test_throughput_times_latency_equals_requests_in_flight(figures: pd.DataFrame) -> None:
    """Little's law, within 1 %, the rounding of both figures, and one batch more or less in the counting
    window. The throughputs are whole batches in 10 s, in BERT in 1 s."""
    in_flight = (figures["batch"] * figures["concurrency"]).astype(float)
    throughput, latency_s = figures["throughput_per_s"], figures["latency_avg_ms"] / 1000
    bert = figures["model"] == "bert-dist4l"
    latency_rounding_s = bert.map({True: 0.05e-3, False: 0.0005e-3})
    finished_at_once = figures["max_batch_size"].clip(upper=figures["concurrency"])
    finished_at_once = finished_at_once.where(figures["scenario"] == "online", figures["batch"]).astype(float)
    window_s = bert.map({True: 1, False: 10})
    limit = (
        0.01 * in_flight + throughput * latency_rounding_s + (0.05 + finished_at_once / window_s) * latency_s
    )
    off = (throughput * latency_s - in_flight).abs()
    exceptions = figures.loc[off > limit, [*POINT[:2], "format", "precision", "batch", "concurrency"]]
    assert exceptions.to_numpy().tolist() == [
        # One inference takes 1.27 ms, but the latency is at most 1.25: the client needs time between two.
        ["bert-dist4l", "v100", "onnx", "fp16", 1, 1],
        # The average is the sum of its components; the network's was negative and printed as 0.
        ["nnunet", "a100", "ts-script", "fp32", 1, 6],
    ]
    clipped = figures[figures["network_server_send_recv_ms"] == 0]
    assert clipped[["gpu", "concurrency"]].to_numpy().tolist() == [["a100", 6], ["v100", 7]]


def test_percentiles_are_ordered(figures: pd.DataFrame) -> None:
    p50, p90, p95, p99 = (figures[name] for name in PERCENTILES_MS)
    assert p50.notna().sum() == 368
    assert ((p50 <= p90) | p50.isna()).all()
    assert (p90 <= p95).all()
    assert (p95 <= p99).all()
    assert (figures["latency_avg_ms"] <= p99).all()


def _one(figures: pd.DataFrame, **wanted: object) -> pd.Series:
    rows = figures
    for name, value in wanted.items():
        rows = rows[rows[name].isna()] if value is None else rows[rows[name] == value]
    assert len(rows) == 1
    return rows.iloc[0]


def test_values_match_each_source(figures: pd.DataFrame) -> None:
    row = _one(figures, model="resnet50", gpu="v100", scenario="offline", batch=16)
    assert (row["throughput_per_s"], row["latency_p90_ms"], row["latency_avg_ms"]) == (1726.4, 9.736, 9.266)
    row = _one(figures, model="nnunet", gpu="a100", scenario="online", precision="fp16", concurrency=8)
    assert [*row[COMPONENTS_MS]] == [0.031, 0.147, 81.538, 0.101, 3.46, 78.08, 0]
    row = _one(figures, model="nnunet", gpu="t4", scenario="offline", precision="fp32", batch=4)
    assert [*row[PERCENTILES_MS[1:]], row["latency_avg_ms"]] == [1188.76, 1189.1, 1189.1, 1187.24]
    row = _one(figures, model="resnet50-tf", gpu="v100", scenario="offline", batch=128)
    assert (row["throughput_per_s"], row["latency_p99_ms"]) == (704, 191.259)
    row = _one(figures, model="resnet50-tf", gpu="t4", scenario="online", concurrency=32)
    assert [*row[PERCENTILES_MS]] == [31.339, 50.564, 52.684, 55.823]
    row = _one(figures, model="bert-dist4l", gpu="a30", format="onnx", accelerator="trt", batch=8)
    assert (row["score_percent"], row["throughput_per_s"], row["latency_p99_ms"]) == (83.34, 3616, 2.4)
    assert (row["metric"], row["accelerator_precision"], row["sequence_length"]) == ("F1", "fp16", 384)
    row = _one(figures, model="bert-dist4l", gpu="a100", format="trt", accelerator=None, batch=16)
    assert (row["cuda_graphs"], row["throughput_per_s"], row["latency_p99_ms"]) == (False, 6544, 6.5)
    row = _one(figures, model="fastpitch", gpu="a40", scenario="online", precision="fp32", concurrency=16)
    assert (row["throughput_per_s"], row["server_compute_output_ms"]) == (411.4, 4.969)
    assert row["sequence_length"] == 128


def test_only_bert_publishes_score(figures: pd.DataFrame) -> None:
    scores = figures.dropna(subset=["score_percent"])
    assert set(scores["model"]) == {"bert-dist4l"}
    assert set(scores["score_percent"]) == {83.34, 83.35, 83.37}
    assert len(scores) == 48


@pytest.mark.parametrize("path", sorted(published.FOLDER.glob("*.csv")), ids=lambda path: path.stem)
def test_file_has_data_columns_and_rows_of_its_model(path: Path) -> None:
    lines = csv.DictReader(path.read_text().splitlines())
    assert lines.fieldnames == list(published.COLUMNS)
    assert {row["model"] for row in lines} == {path.stem}
