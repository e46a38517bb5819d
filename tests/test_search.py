"""The search: what it plans, on simulated servers whose optimum is known, and one whole run of the suite."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from fixtures import search
from fixtures.errors import ProofError
from fixtures.load import Sampling
from fixtures.perf_analyzer import Job
from fixtures.search import Candidate, Entry, Found, Goal, Reading, Space
from fixtures.spec import Deployment, LoadPoint
from fixtures.statistics import Steady
from reports.record import Estimate
from tests import toy

OWN = Deployment(32, 1, (16, 32), 1_000, cuda_graphs=False, warmup=True)
SPACE = Space(OWN, "cpu", 2)
PASS_S, FRESH = 0.3, 10
SPREAD = 0.12
"""Of the logarithm of a request's latency."""

Latency = Callable[[Candidate, int], float]
"""Mean in milliseconds with so many samples in flight."""


def usual(candidate: Candidate, size: int) -> float:
    """A floor, and a server that works off what is in flight; two instances and some delay help a little."""
    deployment = candidate.deployment
    point = candidate.ladder[0]
    per_s = 3000.0 if candidate.scenario == "offline" else 2000.0
    per_s *= 1 + 0.15 * (deployment.instances == 2)
    if candidate.scenario == "online" and deployment.max_queue_delay_us:
        per_s *= 1.1 if deployment.max_queue_delay_us < 500 else 0.9
    return 0.8 * point.concurrency**0.2 + 1e3 * size / per_s


@dataclass
class Bench:
    """A simulated server: what was asked of it, and noise between requests and between passes."""

    seed: int = 0
    latency: Latency = usual
    luck: float = 0.03
    """Spread between passes of the logarithm of the speed."""
    looks: list[tuple[Candidate, LoadPoint]] = field(default_factory=list)
    contests: list[Sequence[Entry]] = field(default_factory=list)
    fresh: list[list[Sampling]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.generator = np.random.default_rng(self.seed)

    def look(self, candidate: Candidate, point: LoadPoint) -> Steady:
        self.looks.append((candidate, point))
        mean_ms = self.latency(candidate, point.batch * point.concurrency)
        mean_ms *= math.exp(self.generator.normal(0, self.luck))
        count = max(3, round(point.concurrency * PASS_S * 1e3 / mean_ms))
        latencies = mean_ms * np.exp(self.generator.normal(-(SPREAD**2) / 2, SPREAD, count))
        return Steady(point.concurrency * PASS_S * 1e3 / mean_ms, PASS_S, latencies)

    def contest(self, entries: Sequence[Entry]) -> list[Sampling]:
        self.contests.append(tuple(entries))
        found = []
        for entry in entries:
            job = Job(cast(Any, None), "toy", toy.model(), entry.point, "system", Path())
            looked = len(self.looks)
            parts = [self.look(entry.candidate, entry.point) for _ in range(FRESH)]
            del self.looks[looked:]
            found.append(Sampling(job, parts=parts))
        self.fresh.append(found)
        return found

    def search(self, goal: Goal, space: Space = SPACE) -> Found:
        return search.search(space, goal, self.look, self.contest)

    def throughput_per_s(self, candidate: Candidate, level: int) -> float:
        size = candidate.sizes[level]
        return 1e3 * size / self.latency(candidate, size)

    def optimum_per_s(self, goal: Goal, space: Space = SPACE) -> float:
        """The true highest throughput of all loads whose true percentile keeps the budget."""
        z = {90: 1.2816, 95: 1.6449, 99: 2.3263}[goal.percent]
        tail = math.exp(z * math.hypot(SPREAD, self.luck) - SPREAD**2 / 2)
        every = search.basic_candidates(space) + [
            one for count in (1, 2) for one in search.variations(space, goal, count)
        ]
        return max(
            self.throughput_per_s(one, level)
            for one in every
            for level, size in enumerate(one.sizes)
            if self.latency(one, size) * tail <= goal.budget_ms
        )
