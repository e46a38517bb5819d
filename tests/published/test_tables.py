"""Measured figures beside the published ones: rows, ratios, differences, and what has no counterpart."""

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from msgspec import structs

from reports.published.comparison import COLUMNS, differences
from reports.published.matching import match, published_ratio
from reports.record import schema
from reports.record.schema import Deployment, Estimate, Record
from reports.text.publishable import publishable
from tests import samples
from tests.conftest import Reports
from tests.published.cases import case_on, joined, latencies, rows, titles, written

A40, A100 = "NVIDIA A40", "NVIDIA DGX A100 (1x A100 80GB)"
V100, T4 = "NVIDIA DGX-1 (1x V100 32GB)", "NVIDIA T4"


def load(scenario: str, size: int, per_s: float, **changes: Any) -> schema.Load:
    return samples.load(scenario, size, per_s, **changes)


# --- figures -----------------------------------------------------------------------------------------------


def test_ratios_are_measured_over_published() -> None:
    """The row of the source: A40, offline, batch 8: 1573.6 per second, p99 5.636 ms, average 5.078 ms."""
    one = load("offline", 8, 3147.2, latency_ms=latencies(p99=2.818, avg=10.156, p90=1))
    (row,) = joined(case_on("a40 resnet50 onnx trt fp16", one)).to_dict("records")
    wanted = {
        "throughput_published_per_s": 1573.6,
        "throughput_ratio_low": 1.96,
        "throughput_ratio": 2.0,
        "throughput_ratio_high": 2.04,
        "latency_p99_published_ms": 5.636,
        "latency_p99_ratio": 0.5,
        "latency_avg_published_ms": 5.078,
        "latency_avg_ratio": 2.0,
    }
    assert {name: row[name] for name in wanted} == pytest.approx(wanted)


WIDE = {"p99": Estimate(5.636, 2.8, 11.3), "avg": samples.estimate(5.078)}


@pytest.mark.parametrize(
    ("point", "row"),
    [
        (
            load("online", 32, 6333.4, latency_ms=latencies(p99=29.434, avg=5.05)),
            [
                *("online, concurrency 32", "6333.4", "3166.7", "2.00 (1.96 to 2.04)"),
                *("29.434", "14.717", "2.00", "5.050", "10.1", "0.50"),
            ],
        ),
        (
            load("offline", 1, 4.915, latency_ms=latencies(p99=2126, avg=101.55)),
            [
                *("offline, batch 1", "4.92", "491.5", "0.010 (0.010 to 0.010)"),
                *("2126.000", "2.126", "1000", "101.550", "2.031", "50.0"),
            ],
        ),
        (
            load("offline", 8, 1573.6, latency_ms=latencies(avg=5.078)),
            [
                *("offline, batch 8", "1573.6", "1573.6", "1.00 (0.98 to 1.02)"),
                *("-", "5.636", "-", "5.078", "5.078", "1.00"),
            ],
        ),
        (
            load("offline", 8, 1573.6, latency_ms=WIDE, marks=samples.marks("saturated")),
            [
                *("offline, batch 8", "1573.6*", "1573.6", "1.00 (0.98 to 1.02)"),
                *("5.636", "5.636", "not shown", "5.078", "5.078", "1.00"),
            ],
        ),
    ],
    ids=["online", "offline", "a latency is missing", "a ratio is too wide"],
)
def test_a_row_has_both_numbers_and_their_ratio(point: schema.Load, row: list[str]) -> None:
    one = case_on("a40 resnet50 onnx trt fp16", point)
    assert rows(written(one)) == [row]
    (tidy,) = joined(one).to_dict("records")
    assert pd.isna(tidy["latency_p99_ratio"]) == (row[6] in ("-", "not shown"))
    assert (tidy["notes"] == "saturated") == ("*" in row[1])


# --- what is compared with what ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "point", "ratio"),
    [
        ("a40 resnet50 onnx trt fp16", load("offline", 8, 3147.2), 2.0),
        ("a40 resnet50 onnx trt fp16", load("offline", 3, 3147.2), None),
        ("a40 resnet50 onnx trt fp16", load("offline", 8, 3147.2, request_rate_per_s=9.0), None),
        ("a40 resnet50 onnx - fp16", load("offline", 8, 3147.2), None),
        ("h100 resnet50 onnx trt fp16", load("offline", 8, 3147.2), None),
        ("cpu resnet50-micro onnx - fp32", load("offline", 8, 3147.2), None),
    ],
    ids=["alike", "another point", "at a rate", "another format", "another GPU", "another model"],
)
def test_only_what_was_published_for_the_same_gpu_and_point_has_one_ratio(
    name: str, point: schema.Load, ratio: float | None
) -> None:
    found = published_ratio(publishable(case_on(name, point)), point)
    assert (found and found.value) == (ratio and pytest.approx(ratio))


@pytest.mark.parametrize(
    ("name", "per_s"),
    [
        ("v100 nnunet ts-script - fp16", {"v100": 20.3}),
        ("v100 nnunet ts-script - fp32", {"v100": 10.3}),
        ("a40 fastpitch ts-trace - fp16", {"a40": 81.8}),
        ("a40 resnet50-tf tf-trt - fp16", {"a40": 329.5}),
        ("a30 bert-dist4l onnx - fp16", {"a30": 830.0}),
        ("a30 bert-dist4l onnx trt fp16", {"a30": 1219.0}),
        ("a30 bert-dist4l trt - fp16", {"a30": 1214.0}),
        ("a30 bert-dist4l ts-trace - fp16", {"a30": 558.0}),
        *(
            (f"{target} nnunet ts-script - fp16", {"v100": 20.3, "a40": 22.2, "t4": 9.1, "a100": 26.1})
            for target in ("h200", "a30", "cpu", "gpu")
        ),
        ("a40 resnet50 onnx - fp32", {}),
        ("cpu resnet50-micro onnx - fp32", {}),
    ],
)
def test_a_case_meets_the_rows_of_its_own_format_and_gpu_or_those_of_every_gpu(
    name: str, per_s: dict[str, float]
) -> None:
    found = joined(case_on(name, load("offline", 1, 100)))
    assert dict(zip(found["published_gpu"], found["throughput_published_per_s"], strict=True)) == per_s
    assert found["same_gpu"].tolist() == [name.startswith(f"{gpu} ") for gpu in per_s]
    assert (found["published_format"] == found["format"]).all()


def test_a_scenario_is_not_the_other_at_the_same_batch_and_concurrency() -> None:
    """nnU-Net has online points from concurrency 1: offline batch 1 is the same request load, and another row."""
    one = case_on("v100 nnunet ts-script - fp16", load("offline", 1, 100), load("online", 1, 100))
    figures = joined(one).set_index("scenario")["throughput_published_per_s"]
    assert figures["offline"] == 20.3
    assert figures["online"] != 20.3


def test_another_format_or_accelerator_is_set_beside_nothing() -> None:
    """Published was ONNX Runtime with TensorRT alone."""
    one = case_on("a40 resnet50 onnx - fp32")
    assert joined(one).empty
    assert titles(written(one)) == ["# Measured beside published", "## Not compared"]


@pytest.mark.parametrize(
    ("target", "gpu", "count", "said"),
    [
        ("mig", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", 1, "a part of a GPU"),
        ("a100", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", 1, "a part of a GPU"),
        ("a100", "NVIDIA A100-SXM4-80GB", 2, "measured on 2 GPUs"),
    ],
)
def test_a_part_of_a_gpu_and_several_of_them_stand_beside_no_published_figure(
    target: str, gpu: str, count: int, said: str
) -> None:
    whole = case_on("a100 resnet50 onnx trt fp16")
    other = structs.replace(
        whole,
        case=structs.replace(whole.case, target=target, gpus=count),
        machine=structs.replace(whole.machine, gpu=gpu),
    )
    assert match(publishable(whole)).rows
    assert said in match(publishable(other)).missing
    assert not match(publishable(other)).rows


# --- what differs ------------------------------------------------------------------------------------------


def deployed(*settings: Any) -> Deployment:
    batch, instances, sizes, delay, graphs = settings
    return Deployment(batch, instances, sizes, delay, cuda_graphs=graphs, warmup=True)


PYTHON = {
    "serving": samples.record().serving,
    "build": samples.random_weights().build,
    "accuracy": None,
}


@pytest.mark.parametrize(
    ("name", "changes", "found"),
    [
        (
            "a40 resnet50 onnx trt fp16",
            {"deployment": deployed(64, 2, (), 100, True)},
            ["max batch size 64, published 128", "instances 2, published 1"],
        ),
        ("a40 resnet50 onnx trt fp16", {"deployment": deployed(128, 1, (32,), 5000, False)}, []),
        # BERT's README states CUDA graphs for TensorRT alone, and neither queue delay nor preferred sizes.
        ("a30 bert-dist4l onnx - fp16", {"deployment": deployed(16, 1, (4, 8), 700, True)}, []),
        (
            "a30 bert-dist4l trt - fp16",
            {"deployment": deployed(16, 1, (4, 8), 700, True)},
            ["CUDA graphs on, published off"],
        ),
        (
            "a40 resnet50 onnx trt fp16",
            PYTHON,
            ["Triton's Python backend, published the format's own", "weights random, published trained"],
        ),
    ],
)
def test_settings_that_differ_are_named_with_both_values(
    name: str, changes: dict[str, Any], found: list[str]
) -> None:
    """Offline: there the dynamic batcher is off."""
    one = publishable(case_on(name, load("offline", 8, 100), **changes))
    row = next(row for row in match(one).rows if row["scenario"] == "offline")
    assert differences(one, row) == found


# --- points without a counterpart --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "points", "parts"),
    [
        (
            "v100 nnunet ts-script - fp16",
            [
                *(load("offline", batch, 10) for batch in (1, 3)),
                *(load("online", size, 10) for size in (2, 4, 6, 16, 8)),
            ],
            [
                "2 measured points were not published: offline, batch 3; online, concurrency 16.",
                "6 published points were not measured: offline, batch 2,4; online, concurrency 1,3,5,7. Measure them",
                "-k v100-nnunet-ts-script-fp16 --batches 2,4 --concurrencies 1,3,5,7`",
            ],
        ),
        (
            "h200 nnunet ts-script - fp16",
            [load("offline", 1, 10)],
            ["10 published points were not measured: "],
        ),
        (
            "a30 bert-dist4l onnx - fp16",
            [load("offline", 1, 10), load("offline", 16, 10), load("online", 4, 10)],
            [
                "1 measured point was not published: online, concurrency 4.",
                "1 published point was not measured:",
            ],
        ),
        ("a30 bert-dist4l onnx - fp16", [load("offline", batch, 10) for batch in (1, 8, 16)], []),
        (
            "a40 resnet50 onnx trt fp16",
            [load("offline", 3, 100)],
            ["No load point was both measured and published.", "24 published points were not measured: "],
        ),
    ],
)
def test_points_of_one_side_are_counted_and_those_published_can_be_measured(
    name: str, points: list[schema.Load], parts: list[str]
) -> None:
    text = written(case_on(name, *points))
    assert all(part in text for part in parts), text
    assert bool(parts) == ("point was" in text or "points were" in text)


def test_a_batch_beyond_the_deployment_needs_a_larger_one_and_every_point_anew() -> None:
    """A record of another deployment is replaced, with all its points."""
    one = case_on(
        "v100 nnunet ts-script - fp16",
        *(load("offline", batch, 10) for batch in (1, 2)),
        deployment=deployed(2, 1, (2,), 1, False),
    )
    assert written(one).endswith(
        "--batches 1,2,4 --concurrencies 1,2,3,4,5,6,7,8 --deployment max_batch_size=4`"
    )


# --- the command -------------------------------------------------------------------------------------------


def store(results: Path, *records: Record) -> list[str]:
    """Write the records, and give the arguments that set them beside the published."""
    return ["published", "--results", str(samples.store(results, *records))]


def test_csv_is_tidy_and_the_rest_goes_to_standard_error(tmp_path: Path, reports: Reports) -> None:
    points = (load("offline", 1, 50), load("offline", 3, 50))
    one = case_on("h200 nnunet ts-script - fp16", *points)
    arguments = store(tmp_path, one, case_on("cpu resnet50-micro onnx - fp32"))
    _, out, err = reports(*arguments, "--format", "csv")
    read = pd.read_csv(io.StringIO(out))
    assert tuple(read.columns) == COLUMNS
    assert read["throughput_ratio"].tolist() == pytest.approx([50 / 20.3, 50 / 22.2, 50 / 9.1, 50 / 26.1])
    assert [line.partition(" ")[0] for line in err.splitlines()] == [
        "`h200-nnunet-ts-script-fp16`:",
        "`h200-nnunet-ts-script-fp16`:",
        "`cpu-resnet50-micro-onnx-fp32`:",
    ]
