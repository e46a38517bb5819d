"""Which published row a measured point stands beside."""

import dataclasses
from typing import Any, cast

import pandas as pd
import pytest

from reports import published
from reports.published.matching import published_ratio
from reports.record import schema
from reports.text.publishable import publishable
from tests import samples
from tests.published.cases import case_on, joined, latencies, rows, titles, written

A40, A100 = "NVIDIA A40", "NVIDIA DGX A100 (1x A100 80GB)"
V100, T4 = "NVIDIA DGX-1 (1x V100 32GB)", "NVIDIA T4"


@pytest.mark.parametrize(
    ("name", "load", "ratio"),
    [
        ("a40 resnet50 onnx trt fp16", samples.load("offline", 8, 3147.2), 2.0),
        ("a40 resnet50 onnx trt fp16", samples.load("offline", 3, 3147.2), None),
        ("a40 resnet50 onnx trt fp16", samples.load("offline", 8, 3147.2, request_rate_per_s=9.0), None),
        ("a40 resnet50 onnx - fp16", samples.load("offline", 8, 3147.2), None),
        ("h100 resnet50 onnx trt fp16", samples.load("offline", 8, 3147.2), None),
        ("cpu resnet50-micro onnx - fp32", samples.load("offline", 8, 3147.2), None),
    ],
    ids=["alike", "another point", "at a rate", "another format", "another GPU", "another model"],
)
def test_only_what_was_published_for_the_same_gpu_and_point_has_one_ratio(
    name: str, load: schema.Load, ratio: float | None
) -> None:
    found = published_ratio(publishable(case_on(name, load)), load)
    if ratio is None:
        assert found is None
    else:
        assert found is not None
        assert (found.low, found.value, found.high) == pytest.approx((ratio * 0.98, ratio, ratio * 1.02))


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
    assert rows["same_format"].all()
    assert not rows.duplicated(["published_source", "published_table", "batch", "concurrency"]).any()


@pytest.mark.parametrize(
    ("name", "throughput_per_s"),
    [
        ("v100 nnunet ts-script - fp16", 20.3),
        ("v100 nnunet ts-script - fp32", 10.3),
        ("a40 fastpitch ts-trace - fp16", 81.8),
        ("a40 resnet50-tf tf-trt - fp16", 329.5),
        ("a30 bert-dist4l onnx - fp16", 830.0),
        ("a30 bert-dist4l onnx trt fp16", 1219.0),
        ("a30 bert-dist4l trt - fp16", 1214.0),
        ("a30 bert-dist4l ts-trace - fp16", 558.0),
    ],
)
def test_a_case_meets_the_row_of_its_own_format_accelerator_and_precision(
    name: str, throughput_per_s: float
) -> None:
    (row,) = joined(case_on(name, samples.load("offline", 1, 100))).to_dict("records")
    assert row["throughput_published_per_s"] == throughput_per_s
    assert (row["same_gpu"], row["same_format"]) == (True, True)


def test_a_scenario_is_not_the_other_at_the_same_batch_and_concurrency() -> None:
    """nnU-Net has online points from concurrency 1: offline batch 1 is the same request load, and another row."""
    loads = (samples.load("offline", 1, 100), samples.load("online", 1, 100))
    rows = joined(case_on("v100 nnunet ts-script - fp16", *loads)).set_index("scenario")
    figures = rows["throughput_published_per_s"]
    assert figures["offline"] == 20.3
    assert figures["online"] != 20.3


def test_a_published_gpu_is_compared_with_itself_alone() -> None:
    one = case_on("a100 nnunet ts-script - fp16", samples.load("offline", 1, 52.2))
    text = written(one)
    assert joined(one)["published_gpu"].tolist() == ["a100"]
    assert f"Measured on NVIDIA A100; published on {A100}.\n" in text
    assert "other hardware" not in text
    assert titles(text)[1:] == ["## a100-nnunet-ts-script-fp16", f"### Beside {A100}"]


@pytest.mark.parametrize("target", ["h200", "a30", "cpu", "gpu"])
def test_another_device_is_compared_with_every_published_gpu(target: str) -> None:
    """A30 is published for BERT, and not for nnU-Net."""
    one = case_on(f"{target} nnunet ts-script - fp16", samples.load("offline", 1, 50))
    rows = joined(one)
    assert dict(zip(rows["published_gpu"], rows["throughput_published_per_s"], strict=True)) == {
        "v100": 20.3,
        "a40": 22.2,
        "t4": 9.1,
        "a100": 26.1,
    }
    assert not rows["same_gpu"].any()
    text = written(one)
    device = f"NVIDIA {target.upper()}" if target != "cpu" else "AMD EPYC 7742 64-Core Processor"
    assert f"Measured on {device}; published on {V100}, {A40}, {T4}, {A100}. It is other hardware" in text
    assert [title for title in titles(text) if title.startswith("### ")] == [
        f"### Beside {label}" for label in (V100, A40, T4, A100)
    ]
    assert f"- Differs: hardware {device}, published {A40}; " in text


def test_a_gpu_without_a_name_goes_by_its_target() -> None:
    one = case_on("a40 resnet50 onnx trt fp16")
    one = dataclasses.replace(one, machine=dataclasses.replace(one.machine, gpu=None))
    assert "Measured on A40; published on NVIDIA A40." in written(one)


def test_another_format_is_not_compared_unless_asked_for() -> None:
    one = case_on("a40 resnet50 onnx - fp32")
    assert joined(one).empty
    assert written(one).split("\n\n") == [
        "# Measured beside published",
        "## Not compared",
        "- `a40-resnet50-onnx-fp32`: NVIDIA published resnet50 as onnx trt fp16, not as onnx fp32. "
        "With --other-formats they are compared all the same.",
    ]


def test_another_format_says_so_wherever_its_numbers_stand() -> None:
    one = case_on("a40 resnet50 onnx - fp32")
    (row,) = joined(one, other_formats=True).to_dict("records")
    assert row["throughput_published_per_s"] == 1573.6
    assert row["same_gpu"]
    assert not row["same_format"]
    assert (row["format"], row["accelerator"], row["precision"]) == ("onnx", None, "fp32")
    assert [row[f"published_{name}"] for name in ("format", "accelerator", "precision")] == [
        *("onnx", "trt", "fp16")
    ]
    assert row["differences"] == "format onnx fp32, published onnx trt fp16"
    text = written(one, other_formats=True)
    assert "NVIDIA did not publish onnx fp32: what follows is not alike." in text
    assert titles(text)[2] == "### Beside NVIDIA A40, unlike: measured onnx fp32, published onnx trt fp16"
    assert "- Differs: format onnx fp32, published onnx trt fp16\n" in text
    assert "Not compared" not in text


def test_each_published_format_is_a_table_of_its_own() -> None:
    one = case_on("a30 bert-dist4l onnx - fp32", samples.load("offline", 8, 1000))
    text = written(one, other_formats=True)
    assert [title.rpartition(" published ")[2] for title in titles(text) if title.startswith("### ")] == [
        *("onnx fp16", "onnx trt fp16", "trt fp16", "ts-trace fp16")
    ]
    assert [row[2] for row in rows(text)] == ["2053.9", "3616", "3456", "2061.9"]


def test_a_case_that_has_its_like_is_not_set_beside_other_formats() -> None:
    one = case_on("a30 bert-dist4l onnx trt fp16")
    assert joined(one, other_formats=True)["throughput_published_per_s"].tolist() == [3616]
    assert "unlike" not in written(one, other_formats=True)


@pytest.mark.parametrize(
    ("target", "gpu", "count", "words"),
    [
        ("mig", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", 1, "a part of a GPU"),
        ("a100", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", 1, "a part of a GPU"),
        ("a100", "NVIDIA A100-SXM4-80GB", 2, "measured on 2 GPUs"),
    ],
)
def test_a_part_of_a_gpu_and_several_of_them_stand_beside_no_published_figure(
    target: str, gpu: str, count: int, words: str
) -> None:
    whole = case_on("a100 resnet50 onnx trt fp16", samples.load("offline", 8, 1000))
    other = dataclasses.replace(
        whole,
        case=dataclasses.replace(whole.case, target=target, gpus=count),
        machine=dataclasses.replace(whole.machine, gpu=gpu),
    )
    (load,) = whole.loads
    assert published_ratio(publishable(whole), load) is not None
    assert published_ratio(publishable(other), load) is None
    text = written(other)
    assert words in text
    assert "DGX A100" not in text
