"""The state of a load point's measurement. All values are frozen: another pass makes a new state."""

import dataclasses
from dataclasses import dataclass

import numpy as np

from tritonproof.base.errors import ProofError
from tritonproof.measure import estimates, slowdown
from tritonproof.measure.passes import LATENCIES_PER_WINDOW, LoadJob, Pass, SteadyPart
from tritonproof.measure.slowdown import ComparisonTerms
from tritonproof.ratios import MIN_PAIRS, speed_of_pass
from tritonproof.record import correctness, fields
from tritonproof.record.speed import LoadPoint, SpeedComparison
from tritonproof.serve.server import Server


@dataclass(frozen=True)
class Side:
    """A load point on one server, the case's or its baseline's, with its passes there."""

    job: LoadJob
    passes: tuple[Pass, ...] = ()
    """The passes that count, in the order of time."""
    warm_up: tuple[Pass, ...] = ()
    """The passes since the model was loaded that only warmed it up."""
    failed_attempts: tuple[str, ...] = ()
    """Why attempts at passes, void ones too, were repeated; not at warm-ups, whose windows are short."""
    answers_under_load: tuple[correctness.AnswerComparison, ...] = ()
    """The verifications of all passes, also of warm-ups after earlier loadings."""


@dataclass(frozen=True)
class PointState:
    """A load point during its measurement. Its figures come from the passes of the current side; the passes
    of the baseline's side, taken in turns with these, give the speed that its own is compared with."""

    sides: tuple[Side, ...]
    """The case's own side, then its baseline's, if it has one."""
    terms: ComparisonTerms | None = None
    """The terms on which the speeds of both sides are compared; None without a baseline."""
    error: ProofError | None = None
    window_s: float = 0.0
    """Seconds of each window of the next pass of either side."""

    @property
    def current(self) -> Side:
        return self.sides[0]

    @property
    def point(self) -> LoadPoint:
        return self.current.job.point

    @property
    def steady_parts(self) -> list[SteadyPart]:
        return [one_pass.steady for one_pass in self.current.passes]

    @property
    def requests(self) -> int:
        return sum(len(part.latencies_ms) for part in self.steady_parts)

    @property
    def spent_s(self) -> float:
        """Seconds spent on passes that count, on both servers."""
        return sum(one_pass.elapsed_s for side in self.sides for one_pass in side.passes)


def with_baseline(state: PointState, server: Server, name: str, terms: ComparisonTerms) -> PointState:
    """The point with its baseline, loaded as `name` on `server`, whose answers are not verified."""
    job = state.current.job
    served = dataclasses.replace(job.served, server=server, name=name)
    side = Side(dataclasses.replace(job, served=served, expected_answers=None))
    return dataclasses.replace(state, sides=(state.current, side), terms=terms)


def with_pass(side: Side, one_pass: Pass, *, warms_up: bool = False) -> Side:
    """The side after another pass, which counts unless it only `warms_up`."""
    answers = (*side.answers_under_load, *filter(None, [one_pass.answers_under_load]))
    side = dataclasses.replace(side, answers_under_load=answers)
    if warms_up:
        return dataclasses.replace(side, warm_up=(*side.warm_up, one_pass))
    failed_attempts = *side.failed_attempts, *one_pass.failed_attempts
    return dataclasses.replace(side, passes=(*side.passes, one_pass), failed_attempts=failed_attempts)


def warm_up_latencies_ms(side: Side) -> np.ndarray:
    """Milliseconds of each request of the warm-up, in the order of the answers, [requests]."""
    return np.concatenate([one_pass.all_latencies_ms for one_pass in side.warm_up])


def pass_latency_s(one_pass: Pass) -> float:
    """The median seconds of a pass's requests, but no more than its windows were long enough for: above a
    server's capacity, requests take longer the longer a pass is."""
    return min(float(np.median(one_pass.all_latencies_ms)) / 1e3, one_pass.window_s / LATENCIES_PER_WINDOW)


def median_latency_s(side: Side) -> float:
    """The median seconds of a request in the warm-up."""
    return float(np.median(warm_up_latencies_ms(side))) / 1e3


def is_stationary(side: Side) -> bool:
    """Whether the latencies became stationary in the warm-up."""
    return estimates.warm_up_end(warm_up_latencies_ms(side)) is not None


def warm_up_s(side: Side) -> float:
    """The seconds under load until the latencies became stationary."""
    under_load_s = sum(one_pass.under_load_s for one_pass in side.warm_up)
    latencies = warm_up_latencies_ms(side)
    cut = estimates.warm_up_end(latencies)
    return round(under_load_s * (1.0 if cut is None else cut / len(latencies)), 3)


def main_estimate(state: PointState) -> fields.Estimate:
    """The estimate for the interval target: inferences per second, or at a rate the mean latency in ms."""
    if state.point.is_at_rate:
        return estimates.estimate(state.steady_parts, estimates.mean_latency_ms)
    return estimates.estimate(state.steady_parts, estimates.requests_per_s, scale=state.point.batch)


def speeds(side: Side) -> list[float]:
    return [speed(one_pass.steady, side.job.point) for one_pass in side.passes]


def speed(part: SteadyPart, point: LoadPoint) -> float:
    """The speed in a pass: inferences per second, or at a rate the inverse of the mean latency."""
    throughput_per_s = estimates.requests_per_s([part]) * point.batch
    return speed_of_pass(throughput_per_s, estimates.mean_latency_ms([part]), at_rate=point.is_at_rate)


def p99_ms(side: Side) -> list[float]:
    return [estimates.percentile_latency([one_pass.steady], 99) for one_pass in side.passes]


def compare_speeds(state: PointState) -> SpeedComparison | None:
    """The comparison with the baseline's speed; None without a baseline, or with too few pairs yet."""
    if state.terms is None or len(state.current.passes) < MIN_PAIRS:
        return None
    current, baseline = state.sides
    result = slowdown.compare_pairs(speeds(current), speeds(baseline), state.terms, state.spent_s)
    return slowdown.with_p99(result, p99_ms(current), p99_ms(baseline))
