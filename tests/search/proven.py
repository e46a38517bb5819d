"""A configuration that a search has proven, and its search space."""

import numpy as np

from fixtures.measure import point_state
from fixtures.measure.point_state import Measured, PointState
from fixtures.search import candidates
from fixtures.search.candidates import Goal, Space
from fixtures.search.fastest import Proof
from fixtures.search.trials import Entry
from fixtures.spec import Deployment
from reports.record.schema import Estimate, Verdict
from tests import toy

OWN = Deployment(32, 1, (16, 32), 1_000, cuda_graphs=False, warmup=True)
SPACE = Space(OWN, "cpu", 2)
PASS_S, FRESH = 0.3, 10


def proven(verdict: Verdict, per_s: float) -> Proof:
    """A proof from ten passes of about the same throughput."""
    candidate = candidates.basic_candidates(SPACE, Goal(7, 99))[0]
    latencies_s = [1 / per_s / (1 + n % 3 / 1e3) for n in range(FRESH)]
    timelines = [toy.closed_loop(np.full((1, 60), latency_s), 50 / per_s) for latency_s in latencies_s]
    passes = tuple(toy.run_of(timeline) for timeline in timelines)
    state = PointState(Measured(toy.job(candidate.ladder[0]), passes=passes))
    value = Estimate(per_s, per_s, per_s)
    return Proof(
        Entry(candidate, 0), state, Estimate(1, 1, 1), value, verdict, point_state.speeds(state.mine)
    )
