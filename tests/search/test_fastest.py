"""The search finds the optimum within budget in few measurements, on servers of known percentiles."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from tests import toy
from tests.helpers import present
from tests.search import queueing
from tests.search.queueing import ALONE, OWN, PASS_S, SPACE, QueueingServer, highest_rate_per_s, rerun_with
from tritonproof.base.errors import ProofError
from tritonproof.measure.passes import SteadyPart
from tritonproof.measure.plan import MeasuringPlan
from tritonproof.measure.point_state import PointState, Side
from tritonproof.record.schema import AnswerComparison, LoadPoint, Search
from tritonproof.search import candidates, fastest
from tritonproof.search.candidates import Candidate, SearchGoal, SearchSpace
from tritonproof.search.fastest import Rerun
from tritonproof.search.trials import OperatingPoint

POISSON = SearchGoal(10, 99, "poisson")
CAPACITY_PER_S = 1000


@pytest.mark.parametrize(
    ("goal", "point_budget_s", "exact_per_s", "least"),
    [
        (POISSON, 120.0, highest_rate_per_s(0.001, POISSON), 0.95),
        (SearchGoal(10, 90, "poisson"), 30.0, highest_rate_per_s(0.001, SearchGoal(10, 90, "poisson")), 0.95),
        (SearchGoal(3, 99, "constant"), 3.0, CAPACITY_PER_S, 0.94),
        # A growing queue takes seconds until its delay reaches this budget.
        (SearchGoal(5_000, 99, "poisson"), 0.5, CAPACITY_PER_S, 0.85),
    ],
    ids=["p99", "p90", "constant arrivals", "generous budget"],
)
def test_highest_rate_is_found_and_keeps_budget(
    goal: SearchGoal, point_budget_s: float, exact_per_s: float, least: float
) -> None:
    winner, _entry = QueueingServer(service_s=0.001).search(goal, point_budget_s, ALONE)
    assert winner.verdict == "passed"
    assert winner.operating_point.point.arrivals == goal.arrivals
    assert least * exact_per_s <= present(winner.operating_point.point.request_rate_per_s) <= exact_per_s


@pytest.mark.parametrize(("service_s", "budget_ms"), [(0.001, 10), (0.005, 100)])
def test_short_measurement_rarely_passes_an_excessive_rate(service_s: float, budget_ms: float) -> None:
    goal = SearchGoal(budget_ms, 99, "poisson")
    exact = highest_rate_per_s(service_s, goal)
    servers = [QueueingServer(seed=seed, service_s=service_s) for seed in range(12)]
    entries = [server.search(goal, 0.5, ALONE)[1] for server in servers]

    passed = [entry.result.point for entry in entries if entry.verdict == "passed"]
    rates = [present(point.request_rate_per_s) for point in passed]
    assert len(rates) >= 9
    assert np.mean([rate <= exact for rate in rates]) >= 0.8, "the queue began empty"
    assert max(rates) < 1.1 * exact


def test_faster_configuration_wins_with_scheduled_load() -> None:
    server = QueueingServer(service_s=0.001, factor_of_instances=2.0)
    _winner, entry = server.search(POISSON)
    point = entry.result.point
    assert entry.deployment.instances == 1
    assert (point.concurrency, point.batch, point.arrivals) == (0, 1, "poisson")
    assert entry.configurations == 7
    assert len({point for _, point, _ in server.calls if point.request_rate_per_s is not None}) <= 60


def test_budget_below_service_time_fails_without_search() -> None:
    server = QueueingServer(service_s=0.012)
    winner, entry = server.search(POISSON, space=ALONE)
    assert winner.verdict == entry.verdict == "failed"
    assert winner.operating_point.point == LoadPoint("online", 1, 1)
    assert winner.latency_ms.value == pytest.approx(12)
    assert all(point.request_rate_per_s is None for _, point, _ in server.calls)


DEVIATION = 0.12
"""Standard deviation of the logarithm of a request's latency."""


def usual(candidate: Candidate, load: float) -> float:
    """A minimum plus the time to serve all samples in flight; two instances and some delay help a little."""
    (scenario, deployment), point = candidate.variant, candidate.ladder[0]
    per_s = 3000.0 if scenario == "offline" else 2000.0
    per_s *= 1 + 0.15 * (deployment.instances == 2)
    if scenario == "online" and deployment.max_queue_delay_us:
        per_s *= 1.1 if deployment.max_queue_delay_us < 500 else 0.9
    return 0.8 * point.concurrency**0.2 + 1e3 * load / per_s


@dataclass
class SimulatedMeasurer:
    """A simulated server that keeps its calls, with noise between requests and between passes."""

    seed: int = 0
    latency: Callable[[Candidate, float], float] = usual
    """Mean in milliseconds, by candidate and samples in flight."""
    luck: float = 0.03
    """Deviation between passes of the logarithm of the speed."""
    enough: int = 800
    """Fewest requests of a rerun; 662 certify a p99."""
    probes: list[OperatingPoint] = field(default_factory=list)
    rates_per_s: list[float] = field(default_factory=list)
    """The rate of each look."""
    reruns: list[Sequence[OperatingPoint]] = field(default_factory=list)
    """The entries of each attempt at a rerun."""
    fresh: list[PointState] = field(default_factory=list)
    """The states that all attempts measured."""
    activities: list[str] = field(default_factory=list)
    """What a search said that it does."""

    def __post_init__(self) -> None:
        self.generator = np.random.default_rng(self.seed)

    def mean_ms(self, operating_point: OperatingPoint) -> float:
        return self.latency(operating_point.candidate, operating_point.sample_level)

    def probe(self, operating_point: OperatingPoint) -> SteadyPart:
        self.probes.append(operating_point)
        point = operating_point.point
        mean_ms = self.latency(operating_point.candidate, point.batch * point.concurrency)
        mean_ms *= math.exp(self.generator.normal(0, self.luck))
        self.rates_per_s.append(1e3 * point.batch * point.concurrency / mean_ms)
        count = max(3, round(point.concurrency * PASS_S * 1e3 / mean_ms))
        latencies = mean_ms * np.exp(self.generator.normal(-(DEVIATION**2) / 2, DEVIATION, count))
        return SteadyPart(point.concurrency * PASS_S * 1e3 / mean_ms, PASS_S, latencies)

    def measure_again(self, operating_points: Sequence[OperatingPoint]) -> list[PointState]:
        self.reruns.append(tuple(operating_points))
        states = [self.fresh_passes(one) for one in operating_points]
        self.fresh += states
        return states

    def fresh_passes(self, operating_point: OperatingPoint) -> PointState:
        point, mean_ms = operating_point.point, self.mean_ms(operating_point)
        requests = max(6, round(3 * PASS_S * 1e3 / mean_ms))
        count = max(queueing.FRESH, math.ceil(self.enough / (requests / 4 * point.concurrency)))
        noise = self.generator.normal(-(DEVIATION**2) / 2, DEVIATION, (count, point.concurrency, requests))
        luck = self.generator.normal(0, self.luck, (count, 1, 1))
        passes = mean_ms / 1e3 * np.exp(noise + luck)
        results = tuple(toy.closed_loop(latencies_s, PASS_S) for latencies_s in passes)
        return PointState(Side(toy.job(point), passes=results, warm_up=results[:2]))

    def search(self, goal: SearchGoal, space: SearchSpace = SPACE) -> tuple[Rerun, Search]:
        return fastest.find_fastest(space, goal, self, MeasuringPlan(), self.activities.append)

    def throughput_per_s(self, operating_point: OperatingPoint) -> float:
        return 1e3 * operating_point.sample_level / self.mean_ms(operating_point)

    def keeps(self, operating_point: OperatingPoint, goal: SearchGoal) -> bool:
        """Whether the true percentile keeps the budget."""
        z = {90: 1.2816, 95: 1.6449, 99: 2.3263}[goal.percentile]
        tail = math.exp(z * math.hypot(DEVIATION, self.luck) - DEVIATION**2 / 2)
        return self.mean_ms(operating_point) * tail <= goal.latency_budget_ms

    def optimum_per_s(self, goal: SearchGoal) -> float:
        """The true highest throughput of all loads whose true percentile keeps the budget."""
        every = candidates.basic_candidates(SPACE, goal)
        every += [one for count in (1, 2) for one in candidates.variations(SPACE, goal, count)]
        operating_points = [OperatingPoint(one, rung) for one in every for rung in range(len(one.ladder))]
        return max(self.throughput_per_s(one) for one in operating_points if self.keeps(one, goal))


TRIALS = 40


@functools.cache
def searched(goal: SearchGoal) -> list[tuple[SimulatedMeasurer, Rerun, Search]]:
    """Searches on usual servers with different seeds, each with its measurer."""
    return [(measurer := SimulatedMeasurer(seed), *measurer.search(goal)) for seed in range(TRIALS)]


@pytest.mark.parametrize(
    "goal",
    [SearchGoal(3, 99), SearchGoal(7, 99), SearchGoal(7, 90), SearchGoal(20, 95), SearchGoal(1000, 99)],
    ids=str,
)
def test_search_finds_near_optimum_within_budget(goal: SearchGoal) -> None:
    winners = [(measurer, winner) for measurer, winner, _entry in searched(goal)]
    least_per_s = 0.95 * SimulatedMeasurer().optimum_per_s(goal)
    assert all(winner.verdict == "passed" for _, winner in winners)
    near = [measurer.throughput_per_s(winner.operating_point) >= least_per_s for measurer, winner in winners]
    assert sum(near) >= 0.9 * TRIALS
    assert sum(measurer.keeps(winner.operating_point, goal) for measurer, winner in winners) >= 0.9 * TRIALS


def test_search_takes_few_measurements_and_loads() -> None:
    for measurer, _winner, entry in searched(SearchGoal(7, 99)):
        variants = [probed.candidate.variant for probed in measurer.probes]
        changes = sum(before != after for before, after in itertools.pairwise(variants))
        assert entry.configurations == sum("configuration" in text for text in measurer.activities) == 9
        assert len(measurer.probes) <= 90
        assert changes <= 9 + 4 + 2
        assert len(measurer.reruns) <= 4


def test_impossible_budget_fails_with_nearest_configuration() -> None:
    measurer = SimulatedMeasurer()
    winner, entry = measurer.search(SearchGoal(0.5, 99))
    assert (entry.verdict, entry.lead, winner.operating_point.rung) == ("failed", None, 0)
    assert winner.latency_ms.value > 0.5
    assert len(measurer.probes) < 90


def test_too_few_requests_leave_verdict_open_without_lighter_loads() -> None:
    goal = SearchGoal(100_000, 99)
    measurer = SimulatedMeasurer(latency=lambda candidate, load: 8 * usual(candidate, load), enough=0)
    winner, entry = measurer.search(goal)
    assert winner.verdict == entry.verdict == "inconclusive"
    assert len(measurer.reruns) == 1
    assert measurer.throughput_per_s(winner.operating_point) >= 0.95 * measurer.optimum_per_s(goal)


def test_figures_come_from_fresh_passes() -> None:
    # All candidates are alike, so the best one was only lucky: its earlier figures are too good.
    def alike(_candidate: Candidate, load: float) -> float:
        return 1 + load / 2

    goal, errors, selected = SearchGoal(1000, 99), [], []
    for seed in range(TRIALS):
        measurer = SimulatedMeasurer(seed, alike, luck=0.2)
        winner, entry = measurer.search(goal)
        true_per_s = measurer.throughput_per_s(winner.operating_point)
        assert any(winner.state is state for state in measurer.fresh)
        assert entry.pass_count == len(measurer.probes) + sum(len(one.steady_parts) for one in measurer.fresh)
        errors.append(math.log(entry.result.throughput_per_s.value / true_per_s))
        selected.append(max(measurer.rates_per_s) / true_per_s)
    assert abs(np.mean(errors)) < 3 * 0.2 / math.sqrt(TRIALS * queueing.FRESH)
    assert np.mean(selected) > 1.2, "the passes that selected are lucky ones"


@pytest.mark.parametrize(
    ("first", "second", "is_second"),
    [
        (("passed", 100), ("passed", 90), False),
        (("passed", 100), ("passed", 100.01), True),  # though that is not shown
        (("passed", 90), ("inconclusive", 100), False),
        (("inconclusive", 100), ("passed", 90), True),
        (("inconclusive", 90), ("inconclusive", 100), True),
        (("inconclusive", 100), ("inconclusive", 100), False),
        (("inconclusive", 90), ("failed", 100), False),
    ],
)
def test_better_of_last_two_wins_when_attempts_are_spent(first: Any, second: Any, is_second: bool) -> None:
    reruns = [rerun_with(*first), rerun_with(*second)]
    assert fastest.best_attempt([reruns])[0] is reruns[is_second]


def test_own_deployment_of_model_is_tried_and_rerun_beside_the_best() -> None:
    odd = structs.replace(OWN, instances=3, preferred_batch_sizes=(5,), max_queue_delay_us=77)
    measurer = SimulatedMeasurer()
    space = dataclasses.replace(SPACE, own_deployment=odd, own_scenario="online")
    measurer.search(SearchGoal(7, 99), space)
    assert ("online", odd) in {probed.candidate.variant for probed in measurer.probes}
    assert ("online", odd) in {one.candidate.variant for one in measurer.reruns[0]}


def test_configuration_that_fails_to_load_is_left_out() -> None:
    """If none is left, the first one's error is raised. A lead over others is none over a model's own."""

    def with_at_most(instances: int, candidate: Candidate, load: float) -> float:
        if (count := candidate.variant.deployment.instances) > instances:
            raise ProofError(f"it does not load with {count}")
        return usual(candidate, load)

    one, none = (SimulatedMeasurer(latency=functools.partial(with_at_most, count)) for count in (1, 0))
    _winner, entry = one.search(SearchGoal(7, 99))
    assert (entry.deployment.instances, entry.verdict, entry.own_is_measured) == (1, "passed", True)
    own = structs.replace(OWN, instances=2)
    space = dataclasses.replace(SPACE, own_deployment=own, own_scenario="online")
    _winner, entry = one.search(SearchGoal(7, 99), space)
    assert (entry.verdict, entry.lead, len(one.reruns[-1])) == ("passed", None, 1)
    assert not entry.own_is_measured
    with pytest.raises(ProofError, match=r"with 1$"):
        none.search(SearchGoal(7, 99))


@pytest.mark.parametrize("factor", [0.8, 1.1], ids=["the best", "the runner-up"])
def test_finalist_that_answers_wrongly_under_load_is_left_out(factor: float) -> None:
    """Further instances answer wrongly, which only reruns check, and the next promising takes their place."""
    right, wrong = ({"answers_under_load": AnswerComparison(10, wrong)} for wrong in (0, 5))
    server = QueueingServer(std=0.02, factor_of_instances=factor)
    server.changes = lambda job, _number: right if job.request_s == server.service_s else wrong
    _winner, entry = server.search(SearchGoal(200, 99))
    assert (entry.deployment.instances, entry.verdict) == (1, "passed")
    assert present(entry.result.answers_under_load).wrong == 0
    assert present(entry.lead).value > 2, "than one of another scenario, not of other instances"
