"""Served throughput against in-process throughput and another format, in turns."""

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from tests import sample_records, toy
from tritonproof.efficiency import in_turns
from tritonproof.efficiency.in_turns import Turns, marks_of_turns, take_turns
from tritonproof.measure.stopping import MeasuringPlan
from tritonproof.record.speed import LoadPoint

QUICK = MeasuringPlan(point_budget_s=0.1)


def turns_of(served: Any, in_process: Any) -> Turns:
    return Turns({"served": served, "in_process": in_process})


def test_each_turn_runs_all_sides_in_random_order() -> None:
    order: list[str] = []

    def side(name: str, rate: float) -> Any:
        return lambda: order.append(name) or rate  # type: ignore[func-returns-value]

    rates = {"served": 90.0, "in_process": 100.0, "reference": 60.0}
    sides = {name: side(name, rate) for name, rate in rates.items()}
    turns = take_turns(sides, lambda so_far: len(so_far.rates_per_s["served"]) == 40)

    rounds = [tuple(order[start : start + 3]) for start in range(0, len(order), 3)]
    assert {frozenset(each) for each in rounds} == {frozenset(rates)}
    assert len(set(rounds)) > 1
    assert turns.rates_per_s == {name: [rate] * 40 for name, rate in rates.items()}
    assert (turns.ratio().value, turns.ratio("reference").value) == pytest.approx((0.9, 1.5))
    assert turns.ratios.keys() == {"in_process", "reference"}


class Process:
    """A worker that runs 25 batches a second, once it has compiled in its first run."""

    is_compiled = False

    def measure_per_s(self, batch: int, _least_s: float, _least: int) -> float:
        rate_per_s, self.is_compiled = 25.0 if self.is_compiled else 0.1, True
        return rate_per_s * batch


def measure(request_s: float = 0.01, *, is_cold: bool = False, batch: int = 1) -> tuple[Turns, int]:
    """Measure a point in turns with a worker; returns the number of passes of the load generator too."""
    job, process = toy.job(LoadPoint("offline", batch, 1), request_s=request_s), cast(Any, Process())
    server = toy.SimulatedServer(changes=lambda _job, number: {"failed_attempts": ("killed",) * (not number)})
    cold = ["served"] * is_cold
    turns = in_turns.measure_in_turns({"served": job}, process, batch, QUICK, cold, server.run_pass)
    return turns, len(server.calls)


@pytest.mark.parametrize(("batch", "per_s"), [(1, 25.0), (8, 200.0)])
def test_rates_count_inferences_once_compiled(batch: int, per_s: float) -> None:
    turns, _passes = measure(batch=batch)
    assert set(turns.rates_per_s["in_process"]) == {per_s}
    assert np.mean(turns.rates_per_s["served"]) == pytest.approx(batch * 1e3 / toy.LATENCY_MS, rel=0.2)


@pytest.mark.parametrize(
    ("is_cold", "request_s", "uncounted"), [(False, 0.01, 0), (True, 0.01, 1), (True, 2, 0)]
)
def test_cold_model_runs_once_before_measuring(is_cold: bool, request_s: float, uncounted: int) -> None:
    turns, passes = measure(request_s, is_cold=is_cold)
    assert passes - len(turns.rates_per_s["served"]) == uncounted
    assert list(turns.failed_attempts) == ["killed"] * (1 - uncounted)


def test_turns_are_summarized_by_geometric_means() -> None:
    turns = replace(turns_of((90.0, 110.0), (100.0, 100.0)), failed_attempts=["killed"])
    assert turns.ratio().value == pytest.approx(math.sqrt(0.9 * 1.1))
    assert (turns.count, turns.mean_per_s("served").value) == (2, pytest.approx(math.sqrt(90 * 110)))
    marks = marks_of_turns(turns, sample_records.measured("offline", 8, 100.0))
    assert [mark.text.rpartition(": ")[2] for mark in marks] == ["killed"]


@pytest.mark.parametrize(
    ("served_per_s", "in_process", "codes"),
    [
        ((104.0, 104.0), 100.0, []),
        ((106.0, 106.0), 100.0, ["faster-than-in-process"]),
        ((90.0, 130.0, 110.0), 100.0, []),  # its interval contains 1
        ((127.0, 128.0, 126.0), 200.0, ["not-repeated"]),
        ((73.0, 72.0, 74.0), 200.0, ["not-repeated"]),
        ((108.0, 109.0, 107.0), 200.0, []),  # two figures known within 5 % may differ so much
        ((80.0, 200.0, 120.0), 200.0, ["not-repeated"]),  # a ratio of it contradicts the first figure
    ],
)
def test_doubtful_ratio_is_marked(
    served_per_s: tuple[float, ...], in_process: float, codes: list[str]
) -> None:
    """The load point was measured with 100 inferences per second before."""
    turns = turns_of(served_per_s, [in_process] * len(served_per_s))
    marks = marks_of_turns(turns, sample_records.measured("offline", 1, 100.0))
    assert [mark.code for mark in marks] == codes


@pytest.mark.parametrize(("reference_per_s", "count"), [(150.0, 0), (95.0, 1)])
def test_reference_that_does_not_repeat_marks_the_ratio(reference_per_s: float, count: int) -> None:
    per_s = {"served": [100.0] * 3, "in_process": [100.0] * 3, "reference": [reference_per_s] * 3}
    best, reference = (sample_records.measured("offline", 1, per_s) for per_s in (100.0, 150.0))
    marks = marks_of_turns(Turns(per_s, 1.0), best, reference)
    assert " ".join(mark.text for mark in marks).count("the reference 95.0 infer/s") == count
