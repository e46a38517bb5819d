"""What a comparison and a latency budget show, in words: which sentence stands for which verdict, and when no ratio is said."""

from typing import Any

import pytest

from reports.record.schema import Comparison, Estimate, LatencyBudget
from reports.record.verdicts import (
    comparison_text,
    comparison_verdict,
    point_budget_text,
    speed_failures,
    too_wide,
)
from tests import samples


def comparison(**changes: Any) -> Comparison:
    """A build that is shown to be slower than the 3 % allowed, the only point of its run."""
    return samples.comparison(**({"passes": 16, "chance": 0.0001} | changes))


def test_a_slow_down_is_said_with_how_sure_it_is_and_among_how_many_points() -> None:
    slower = "slower than the 3 % allowed, shown at"
    assert comparison_verdict(comparison()) == f"{slower} 99 %"
    assert comparison_verdict(comparison(points=2)) == f"{slower} 99 % among the 2 points compared"
    assert (
        comparison_verdict(comparison(verdict="not slower", ratio=Estimate(1.0, 0.99, 1.01))) == "not slower"
    )


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "not shown"),
        (40.0, "not shown, about 40 s more would settle it"),
        (119.0, "not shown, about 119 s more would settle it"),
        (120.0, "not shown, about 2 min more would settle it"),
        (3599.0, "not shown, about 60 min more would settle it"),
        (3600.0, "not shown, an hour or more would settle it"),
        (7200.0, "not shown, an hour or more would settle it"),
    ],
)
def test_how_much_longer_it_takes_is_said_up_to_an_hour(seconds: float | None, said: str) -> None:
    one = comparison(verdict="not shown", ratio=Estimate(0.99, 0.95, 1.02), seconds_to_settle=seconds)

    assert comparison_verdict(one).replace(",", "") == said.replace(",", "")


def test_a_point_that_seems_slower_by_itself_is_told_apart_from_one_that_does_not() -> None:
    def said(high: float, points: int) -> str:
        return comparison_verdict(
            comparison(verdict="not shown", ratio=Estimate(0.9, 0.85, high), points=points)
        )

    assert said(0.92, 1) == "not shown surely enough"
    assert said(0.92, 2) == "not shown among the 2 points compared"
    assert said(0.97, 2) == said(1.0, 2) == "not shown", "its interval reaches what is allowed"


def test_a_ratio_that_is_known_too_badly_is_not_said_but_its_verdict_is() -> None:
    wide = comparison(ratio=Estimate(0.5, 0.4, 0.7))

    assert comparison_text(wide) == f"{too_wide('HEAD~1')}: {comparison_verdict(wide)}"
    assert "0.5" not in comparison_text(wide)
    assert too_wide("HEAD~1").startswith("ratio to HEAD~1 not shown")
    assert too_wide() == "ratio not shown (its interval is wider than a factor of 1.5)"
    assert comparison_text(comparison()).startswith("ratio 0.90 (0.88 to 0.92) to HEAD~1: slower")


def test_a_ratio_near_the_limit_has_the_digits_that_tell_it_apart() -> None:
    near = comparison(verdict="not slower", ratio=Estimate(0.9704, 0.9702, 0.9706))

    assert "0.9702" in comparison_text(near), "the limit is 0.97"


def budget(verdict: Any) -> LatencyBudget:
    return LatencyBudget("p99", 5, "thresholds.toml, entry 1", verdict)


@pytest.mark.parametrize(
    ("verdict", "words"),
    [("passed", "within"), ("failed", "beyond"), ("not shown", "not shown to be within or beyond")],
)
def test_a_latency_is_said_beside_its_budget(verdict: str, words: str) -> None:
    load = samples.load("online", 16, 1000.0, budget=budget(verdict))

    assert f") {words} 5 ms (thresholds.toml, entry 1)" in point_budget_text(load)
    assert point_budget_text(load).startswith("p99 2.126 ms (")
    assert point_budget_text(samples.load("online", 16, 1000.0)) == ""


def test_a_point_fails_for_each_thing_that_is_shown_against_it_and_for_no_other() -> None:
    slower, fast = comparison(), comparison(verdict="not slower", ratio=Estimate(1.0, 0.99, 1.01))
    unknown = comparison(verdict="not shown", ratio=Estimate(0.99, 0.95, 1.02))

    def failures(one: Comparison | None, verdict: str | None) -> list[str]:
        asked = None if verdict is None else budget(verdict)
        return speed_failures(samples.load("online", 16, 1000.0, comparison=one, budget=asked))

    assert failures(None, None) == failures(fast, "passed") == failures(unknown, "not shown") == []
    assert failures(slower, "passed") == failures(slower, None) == [comparison_text(slower)]
    (beyond,) = failures(fast, "failed")
    assert beyond.startswith("p99 ")
    assert failures(None, "failed") == [beyond]
    assert failures(slower, "failed") == [comparison_text(slower), beyond]
