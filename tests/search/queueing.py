"""A server with exactly known percentiles: M/D/1, so Poisson arrivals and equally long requests; the spaces of
the tests' searches; and a candidate that a search has measured anew."""

import contextlib
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tests import toy
from tritonproof.measure.passes import LoadJob
from tritonproof.measure.point_state import PointState, Side
from tritonproof.measure.stopping import MeasuringPlan
from tritonproof.record import fields, setup, speed
from tritonproof.search import candidates, fastest
from tritonproof.search.candidates import Candidate, SearchGoal, SearchSpace
from tritonproof.search.measurer import Measurer, Rerun

OWN = setup.Deployment(32, 1, (16, 32), 1_000, cuda_graphs=False, warmup=True)
SPACE = SearchSpace(OWN, "cpu", 2)
ALONE = SearchSpace(OWN, "cpu", 2, 1, frozenset({"instances", "max_queue_delay_us", "preferred_batch_sizes"}))
"""A space of one configuration."""
PASS_S, FRESH = 0.3, 10


def share_answered(rate_per_s: float, service_s: float, latency_s: float) -> float:
    """Share of requests that an M/D/1 server answers within `latency_s`, by Erlang's formula."""
    busy, waits = rate_per_s * service_s, latency_s / service_s - 1
    if waits < 0:
        return 0.0
    # The terms alternate, and are far larger than their sum.
    total = Fraction(0)
    for term in range(math.floor(waits) + 1):
        exponent = busy * (term - waits)
        total += Fraction(exponent) ** term / math.factorial(term) * Fraction(math.exp(-exponent))
    return float((1 - busy) * total)


def highest_rate_per_s(service_s: float, goal: SearchGoal) -> float:
    """The rate of Poisson arrivals at which the percentile equals the budget."""
    low, high = 0.0, 1 / service_s
    for _step in range(40):
        middle = (low + high) / 2
        keeps = share_answered(middle, service_s, goal.latency_budget_ms / 1e3) >= goal.percentile / 100
        low, high = (middle, high) if keeps else (low, middle)
    return low


@dataclass
class QueueingServer(toy.SimulatedServer):
    """Serves one request after another in `service_s`, times `factor_of_instances` per further instance."""

    service_s: float = 0.005
    factor_of_instances: float = 1.3

    def __post_init__(self) -> None:
        super().__post_init__()
        self.mean_ms = lambda job, _number: 1e3 * job.request_s * max(1, job.point.concurrency)

    def job_of(self, candidate: Candidate, point: speed.LoadPoint) -> LoadJob:
        """The job of a candidate, with its service time."""
        factor = self.factor_of_instances ** (candidate.variant.deployment.instances - 1)
        return toy.job(point, request_s=self.service_s * factor)

    def say(self, activity: str, _detail: str) -> None:
        """Is told what a search does."""

    def search(
        self, goal: SearchGoal, point_budget_s: float = 3.0, space: SearchSpace = SPACE
    ) -> tuple[Rerun, speed.Search]:
        """Search as a real run does, with this server in place of the load generator."""
        plan = MeasuringPlan(point_budget_s=point_budget_s)
        measurer = Measurer(goal, plan, self.job_of, contextlib.nullcontext, self.run_pass, self.say)
        return fastest.find_fastest(space, measurer)


def rerun_with(verdict: fields.Verdict, per_s: float) -> Rerun:
    """A rerun from ten passes of about the same throughput."""
    candidate = candidates.basic_candidates(SPACE, SearchGoal(7, 99))[0]
    latencies_s = [1 / per_s / (1 + n % 3 / 1e3) for n in range(FRESH)]
    passes = [toy.closed_loop(np.full((1, 60), latency_s), 50 / per_s) for latency_s in latencies_s]
    state = PointState((Side(toy.job(candidate.ladder[0]), passes=tuple(passes)),))
    return Rerun(candidate, state, fields.Estimate(1, 1, 1), verdict)
