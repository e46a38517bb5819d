"""Comparisons and latency budgets: the sentence for each verdict, and no ratio that is too uncertain."""

from typing import Any

from tests import examples
from tritonproof.record.quantities import TOO_WIDE
from tritonproof.record.schema import LatencyBudget, Ratio, SpeedComparison
from tritonproof.reports.text.load_point import comparison_text, comparison_verdict, speed_failures


def comparison(**changes: Any) -> SpeedComparison:
    """A build shown to be slower than the allowed 3 %, at the only point of its run."""
    return examples.comparison(**({"passes": 16, "p_value": 0.0001} | changes))


def test_wide_ratio_is_omitted_but_verdict_is_shown() -> None:
    wide = comparison(ratio=Ratio(0.5, 0.4, 0.7))

    assert comparison_text(wide) == f"ratio {TOO_WIDE} to HEAD~1: {comparison_verdict(wide)}"
    assert "0.5" not in comparison_text(wide)
    assert comparison_text(comparison()).startswith("ratio 0.90 (0.88 to 0.92) to HEAD~1: slower")


def test_ratio_near_limit_has_more_digits() -> None:
    near = comparison(verdict="passed", ratio=Ratio(0.9704, 0.9702, 0.9706))

    assert "0.9702" in comparison_text(near), "the limit is 0.97"


def test_open_comparison_says_how_long_it_would_take() -> None:
    unknown = comparison(verdict="inconclusive", ratio=Ratio(0.99, 0.95, 1.02), seconds_to_settle=600.0)

    assert "about 10 min more would settle it" in comparison_verdict(unknown)


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
