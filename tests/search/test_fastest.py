"""The search finds the optimum within budget in few measurements, on servers of known percentiles."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from tests import toy
from tests.helpers import present
from tests.search.queueing import ALONE, OWN, SPACE, QueueingServer, highest_rate_per_s, rerun_with
from tritonproof.base.errors import ProofError
from tritonproof.measure import estimates
from tritonproof.measure.passes import LoadJob, Pass
from tritonproof.record import correctness, speed
from tritonproof.search import candidates, fastest
from tritonproof.search.candidates import Candidate, SearchGoal, SearchSpace
from tritonproof.search.measurer import Rerun

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
    assert winner.state.point.arrivals == goal.arrivals
    assert least * exact_per_s <= present(winner.state.point.request_rate_per_s) <= exact_per_s


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
    assert winner.state.point == speed.LoadPoint("online", 1, 1)
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
class BatchingServer(QueueingServer):
    """Answers all requests in flight together, with noise between requests and between passes. It keeps what a
    search does."""

    std: float = DEVIATION
    latency: Callable[[Candidate, float], float] = usual
    """Mean in milliseconds, by candidate and samples in flight."""
    luck: float = 0.03
    """Deviation between passes of the logarithm of the speed."""
    probed: list[Candidate] = field(default_factory=list)
    """The candidate of each probe."""
    rates_per_s: list[float] = field(default_factory=list)
    """Samples per second in each probe."""
    turns: list[Candidate] = field(default_factory=list)
    """The candidate of each turn of the reruns."""
    fresh: list[Pass] = field(default_factory=list)
    """All passes of the reruns, warm-ups too."""
    activities: list[str] = field(default_factory=list)
    """What a search said that it does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        generator = np.random.default_rng(self.seed + 1_000)

        def mean_ms(job: LoadJob, _number: int) -> float:
            loaded = (self.turns or self.probed)[-1]
            return self.mean_at(loaded, job.point) * math.exp(generator.normal(0, self.luck))

        self.mean_ms = mean_ms

    @property
    def rerun_count(self) -> int:
        return sum(activity.startswith("rerun ") for activity in self.activities)

    def say(self, activity: str, _detail: str) -> None:
        self.activities.append(activity)

    def job_of(self, candidate: Candidate, point: speed.LoadPoint) -> LoadJob:
        idle_s = self.latency(candidate, candidate.sample_levels[0]) / 1e3
        (self.turns if self.rerun_count else self.probed).append(candidate)
        return toy.job(point, request_s=idle_s)

    def run_pass(self, job: LoadJob, window_s: float) -> Pass:
        one_pass = super().run_pass(job, window_s)
        if self.rerun_count:
            self.fresh.append(one_pass)
        else:
            self.rates_per_s.append(estimates.requests_per_s([one_pass.steady]) * job.point.batch)
        return one_pass

    def mean_at(self, candidate: Candidate, point: speed.LoadPoint) -> float:
        return self.latency(candidate, point.batch * point.concurrency)

    def throughput_per_s(self, candidate: Candidate, point: speed.LoadPoint) -> float:
        return 1e3 * point.batch * point.concurrency / self.mean_at(candidate, point)

    def keeps(self, candidate: Candidate, point: speed.LoadPoint, goal: SearchGoal) -> bool:
        """Whether the true percentile keeps the budget."""
        z = {90: 1.2816, 95: 1.6449, 99: 2.3263}[goal.percentile]
        tail = math.exp(z * math.hypot(DEVIATION, self.luck) - DEVIATION**2 / 2)
        return self.mean_at(candidate, point) * tail <= goal.latency_budget_ms

    def optimum_per_s(self, goal: SearchGoal, space: SearchSpace = SPACE) -> float:
        """The true highest throughput of all loads whose true percentile keeps the budget."""
        every = candidates.basic_candidates(space, goal)
        every += [one for count in (1, 2) for one in candidates.variations(space, goal, count)]
        loads = [(one, point) for one in every for point in one.ladder]
        return max(self.throughput_per_s(*load) for load in loads if self.keeps(*load, goal))


SEARCHES = 25


def load_of(winner: Rerun) -> tuple[Candidate, speed.LoadPoint]:
    return winner.candidate, winner.state.point


@functools.cache
def searched(goal: SearchGoal) -> list[tuple[BatchingServer, Rerun, speed.Search]]:
    """Searches on usual servers with different seeds, each with its server."""
    return [(server := BatchingServer(seed=seed), *server.search(goal)) for seed in range(SEARCHES)]


@pytest.mark.parametrize(
    "goal",
    [SearchGoal(3, 99), SearchGoal(7, 99), SearchGoal(7, 90), SearchGoal(20, 95), SearchGoal(1000, 99)],
    ids=str,
)
def test_search_finds_near_optimum_within_budget(goal: SearchGoal) -> None:
    least_per_s = 0.95 * BatchingServer().optimum_per_s(goal)
    assert all(winner.verdict == "passed" for _, winner, _entry in searched(goal))
    near = [server.throughput_per_s(*load_of(winner)) >= least_per_s for server, winner, _ in searched(goal)]
    assert sum(near) >= 0.9 * SEARCHES
    kept = [server.keeps(*load_of(winner), goal) for server, winner, _ in searched(goal)]
    assert sum(kept) >= 0.9 * SEARCHES


def test_search_takes_few_measurements_and_loads() -> None:
    for server, _winner, entry in searched(SearchGoal(7, 99)):
        variants = [candidate.variant for candidate in server.probed]
        changes = sum(before != after for before, after in itertools.pairwise(variants))
        assert entry.configurations == sum("configuration" in text for text in server.activities) == 9
        assert len(server.probed) <= 90
        assert changes <= 9 + 4 + 2
        assert server.rerun_count <= 4


def test_impossible_budget_fails_with_nearest_configuration() -> None:
    server = BatchingServer()
    winner, entry = server.search(SearchGoal(0.5, 99))
    assert (entry.verdict, entry.lead) == ("failed", None)
    assert winner.state.point == winner.candidate.ladder[0]
    assert winner.latency_ms.value > 0.5
    assert len(server.probed) < 90


def test_too_few_requests_leave_verdict_open_without_lighter_loads() -> None:
    goal, space = SearchGoal(100_000, 99), dataclasses.replace(SPACE, batches=(1,), concurrencies=(1, 2))
    server = BatchingServer(latency=lambda candidate, load: 4_000 * usual(candidate, load))
    winner, entry = server.search(goal, space=space)
    assert winner.verdict == entry.verdict == "inconclusive"
    assert server.rerun_count == 1
    per_s = server.throughput_per_s(*load_of(winner))
    assert per_s >= 0.95 * server.optimum_per_s(goal, space)


def test_figures_come_from_fresh_passes() -> None:
    # All candidates are alike, so the best one was only lucky: its earlier figures are too good.
    def alike(_candidate: Candidate, load: float) -> float:
        return 1 + load / 2

    luck, errors, selected, counts = 0.2, [], [], []
    for seed in range(SEARCHES):
        server = BatchingServer(seed=seed, latency=alike, luck=luck)
        winner, entry = server.search(SearchGoal(1000, 99))
        passes, true_per_s = winner.state.current.passes, server.throughput_per_s(*load_of(winner))
        assert all(any(one is another for another in server.fresh) for one in passes)
        assert len(passes) <= entry.pass_count - len(server.probed) < len(server.fresh)
        errors.append(math.log(entry.result.throughput_per_s.value / true_per_s))
        selected.append(max(server.rates_per_s) / true_per_s)
        counts.append(len(passes))
    # The better of two finalists leads by 0.56 standard errors, and a mean of rates by half of the variance.
    bias = 0.56 * luck / math.sqrt(np.mean(counts)) + luck**2 / 2
    assert abs(np.mean(errors) - bias) < 3 * luck / math.sqrt(sum(counts))
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
    server, space = BatchingServer(), dataclasses.replace(SPACE, own_deployment=odd, own_scenario="online")
    server.search(SearchGoal(7, 99), space=space)
    assert ("online", odd) in {candidate.variant for candidate in server.probed}
    assert ("online", odd) in {candidate.variant for candidate in server.turns[:2]}


def test_configuration_that_fails_to_load_is_left_out() -> None:
    """If none is left, the first one's error is raised. A lead over others is none over a model's own."""

    def with_at_most(instances: int, candidate: Candidate, load: float) -> float:
        if (count := candidate.variant.deployment.instances) > instances:
            raise ProofError(f"it does not load with {count}")
        return usual(candidate, load)

    one, too, none = (BatchingServer(latency=functools.partial(with_at_most, count)) for count in (1, 1, 0))
    _winner, entry = one.search(SearchGoal(7, 99))
    assert (entry.deployment.instances, entry.verdict, entry.own_is_measured) == (1, "passed", True)
    own = structs.replace(OWN, instances=2)
    space = dataclasses.replace(SPACE, own_deployment=own, own_scenario="online")
    _winner, entry = too.search(SearchGoal(7, 99), space=space)
    assert (entry.verdict, entry.lead) == ("passed", None)
    assert not entry.own_is_measured
    assert len(set(too.turns)) == 1, "the best is rerun alone"
    with pytest.raises(ProofError, match=r"with 1$"):
        none.search(SearchGoal(7, 99))


@pytest.mark.parametrize("factor", [0.8, 1.1], ids=["the best", "the runner-up"])
def test_finalist_that_answers_wrongly_under_load_is_left_out(factor: float) -> None:
    """Further instances answer wrongly, which only reruns check, and the next promising takes their place."""
    right, wrong = ({"answers_under_load": correctness.AnswerComparison(10, wrong)} for wrong in (0, 5))
    server = QueueingServer(std=0.02, factor_of_instances=factor)
    server.changes = lambda job, _number: right if job.request_s == server.service_s else wrong
    _winner, entry = server.search(SearchGoal(200, 99))
    assert (entry.deployment.instances, entry.verdict) == (1, "passed")
    assert present(entry.result.answers_under_load).wrong == 0
    assert present(entry.lead).value > 2, "than one of another scenario, not of other instances"
