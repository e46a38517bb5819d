"""Searches the highest request rate within a budget, on a server with exactly known percentiles."""

import dataclasses

import numpy as np
import pytest

from fixtures.measure.job import Job, Run
from fixtures.measure.point_state import Measured, PointState
from fixtures.measure.timeline import Steady
from fixtures.search import proof, rates
from fixtures.search.candidates import Candidate, Goal
from fixtures.search.trials import Entry, Trial
from fixtures.spec import LoadPoint
from tests import toy
from tests.search.proven import SPACE
from tests.search.queueing import QueueingServer, highest_rate_per_s, share_answered

POISSON = Goal(10, 99, "poisson")
ALONE = dataclasses.replace(
    SPACE, held=frozenset({"instances", "max_queue_delay_us", "preferred_batch_sizes"})
)
"""One configuration."""


def rate_of(point: LoadPoint) -> float:
    assert point.request_rate_per_s is not None
    return point.request_rate_per_s


def test_exact_percentile_matches_a_simulated_queue() -> None:
    generator = np.random.default_rng(0)
    due_s = np.cumsum(generator.exponential(1 / 770, 1_000_000))
    order = np.arange(len(due_s))
    ends_s = np.maximum.accumulate(due_s - order * 0.001) + (order + 1) * 0.001

    assert np.mean(ends_s - due_s <= 0.010) == pytest.approx(share_answered(770, 0.001, 0.010), abs=0.001)


@pytest.mark.parametrize(("goal", "budget_s"), [(POISSON, 120.0), (Goal(10, 90, "poisson"), 30.0)])
def test_highest_rate_is_within_5_percent_and_keeps_budget(goal: Goal, budget_s: float) -> None:
    server = QueueingServer(service_s=0.001)
    found = server.search(goal, budget_s, ALONE)

    exact = highest_rate_per_s(0.001, goal)
    assert found.winner.verdict == "passed"
    assert 0.95 * exact <= rate_of(found.winner.entry.point) <= exact


def test_constant_arrivals_reach_server_capacity() -> None:
    found = QueueingServer(service_s=0.001).search(Goal(3, 99, "constant"), space=ALONE)

    assert found.winner.entry.point.arrivals == "constant"
    assert rate_of(found.winner.entry.point) == pytest.approx(1000, rel=0.06)


@pytest.mark.parametrize(("service_s", "budget_ms"), [(0.001, 10), (0.005, 100)])
def test_short_measurement_rarely_passes_an_excessive_rate(service_s: float, budget_ms: float) -> None:
    goal = Goal(budget_ms, 99, "poisson")
    exact = highest_rate_per_s(service_s, goal)
    found = [QueueingServer(seed, service_s).search(goal, 0.5, ALONE).winner for seed in range(12)]

    within = [rate_of(one.entry.point) for one in found if one.verdict == "passed"]
    assert len(within) >= 9
    assert np.mean([rate <= exact for rate in within]) >= 0.8, "the queue began empty"
    assert max(within) < 1.1 * exact


def test_faster_configuration_wins_with_scheduled_load() -> None:
    server = QueueingServer(service_s=0.001, factor_of_instances=2.0)
    found = server.search(POISSON)

    winner = found.winner.entry
    assert winner.candidate.deployment.instances == 1
    assert (winner.point.concurrency, winner.point.batch, winner.point.arrivals) == (0, 1, "poisson")
    assert found.configurations == 7
    asked = {point for point in server.asked if point.request_rate_per_s is not None}
    assert found.rates is not None
    assert len(asked) <= found.rates <= 60


def test_result_uses_fresh_passes_and_goodput_counts_timely_answers() -> None:
    server = QueueingServer(service_s=0.001)
    winner = server.search(Goal(10, 90, "poisson"), 5.0, ALONE).winner

    assert winner.goodput_per_s is not None
    in_time = np.concatenate([run.steady.latencies_ms for run in winner.state.mine.passes]) <= 10
    assert winner.goodput_per_s.value == pytest.approx(winner.throughput_per_s.value * in_time.mean())
    assert winner.goodput_per_s.low < winner.goodput_per_s.value < winner.goodput_per_s.high
    last = server.runs[winner.entry.point][-len(winner.state.mine.passes) :]
    assert [id(run) for run in winner.state.mine.passes] == [id(run) for run in last]


def test_budget_below_service_time_fails_without_search() -> None:
    server = QueueingServer(service_s=0.012)
    found = server.search(POISSON, space=ALONE)

    assert found.winner.verdict == "failed"
    assert found.winner.entry.point == LoadPoint("online", 1, 1)
    assert found.rates == 0
    assert found.winner.latency_ms.value == pytest.approx(12)
    assert all(point.request_rate_per_s is None for point in server.asked)


def test_unreachable_budget_above_service_time_fails() -> None:
    class Stalling(QueueingServer):
        """Every tenth request takes longer than the budget, whatever the load."""

        def take(self, job: Job, window_s: float) -> Run:
            run = super().take(job, window_s)
            ends = run.timeline.ends + 20_000_000 * (np.arange(len(run.timeline.ends)) % 10 == 0)
            return dataclasses.replace(run, timeline=dataclasses.replace(run.timeline, ends=ends))

    found = Stalling(service_s=0.001).search(POISSON, 0.5, ALONE)

    assert found.winner.verdict == "failed"
    assert found.winner.latency_ms.value > 10


def test_generous_budget_does_not_exceed_capacity() -> None:
    # A queue that grows takes seconds until it is as long as this budget.
    found = QueueingServer(service_s=0.001).search(Goal(5_000, 99, "poisson"), 0.5, ALONE)

    assert found.winner.verdict == "passed"
    assert 850 < rate_of(found.winner.entry.point) < 1000


def of_latencies(*ms: float) -> Steady:
    return Steady(float(len(ms)), 1.0, np.array(ms), due=len(ms))


@pytest.mark.parametrize(
    ("at_low", "at_high", "edge"),
    [
        ([9.0] * 200, [11.0] * 200, 10),
        ([9.0] * 200, [9.0] * 97 + [30.0] * 3, 10),
        ([11.0] * 200, [12.0] * 200, None),
    ],
)
def test_rate_passes_if_whole_interval_keeps_budget(
    at_low: list[float], at_high: list[float], edge: int | None
) -> None:
    candidate = Candidate("online", SPACE.own, rates.ladder_of(1000, POISSON)[:20])
    looked_at: list[int] = []

    def look(_candidate: Candidate, point: LoadPoint) -> Steady:
        looked_at.append(candidate.ladder.index(point))
        return of_latencies(*(at_low if looked_at[-1] <= 10 else at_high))

    trial = Trial(candidate, ((10, of_latencies(*at_low)),))
    assert rates.decide(trial, POISSON, 5.0, look).edge == edge
    assert len(set(looked_at)) <= 6


def test_rate_fails_once_server_falls_behind() -> None:
    candidate = Candidate("online", SPACE.own, rates.ladder_of(1000, POISSON)[:1])
    behind = dataclasses.replace(of_latencies(*[9.0] * 200), due=300)
    assert rates.decide(Trial(candidate, ((0, behind),)), POISSON, 5.0, lambda *_: behind).edge is None

    server, point = QueueingServer(service_s=0.001), LoadPoint("online", 1, 0, 1200.0, "poisson")
    candidate = dataclasses.replace(candidate, ladder=(point,))
    runs = tuple(server.take(server.job_of(candidate, point), 0.3) for _pass in range(6))
    state = PointState(Measured(toy.job(point), passes=runs))
    found = proof.proof_of(Entry(candidate, 0), state, Goal(10_000, 99, "poisson"))
    assert (found.verdict, found.latency_ms.high < 10_000) == ("failed", True)
