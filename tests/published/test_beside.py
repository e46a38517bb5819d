"""Measured figures beside the published ones: rows, ratios and tables."""

import pytest

from reports.record.schema import Estimate
from tests import samples
from tests.published.cases import case_on, joined, latencies, rows, written


def test_ratios_are_measured_over_published() -> None:
    """The row of the source: A40, offline, batch 8: 1573.6 per second, p99 5.636 ms, average 5.078 ms."""
    load = samples.load("offline", 8, 3147.2, latency_ms=latencies(p99=2.818, avg=10.156, p90=1))
    (row,) = joined(case_on("a40 resnet50 onnx trt fp16", load)).to_dict("records")
    assert row["throughput_published_per_s"] == 1573.6
    assert (row["latency_p99_published_ms"], row["latency_avg_published_ms"]) == (5.636, 5.078)
    assert [row[f"throughput_ratio{part}"] for part in ("_low", "", "_high")] == pytest.approx(
        [1.96, 2.0, 2.04]
    )
    assert [row[f"latency_p99_ratio{part}"] for part in ("_low", "", "_high")] == pytest.approx(
        [0.49, 0.5, 0.51]
    )
    assert row["latency_avg_ratio"] == pytest.approx(2)


def test_a_table_shows_both_numbers_and_their_ratio_by_scenario_and_size() -> None:
    text = written(
        case_on(
            "a40 resnet50 onnx trt fp16",
            samples.load("online", 32, 6333.4, latency_ms=latencies(p99=29.434, avg=5.05)),
            samples.load("offline", 8, 3147.2, latency_ms=latencies(p99=2.818, avg=10.156)),
            samples.load("offline", 1, 4.915, latency_ms=latencies(p99=2126, avg=101.55)),
        )
    )
    assert rows(text) == [
        [
            *("offline, batch 1", "4.92", "491.5", "0.010 (0.010 to 0.010)"),
            *("2126.000", "2.126", "1000", "101.550", "2.031", "50.0"),
        ],
        [
            *("offline, batch 8", "3147.2", "1573.6", "2.00 (1.96 to 2.04)"),
            *("2.818", "5.636", "0.50", "10.156", "5.078", "2.00"),
        ],
        [
            *("online, concurrency 32", "6333.4", "3166.7", "2.00 (1.96 to 2.04)"),
            *("29.434", "14.717", "2.00", "5.050", "10.1", "0.50"),
        ],
    ]
    assert "the measured 95 % interval over the published value" in text


def test_a_latency_that_was_not_measured_has_no_ratio() -> None:
    load = samples.load("offline", 8, 1573.6, latency_ms=latencies(avg=5.078))
    assert rows(written(case_on("a40 resnet50 onnx trt fp16", load)))[0][4:] == [
        *("-", "5.636", "-"),
        *("5.078", "5.078", "1.00"),
    ]


def test_points_with_notes_are_marked_and_the_notes_listed() -> None:
    load = samples.load("offline", 8, 1000, marks=samples.marks("the client was saturated"))
    one = case_on("a40 resnet50 onnx trt fp16", samples.load("offline", 1, 100), load)
    text = written(one)
    assert [row[1] for row in rows(text)] == ["100.0", "1000.0*"]
    assert "\n\nMarked points (*):\n\n- offline, batch 8: the client was saturated\n\n" in text
    assert joined(one)["notes"].dropna().tolist() == ["the client was saturated"]


def test_a_ratio_whose_interval_is_too_wide_is_not_shown() -> None:
    """The throughput's is known well; the p99's reaches from half of the published one to twice of it."""
    latency = {"p99": Estimate(5.636, 2.8, 11.3), "avg": samples.estimate(5.078)}
    one = case_on("a40 resnet50 onnx trt fp16", samples.load("offline", 8, 1573.6, latency_ms=latency))
    (row,) = rows(written(one))
    assert row[3] == "1.00 (0.98 to 1.02)"
    assert row[6] == "not shown"
    assert row[9] == "1.00"
    assert joined(one)[["latency_p99_ratio", "latency_p99_ratio_low"]].isna().all(axis=None)
