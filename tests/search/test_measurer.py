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
from tritonproof.base.errors import ProofError
from tritonproof.client.requests import Answer
from tritonproof.measure.passes import LoadJob, SteadyPart
from tritonproof.measure.stopping import MeasuringPlan
from tritonproof.measure.verifying import verifying
from tritonproof.record import fields, speed
from tritonproof.search import candidates, fastest, measurer
from tritonproof.search.candidates import Candidate, SearchGoal
from tritonproof.search.measurer import Measurer, RerunError


def measurer_of(server: toy.SimulatedServer, loaded: list[Candidate], **changes: Any) -> Measurer:
    """A measurer of a simulated server, with `changes` of its jobs; it appends each loaded candidate."""

    def prepare_job(candidate: Candidate, point: speed.LoadPoint) -> LoadJob:
        loaded.append(candidate)
        return dataclasses.replace(toy.job(point, request_s=0.002), **changes)

    goal, plan = SearchGoal(7, 99), MeasuringPlan(point_budget_s=2.0)
    return Measurer(goal, plan, prepare_job, contextlib.nullcontext, server.run_pass)


def test_answers_of_each_choice_are_verified_in_reruns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if two are at one point, with requests so slow that verifying once takes longer than is due."""
    server = toy.SimulatedServer(changes=lambda *_: {"elapsed_s": 0.5})
    right = {toy.OUTPUT: toy.rows([0])}
    expected = toy.expected_answers(["toy-000"], right)
    slow = measurer_of(server, [], expected_answers=expected, request_s=60.0)
    ask = Mock(return_value=[Answer(np.array([0]), right)])
    monkeypatch.setattr(measurer, "verifying", functools.partial(verifying, ask=ask))
    first, *_, last = candidates.basic_candidates(SPACE, SearchGoal(7, 99))
    slow.probe(first, first.ladder[3])
    assert not ask.called, "it only gives a speed"
    reruns = slow.rerun(dict.fromkeys((first, last), first.ladder[3]))
    assert [len(rerun.state.current.answers_under_load) for rerun in reruns] == [1, 1]


def test_rerun_takes_both_orders_and_spends_its_budget() -> None:
    server, loaded = toy.SimulatedServer(lambda _job, _number: 1.0), list[Candidate]()
    first, second, *_ = candidates.basic_candidates(SPACE, SearchGoal(7, 99))
    points = {first: first.ladder[3], second: second.ladder[1]}
    states = [rerun.state for rerun in measurer_of(server, loaded).rerun(points)]
    assert loaded == [first, second, second, first], "a steady drift falls on both alike"
    assert [state.point for state in states] == list(points.values())
    assert all(4.0 - 0.5 < state.spent_s < 4.0 + 0.5 for state in states), "two budgets of a point each"
    assert all(part.latencies_ms[0] == 1.0 for part in states[0].steady_parts)


def test_pass_of_a_rerun_that_fails_names_its_candidate() -> None:
    server, (first, second, *_) = toy.SimulatedServer(), candidates.basic_candidates(SPACE, SearchGoal(7, 99))
    server.mean_ms = Mock(side_effect=[1.0, 1.0, ProofError("no pass")])
    with pytest.raises(RerunError) as failed:
        measurer_of(server, []).rerun({first: first.ladder[0], second: second.ladder[0]})
    assert failed.value.candidate == first
    assert failed.value.error.what == "no pass"


@pytest.mark.parametrize("latency_ms", [6.0, 8.0])
def test_rerun_certifies_what_keeps_the_budget(latency_ms: float) -> None:
    certifying = measurer_of(toy.SimulatedServer(lambda _job, _number: latency_ms), [])
    certifying = dataclasses.replace(certifying, plan=MeasuringPlan(point_budget_s=2.0, certify=99.9))
    one, *_ = candidates.basic_candidates(SPACE, certifying.goal)
    (rerun,) = certifying.rerun({one: one.ladder[0]})
    assert (rerun.state.requests >= 6_636) == (latency_ms <= certifying.goal.latency_budget_ms)


@pytest.mark.parametrize(
    ("low", "value", "high", "verdict"),
    [(5, 6, 7, "passed"), (5, 6, 7.1, "inconclusive"), (6, 7.1, 8, "failed"), (7, 7, 7, "passed")],
)
def test_verdict_follows_the_interval(low: float, value: float, high: float, verdict: str) -> None:
    parts = [SteadyPart(1.0, 1.0, np.array([value]))]
    assert measurer.search_verdict(fields.Estimate(value, low, high), parts, SearchGoal(7, 99)) == verdict


@pytest.mark.parametrize(
    ("requests", "answered", "verdict"),
    [(600, 100, "inconclusive"), (700, 100, "passed"), (700, 94, "failed")],
)
@pytest.mark.parametrize(
    ("is_open", "goal"), [(True, SearchGoal(7, 99)), (False, SearchGoal(7, 99, "poisson"))]
)
def test_requests_certify_an_open_interval_and_a_rate_that_the_server_keeps_up_with(
    requests: int, answered: float, verdict: str, is_open: bool, goal: SearchGoal
) -> None:
    parts = [SteadyPart(answered, 1.0, np.full(requests, 6.0), due=100)]
    assert measurer.search_verdict(fields.Estimate(6, 6, 6, open_above=is_open), parts, goal) == verdict


@pytest.mark.campaign
def test_highest_rate_of_live_server_matches_its_queue(tmp_path: Path) -> None:
    name, goal, times_ms = timed_server.name_of("rates"), SearchGoal(25, 90, "poisson"), [5.0]
    with timed_server.served(tmp_path) as timed, timed.job(name, times_ms, timed_server.POINT) as job:

        def job_of(_candidate: Candidate, point: speed.LoadPoint) -> LoadJob:
            return dataclasses.replace(job, point=point, request_s=0.005)

        live = Measurer(goal, MeasuringPlan(), job_of, contextlib.nullcontext)
        winner, _entry = fastest.find_fastest(ALONE, live)
        live.run_pass(job, 1.0)

    # While the model is busy, its own clock shows the server's overhead beyond the 5 ms too.
    service_s = 1 / timed_server.busy_rate_per_s(timed.repository, name, last=300)
    exact = highest_rate_per_s(service_s, goal)
    rate = present(winner.state.point.request_rate_per_s)
    if winner.verdict != "passed":
        pytest.skip(f"other programs delayed requests: {winner.latency_ms} is {winner.verdict}")
    # Other programs lengthen tails, which only lowers the rate within budget.
    assert 0.3 * exact < rate < 1.05 * exact, f"{exact:.1f}/s of {1e3 * service_s:.2f} ms"
    assert np.mean(winner.throughputs_per_s) == pytest.approx(rate, rel=0.12)
