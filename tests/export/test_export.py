"""Records in the formats of other services, and the tidy table of load points."""

import io

import pandas as pd
import pytest
from msgspec import structs

from fixtures.spec import LoadPoint
from reports.export import FORMATS, bencher, load_points
from reports.record import schema
from reports.record.figures import accuracy_figures, load_figures, search_figures
from reports.record.schema import GpuUse, Record
from reports.text.publishable import publishable
from tests import examples

ERROR = examples.score(metric="mel MSE", better="lower", framework=0.012, converted=0.012, served=6e-13)


def case_with(*loads: object, **changes: object) -> Record:
    return examples.record(loads=loads, **changes)


def named(entries: list[dict[str, object]]) -> dict[str, dict[str, object]]:
    by_name = {str(entry["name"]): entry for entry in entries}
    assert len(by_name) == len(entries), "names are unique"
    return by_name


def test_points_of_scenarios_and_rates_have_unique_names() -> None:
    loads = [
        examples.load("offline", 1, 100.0),
        examples.load("online", 1, 100.0),
        examples.load("online", 0, 100.0, request_rate_per_s=120.0, arrivals="poisson"),
    ]
    names = list(named(FORMATS["customBiggerIsBetter"]([publishable(case_with(*loads))])))
    assert names[1:] == [
        f"a40-resnet50-onnx-trt-fp16 {name}"
        for name in ("offline b001-c001", "online b001-c001", "online b001-r00120-poisson")
    ]
    assert str(LoadPoint("online", 1, 0, 120.0, "poisson")) == "b001-r00120-poisson", "as in test ids"


def test_smaller_is_better_export_has_latency_and_errors() -> None:
    record = case_with(examples.load("offline", 8, 1500.0), accuracy=examples.accuracy(ERROR))
    entries = named(FORMATS["customSmallerIsBetter"]([publishable(record)]))
    assert entries["a40-resnet50-onnx-trt-fp16 mel MSE"]["value"] == 6e-13, "however small"
    p99 = entries["a40-resnet50-onnx-trt-fp16 offline b008-c001 p99"]
    assert (p99["unit"], p99["value"]) == ("ms", 2.126)
    assert not [
        name for name in named(FORMATS["customBiggerIsBetter"]([publishable(record)])) if "mel" in name
    ]


def test_unmeasured_score_is_not_exported() -> None:
    assert all(
        "latency" in measures for measures in bencher([publishable(examples.random_weights())]).values()
    )


# --- the figures that exports, CSV and JUnit share ---------------------------------------------------------


def test_accuracy_figures_have_the_tightest_limit() -> None:
    figures = accuracy_figures(examples.accuracy(examples.score(), ERROR))
    assert (figures["top-1_floor_percent"], figures["top-1_served_percent"]) == (95.9, 96.25)
    assert figures["mel_MSE_served"] == 6e-13
    assert "mel_MSE_ceiling" in figures
    assert figures["converted_served_differ"] == 1


def test_comparison_and_gpu_figures_appear_only_if_measured() -> None:
    ratio = examples.estimate(0.94)
    load = examples.load(
        "offline",
        8,
        1500.0,
        comparison=examples.comparison(ratio=ratio),
        gpu=GpuUse(0.9, None, 120.0, None, None),
    )
    figures = load_figures(load)
    assert (figures["comparison_ratio"], figures["comparison_ratio_high"]) == (0.94, ratio.high)
    assert figures["comparison_verdict"] == "slower"
    assert figures["gpu_power_w"] == 120.0
    assert "gpu_memory_mib" not in figures
    assert not [
        name
        for name in load_figures(examples.load("offline", 8, 1500.0))
        if "gpu" in name or "_ratio" in name
    ]


def test_search_exports_winner_and_its_accuracy() -> None:
    search = examples.search(load=examples.load("offline", 8, 1500.0))
    figures = search_figures(search)
    assert (figures["latency_budget_ms"], figures["budget_verdict"]) == (10.0, "within")
    assert (figures["preferred_batch_sizes"], figures["throughput_per_s"]) == ("64 128", 1500.0)
    assert "top-1_served_percent" not in figures
    assert "top-1_served_percent" in search_figures(structs.replace(search, accuracy=examples.accuracy()))


def test_comparison_and_efficiency_columns_appear_only_if_measured() -> None:
    comparison = examples.comparison(ratio=schema.Estimate(0.94, 0.92, 0.96))
    efficiency = schema.Efficiency(
        "offline",
        8,
        1,
        examples.estimate(90),
        examples.estimate(100),
        4,
        2,
        schema.Estimate(0.9, 0.8, 1.0),
        5,
    )
    loads = (examples.load("offline", 1, 50, comparison=comparison), examples.load("offline", 8, 90))

    first, second = load_points(
        [publishable(examples.record(loads=loads, efficiency=(efficiency,)))]
    ).to_dict("records")

    bounds = ("comparison_ratio", "comparison_ratio_low", "comparison_ratio_high")
    assert [first[name] for name in bounds] == [0.94, 0.92, 0.96]
    assert [first[f"comparison_{name}"] for name in ("reference", "method", "verdict")] == [
        "HEAD~1",
        "interleaved",
        "slower",
    ]
    assert pd.isna(first["in_process_per_s"])
    assert (second["in_process_per_s"], second["in_process_batch"], second["in_process_ratio"]) == (
        100,
        4,
        0.9,
    )
    assert pd.isna(second["comparison_ratio"])
    plain = map(str, load_points([publishable(examples.record())]))
    assert not [name for name in plain if name.startswith(("comparison_", "in_process_"))]


def test_energy_and_cost_columns_survive_pandas() -> None:
    use = schema.GpuUse(0.93, None, 251.26, 159.671, None)
    priced = examples.record(
        loads=(examples.load("offline", 8, 1000.0, passes=(), gpu=use),), price_per_hour=3.6
    )
    wrong = structs.replace(priced, accuracy=examples.failed_accuracy())
    frame = load_points([publishable(priced), publishable(wrong)])
    row = frame.iloc[0]

    assert (row["gpu_energy_j_per_1000"], row["gpu_power_w"], row["gpu_utilisation"]) == (
        159.671,
        251.26,
        0.93,
    )
    assert (row["price_per_hour"], row["cost_of"]) == (3.6, "correct inferences")
    assert row["cost_per_million"] == pytest.approx(1 / 0.9625)
    assert frame[~frame["passed"]]["cost_per_million"].isna().all()
    assert not {"gpu_memory_mib", "gpu_sm_clock_mhz"} & set(frame.columns)
    read = pd.read_csv(io.StringIO(frame.to_csv(index=False)))
    pd.testing.assert_frame_equal(read, frame, check_dtype=False)
    bare = load_points([publishable(examples.record())]).columns
    assert not [name for name in bare if name.startswith(("gpu_", "price", "cost"))]
