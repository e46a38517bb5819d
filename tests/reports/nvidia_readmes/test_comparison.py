"""Measured figures beside published ones: matching rows, ratios, differences, missing counterparts."""

from typing import Any

import pytest
from msgspec import structs

from tests import sample_records
from tests.helpers import present
from tritonproof.record import Record, setup
from tritonproof.record.fields import Estimate
from tritonproof.record.speed import PointResult
from tritonproof.reports import nvidia_readmes
from tritonproof.reports.nvidia_readmes import nvidia_ratio, nvidia_rows, why_no_nvidia_rows
from tritonproof.reports.publishable import publishable
from tritonproof.reports.tables.nvidia_readmes import differences, nvidia_section
from tritonproof.reports.tables.table import Table

NATIVE = setup.Serving("docker", "2.51.0", "onnxruntime", "system")
ALIKE = "a40 resnet50 onnx trt fp16"
WIDE_P99 = {"p99": Estimate(5.636, 2.8, 11.3)}
measured = sample_records.measured


def case_on(name: str, *points: PointResult, **changes: Any) -> Record:
    """A proven case; `name` is `target model format accelerator precision`, `-` for no accelerator."""
    target, model, format_, accelerator, precision = name.split()
    gpu = None if target == "cpu" else f"NVIDIA {target.upper()}"
    fields: dict[str, Any] = {
        "case": setup.CaseKey(target, model, format_, None if accelerator == "-" else accelerator, precision),
        "machine": structs.replace(sample_records.record().machine, gpu=gpu),
        "serving": NATIVE,
        "points": points or (measured("offline", 8, 1000),),
    }
    return sample_records.record(**(fields | changes))


def tables(record: Record) -> list[Table]:
    blocks = nvidia_section(publishable(record))
    return [block for block in blocks if isinstance(block, Table)]


def latencies(**values: float) -> dict[str, Estimate]:
    return {name: sample_records.estimate(value) for name, value in values.items()}


def test_every_published_row_matches_one_case() -> None:
    names = ("gpu", "model", "format", "accelerator", "precision")
    cases: dict[str, list[nvidia_readmes.NvidiaRow]] = {}
    for row in nvidia_readmes.rows():
        implied = row["format"] in ("ts-trace", "ts-script", "tf-trt")
        fields = {**row, "accelerator": "-" if implied or not row["accelerator"] else row["accelerator"]}
        cases.setdefault(" ".join(fields[name] for name in names), []).append(row)
    count = 0
    for name, rows in cases.items():
        points = [sample_records.published(row) for row in rows]
        record = publishable(case_on(name, *points))
        assert nvidia_rows(record) == rows
        ratios = [nvidia_ratio(record, item) for item in points]
        assert [item and item.value for item in ratios] == pytest.approx([1.0] * len(rows))
        count += len(rows)
    assert count == 488


@pytest.mark.parametrize(
    ("measured", "values"),
    [
        (
            measured("online", 32, 6333.4, latency_ms=latencies(p99=29.434, avg=5.05)),
            [6333.4, 3166.7, 2.0, 29.434, 14.717, 2.0, 5.05, 10.1, 0.5],
        ),
        (
            measured("offline", 8, 1573.6, latency_ms=latencies(avg=5.078)),
            [1573.6, 1573.6, 1.0, None, 5.636, None, 5.078, 5.078, 1.0],
        ),
        (
            measured("offline", 8, 1573.6, latency_ms=WIDE_P99 | latencies(avg=5.078)),
            [1573.6, 1573.6, 1.0, 5.636, 5.636, None, 5.078, 5.078, 1.0],
        ),
    ],
    ids=["online", "a latency is missing", "a ratio is too wide"],
)
def test_row_has_both_figures_and_their_ratio(measured: PointResult, values: list[float | None]) -> None:
    (table,) = tables(case_on(ALIKE, measured))
    (row,) = table.rows
    figures = [cell.value for cell in row[1:]]
    assert [value is None for value in figures] == [value is None for value in values]
    assert [value for value in figures if value] == pytest.approx([value for value in values if value])
    ratio, value = row[3], present(row[3].value)
    assert (ratio.low, ratio.high) == pytest.approx((0.98 * value, 1.02 * value))


@pytest.mark.parametrize(
    ("target", "gpu", "count"),
    [
        ("mig", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", 1),
        ("a100", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", 1),
        ("a100", "NVIDIA A100-SXM4-80GB", 2),
    ],
)
def test_mig_and_several_gpus_match_no_published_figure(target: str, gpu: str, count: int) -> None:
    whole = case_on("a100 resnet50 onnx trt fp16")
    case = structs.replace(whole.case, target=target, gpus=count)
    other = structs.replace(whole, case=case, machine=structs.replace(whole.machine, gpu=gpu))
    assert nvidia_rows(whole)
    assert why_no_nvidia_rows(whole) is None
    assert why_no_nvidia_rows(other)
    assert not nvidia_rows(other)


def deployed(batch: int, instances: int, sizes: tuple[int, ...], delay: int, graphs: bool) -> dict[str, Any]:
    return {"deployment": setup.Deployment(batch, instances, sizes, delay, cuda_graphs=graphs, warmup=True)}


PYTHON = {
    "serving": sample_records.record().serving,
    "build": sample_records.random_weights().build,
    "accuracy": None,
}


@pytest.mark.parametrize(
    ("name", "changes", "found"),
    [
        (
            ALIKE,
            deployed(64, 2, (), 100, True),
            ["max batch size 64, published 128", "instances 2, published 1"],
        ),
        (ALIKE, deployed(128, 1, (32,), 5000, False), []),
        # BERT's README states CUDA graphs for TensorRT alone, and neither queue delay nor preferred sizes.
        ("a30 bert-dist4l onnx - fp16", deployed(16, 1, (4, 8), 700, True), []),
        ("a30 bert-dist4l trt - fp16", deployed(16, 1, (4, 8), 700, True), ["CUDA graphs on, published off"]),
        (
            ALIKE,
            PYTHON,
            ["Triton's Python backend, published the format's own", "weights random, published trained"],
        ),
    ],
)
def test_different_settings_are_named_with_values(
    name: str, changes: dict[str, Any], found: list[str]
) -> None:
    """Offline, where the dynamic batcher is off."""
    record = case_on(name, measured("offline", 8, 100), **changes)
    row = next(row for row in nvidia_rows(record) if row["scenario"] == "offline")
    assert differences(record, row) == found


def test_case_without_published_points_says_so() -> None:
    (_, *blocks) = nvidia_section(publishable(case_on(ALIKE, measured("offline", 3, 10))))
    assert blocks == ["No load point was both measured and published."]
