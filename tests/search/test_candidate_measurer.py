"""The search measures a server through the same interface as sweeps do, also a real one of a known rate."""

import contextlib
import dataclasses
import functools
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from tests import toy
from tests.helpers import present
from tests.measure import timed_server
from tests.search.queueing import ALONE, SPACE, highest_rate_per_s
from tritonproof.client.requests import Answer
from tritonproof.measure.passes import LoadJob
from tritonproof.measure.plan import MeasuringPlan
from tritonproof.measure.verifying import verifying
from tritonproof.search import candidates, fastest
from tritonproof.search.candidates import Candidate, SearchGoal
from tritonproof.search.fastest import CandidateMeasurer
from tritonproof.search.trials import OperatingPoint


def measurer_of(server: toy.SimulatedServer, loaded: list[Candidate], **changes: Any) -> CandidateMeasurer:
    """A measurer of a simulated server, with `changes` of its jobs; it appends each loaded candidate."""

    def prepare_job(operating_point: OperatingPoint) -> LoadJob:
        loaded.append(operating_point.candidate)
        return dataclasses.replace(toy.job(operating_point.point, request_s=0.002), **changes)

    goal, plan = SearchGoal(7, 99), MeasuringPlan(point_budget_s=2.0)
    return CandidateMeasurer(goal, prepare_job, contextlib.nullcontext, plan, run_pass=server.run_pass)


def test_answers_of_each_choice_are_verified_in_reruns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if two are at one point, with requests so slow that verifying once takes longer than is due."""
    server = toy.SimulatedServer(changes=lambda *_: {"elapsed_s": 0.5})
    right = {toy.OUTPUT: toy.rows([0])}
    expected = toy.expected_answers(["toy-000"], right)
    slow = measurer_of(server, [], expected_answers=expected, request_s=60.0)
    ask = Mock(return_value=[Answer(np.array([0]), right)])
    monkeypatch.setattr(fastest, "verifying", functools.partial(verifying, ask=ask))
    first, *_, last = candidates.basic_candidates(SPACE, SearchGoal(7, 99))
    slow.probe(OperatingPoint(first, 3))
    assert not ask.called, "it only gives a speed"
    twins = [OperatingPoint(dataclasses.replace(one, ladder=first.ladder), 3) for one in (first, last)]
    assert [len(state.current.answers_under_load) for state in slow.measure_again(twins)] == [1, 1]


def test_rerun_takes_both_orders_and_spends_its_budget() -> None:
    server, loaded = toy.SimulatedServer(lambda _job, _number: 1.0), list[Candidate]()
    first, second, *_ = candidates.basic_candidates(SPACE, SearchGoal(7, 99))
    operating_points = [OperatingPoint(first, 3), OperatingPoint(second, 1)]
    states = measurer_of(server, loaded).measure_again(operating_points)
    assert loaded == [first, second, second, first], "a steady drift falls on both alike"
    assert [state.point for state in states] == [one.point for one in operating_points]
    assert all(4.0 - 0.5 < state.spent_s < 4.0 + 0.5 for state in states), "two budgets of a point each"
    assert all(part.latencies_ms[0] == 1.0 for part in states[0].steady_parts)


@pytest.mark.parametrize("latency_ms", [6.0, 8.0])
def test_rerun_certifies_what_keeps_the_budget(latency_ms: float) -> None:
    measurer = measurer_of(toy.SimulatedServer(lambda _job, _number: latency_ms), [])
    measurer = dataclasses.replace(measurer, plan=MeasuringPlan(point_budget_s=2.0, certify=99.9))
    one, *_ = candidates.basic_candidates(SPACE, measurer.goal)
    (state,) = measurer.measure_again([OperatingPoint(one, 0)])
    assert (state.requests >= 6_636) == (latency_ms <= measurer.goal.latency_budget_ms)


@pytest.mark.campaign
def test_highest_rate_of_live_server_matches_its_queue(tmp_path: Path) -> None:
    name, goal, times_ms = timed_server.name_of("rates"), SearchGoal(25, 90, "poisson"), [5.0]
    with timed_server.served(tmp_path) as timed, timed.job(name, times_ms, timed_server.POINT) as job:

        def job_of(operating_point: OperatingPoint) -> LoadJob:
            return dataclasses.replace(job, point=operating_point.point, request_s=0.005)

        measurer = CandidateMeasurer(goal, job_of, contextlib.nullcontext, plan := MeasuringPlan())
        winner, _entry = fastest.find_fastest(ALONE, goal, measurer, plan)
        measurer.run_pass(job, 1.0)

    # While the model is busy, its own clock shows the server's overhead beyond the 5 ms too.
    service_s = 1 / timed_server.busy_rate_per_s(timed.repository, name, last=300)
    exact = highest_rate_per_s(service_s, goal)
    rate = present(winner.operating_point.point.request_rate_per_s)
    if winner.verdict != "passed":
        pytest.skip(f"other programs delayed requests: {winner.latency_ms} is {winner.verdict}")
    # Other programs lengthen tails, which only lowers the rate within budget.
    assert 0.3 * exact < rate < 1.05 * exact, f"{exact:.1f}/s of {1e3 * service_s:.2f} ms"
    assert np.mean(winner.throughputs_per_s) == pytest.approx(rate, rel=0.12)
