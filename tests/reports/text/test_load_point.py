"""Comparisons and latency budgets: the sentence for each verdict, and no ratio that is too uncertain."""

from typing import Any

import pytest

from tests import examples
from tritonproof.record.quantities import TOO_WIDE
from tritonproof.record.schema import LatencyBudget, Ratio, SpeedComparison
from tritonproof.reports.text.load_point import comparison_text, speed_failures


def comparison(**changes: Any) -> SpeedComparison:
    """A build shown to be slower than the allowed 3 %, at the only point of its run."""
    return examples.comparison(**({"passes": 16, "p_value": 0.0001} | changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "ratio 0.90 (0.88 to 0.92) to HEAD~1: slower"),
        ({"ratio": Ratio(0.5, 0.4, 0.7)}, f"ratio {TOO_WIDE} to HEAD~1: slower"),
        ({"verdict": "passed", "ratio": Ratio(0.9704, 0.9702, 0.9706)}, "ratio 0.9704 (0.9702 to"),
        ({"verdict": "inconclusive", "seconds_to_settle": 600.0}, "about 10 min more would settle it"),
    ],
    ids=["slower", "too wide", "more digits near the limit of 0.97", "open"],
)
def test_comparison_says_how_much_and_how_sure(changes: dict[str, Any], said: str) -> None:
    assert said in comparison_text(comparison(**changes))


def budget(verdict: Any) -> LatencyBudget:
    return LatencyBudget("p99", 5, "thresholds.toml, entry 1", verdict)


def test_point_fails_for_each_shown_regression() -> None:
    slower, fast = comparison(), comparison(verdict="passed", ratio=Ratio(1.0, 0.99, 1.01))
    unknown = comparison(verdict="inconclusive", ratio=Ratio(0.99, 0.95, 1.02))

    def failures(compared: SpeedComparison | None, verdict: str | None) -> list[str]:
        limit = None if verdict is None else budget(verdict)
        return speed_failures(
            examples.measured("online", 16, 1000.0, comparison=compared, latency_budget=limit)
        )

    assert failures(None, None) == failures(fast, "passed") == failures(unknown, "inconclusive") == []
    assert failures(slower, "passed") == failures(slower, None) == [comparison_text(slower)]
    (beyond,) = failures(fast, "failed")
    assert beyond.startswith("p99 ")
    assert failures(None, "failed") == [beyond]
    assert failures(slower, "failed") == [comparison_text(slower), beyond]
