"""The tidy table of load points."""

import io

import pandas as pd
import pytest
from msgspec import structs

from reports.export import load_points
from reports.record import schema
from reports.text.publishable import publishable
from tests import examples


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
