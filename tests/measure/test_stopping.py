"""Stopping rules on made-up passes: when a warm-up, a load point and turns are done."""

import dataclasses

import numpy as np
import pytest

from tests import toy
from tritonproof.measure import point_state, stopping
from tritonproof.measure.point_state import PointState, Side
from tritonproof.measure.stopping import MeasuringPlan
from tritonproof.record.speed import LoadPoint

POINT = LoadPoint("online", 1, 4)
PATIENT = MeasuringPlan(point_budget_s=1000)


def state(*latencies_ms: float, elapsed_s: float = 0.5, length_s: float = 0.4) -> PointState:
    """A load point with a pass for each latency."""
    measured = Side(toy.job(POINT))
    for latency_ms in latencies_ms:
        count = int(length_s * 1e3 / latency_ms) + 1
        one_pass = toy.closed_loop(np.full((4, count), latency_ms / 1e3), length_s, elapsed_s=elapsed_s)
        measured = point_state.with_pass(measured, one_pass)
    return PointState((measured,))


def pair(count: int, baseline_ms: float, elapsed_s: float = 0.5) -> PointState:
    """`count` pairs of passes, of 10 ms against `baseline_ms`."""
    wobble = [1.0, 1.01] * count
    current = state(*[10 * factor for factor in wobble[:count]], elapsed_s=elapsed_s)
    baseline = state(*[baseline_ms * factor for factor in wobble[1 : count + 1]], elapsed_s=elapsed_s)
    return dataclasses.replace(current, sides=(*current.sides, *baseline.sides), terms=toy.terms())


STEADY, VARIED = [10.0] * 6, [10.0, 14.0] * 3


@pytest.mark.parametrize(
    ("found", "plan", "done"),
    [
        (state(*STEADY[:5]), PATIENT, False),  # five passes give no reliable interval
        (state(*STEADY), PATIENT, True),
        (state(*VARIED), PATIENT, False),
        (state(*VARIED), dataclasses.replace(PATIENT, interval_target=0.5), True),
        (state(*STEADY, length_s=0.05), PATIENT, False),  # a p99 needs a hundred requests
        (state(*VARIED), MeasuringPlan(point_budget_s=3.2), True),  # half another pass would exceed it
        (state(*VARIED), MeasuringPlan(point_budget_s=3.3), False),
        (state(10, 14, elapsed_s=100), MeasuringPlan(point_budget_s=1), False),  # three passes at least
        (state(10, 14, 10, elapsed_s=100), MeasuringPlan(point_budget_s=1), True),
        (state(*STEADY, length_s=0.1), MeasuringPlan(point_budget_s=1.0, certify=99), False),
        (state(*STEADY, 10, 10), MeasuringPlan(point_budget_s=1e3, certify=99), True),  # enough requests
        (pair(8, 10), PATIENT, True),
        (pair(16, 8), PATIENT, True),
        (pair(16, 9.7), PATIENT, False),
        (pair(7, 8), PATIENT, False),  # no look comes after seven pairs
        (pair(6, 9.7), MeasuringPlan(point_budget_s=6), True),  # both share one budget
        (pair(6, 9.7), MeasuringPlan(point_budget_s=7), False),
        (pair(5, 9.7, elapsed_s=100), MeasuringPlan(point_budget_s=1), False),  # six pairs at least
    ],
)
def test_point_ends_on_narrow_interval_settled_comparison_or_spent_budget(
    found: PointState, plan: MeasuringPlan, done: bool
) -> None:
    assert stopping.is_measured(found, plan) is done


@pytest.mark.parametrize(
    ("count", "deviation", "spent_s", "slow", "done"),
    [
        (4, 0.0, 1, False, False),
        (5, 0.0, 1, False, True),
        (5, 0.2, 1, False, False),
        (5, 0.2, 9.9, False, True),
        (4, 0.2, 99, False, False),
        (3, 0.2, 99, True, True),
    ],
)
def test_turns_end_once_ratio_is_known_or_budget_spent(
    count: int, deviation: float, spent_s: float, *, slow: bool, done: bool
) -> None:
    ratios = [np.ones(count), np.array([1 + deviation * (-1) ** turn for turn in range(count)])]
    assert stopping.are_turns_done(ratios, spent_s, MeasuringPlan(point_budget_s=10), slow=slow) is done


@pytest.mark.parametrize(
    ("latencies_ms", "warm"),
    [((10,), False), ((10, 10), True), ((30, 10), False), ((30, 10, 10), True), ((2000,), True)],
)
def test_server_is_warm_once_it_stops_getting_faster(latencies_ms: tuple[float, ...], warm: bool) -> None:
    measured = Side(toy.job(POINT))
    for latency_ms in latencies_ms:
        one_pass = toy.closed_loop(np.full((4, 40), latency_ms / 1e3), 40 * latency_ms / 1e3)
        measured = point_state.with_pass(measured, one_pass, warms_up=True)
    assert stopping.is_warmed_up(measured) is warm
