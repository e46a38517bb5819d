"""Sentences on speed: a comparison and its verdict, each regression, other versions, a search's winner."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs

from tests import sample_records
from tritonproof.record import Record, fields, setup
from tritonproof.record.quantities import TOO_WIDE
from tritonproof.record.speed import LatencyBudget, SpeedComparison
from tritonproof.reports import speed_text
from tritonproof.reports.speed_text import comparison_text, speed_failures

ONE = sample_records.efficiency("online", 32)


def comparison(**changes: Any) -> SpeedComparison:
    """A build shown to be slower than the allowed 3 %, at the only point of its run."""
    return sample_records.comparison(**({"pass_count": 16, "p_value": 0.0001} | changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "ratio 0.90 (0.88 to 0.92) to HEAD~1: slower"),
        ({"ratio": fields.Ratio(0.5, 0.4, 0.7)}, f"ratio {TOO_WIDE} to HEAD~1: slower"),
        ({"verdict": "passed", "ratio": fields.Ratio(0.9704, 0.9702, 0.9706)}, "ratio 0.9704 (0.9702 to"),
        ({"verdict": "inconclusive", "seconds_to_settle": 600.0}, "about 10 min more would settle it"),
    ],
    ids=["slower", "too wide", "more digits near the limit of 0.97", "open"],
)
def test_comparison_says_how_much_and_how_sure(changes: dict[str, Any], said: str) -> None:
    assert said in comparison_text(comparison(**changes))


def test_point_fails_for_each_shown_regression() -> None:
    slower, fast = comparison(), comparison(verdict="passed", ratio=fields.Ratio(1.0, 0.99, 1.01))
    unknown = comparison(verdict="inconclusive", ratio=fields.Ratio(0.99, 0.95, 1.02))

    def failures(compared: SpeedComparison | None, verdict: Any) -> list[str]:
        limit = None if verdict is None else LatencyBudget("p99", 5, "thresholds.toml, entry 1", verdict)
        point = sample_records.measured("online", 16, 1000.0, comparison=compared, latency_budget=limit)
        return speed_failures(point)

    assert failures(None, None) == failures(fast, "passed") == failures(unknown, "inconclusive") == []
    assert failures(slower, "passed") == failures(slower, None) == [comparison_text(slower)]
    (beyond,) = failures(fast, "failed")
    assert beyond.startswith("p99 ")
    assert failures(None, "failed") == [beyond]
    assert failures(slower, "failed") == [comparison_text(slower), beyond]


def served(
    backend: str, there: Mapping[str, str], here: Mapping[str, str], accelerator: str | None = None
) -> Record:
    """A case measured in the server and in process."""
    serving = setup.Serving("docker", "2.51.0", backend, "system", versions=there)
    plain = sample_records.record()
    machine = structs.replace(plain.machine, versions=here)
    case = structs.replace(plain.case, accelerator=accelerator)
    return sample_records.record(efficiency=(ONE,), serving=serving, case=case, machine=machine)


ORT = {"onnxruntime": "1.31.0"}


@pytest.mark.parametrize(
    ("record", "parts"),
    [
        (served("onnxruntime", {"onnxruntime": "1.19"}, {"onnxruntime-gpu": "1.31"}), ("1.19", "1.31")),
        (served("onnxruntime", ORT | {"tensorrt": "10.5"}, ORT, "trt"), ("TensorRT: 10.5", "unknown")),
        (served("tensorrt", {"tensorrt": "10.13.20"}, {"tensorrt": "10.13.2"}), ("10.13.20",)),
        (served("python", {}, ORT), ()),
        (served("onnxruntime", ORT | {"tensorrt": "9"}, ORT), ()),
        (served("tensorrt", {"tensorrt": "10.5.0.18"}, {"tensorrt": "10.5.0"}), ()),
        (served("pytorch", {"torch": "2.5.0"}, {"torch": "2.5.0+cu124"}), ()),
        (structs.replace(served("pytorch", {"torch": "1"}, {"torch": "2"}), efficiency=()), ()),
    ],
)
def test_in_process_ratio_names_different_versions(record: Record, parts: tuple[str, ...]) -> None:
    assert bool(speed_text.version_note(record)) == bool(parts)
    assert all(part in speed_text.version_note(record) for part in parts)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"lead": fields.Ratio(0.96, 0.9, 1.02)},
            "times as fast as the runner-up, which is not shown to keep the budget",
        ),
        ({"lead": fields.Ratio(1.03, 0.98, 1.08)}, "1.03 (0.98 to 1.08) times as fast as the runner-up"),
        ({}, "; the runner-up did not keep the budget"),
        ({"configurations": 1}, "; there was no other configuration"),
        (
            {"configurations": 1, "own_is_measured": False},
            "; its own settings could not be measured, or answer wrongly",
        ),
    ],
)
def test_winner_of_a_search_leads_or_says_why_it_won(changes: dict[str, Any], said: str) -> None:
    assert speed_text.search_text(sample_records.search(**changes)).endswith(said)
