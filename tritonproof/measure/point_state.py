"""The state of a load point's measurement. All values are frozen: another pass makes a new state."""

import dataclasses
from dataclasses import dataclass

import numpy as np

from tritonproof.base.errors import ProofError
from tritonproof.measure import estimates, slowdown
from tritonproof.measure.passes import LoadJob, Pass
from tritonproof.measure.plan import LATENCIES_PER_WINDOW, MeasuringPlan
from tritonproof.ratios import MIN_PAIRS, speed_of_pass
from tritonproof.record.schema import AnswerComparison, Estimate, LoadPoint, SpeedComparison
from tritonproof.serve.server import Server


@dataclass(frozen=True)
class PointState:
    """A load point during its measurement: its passes on one server, and in turns those on a baseline's."""

    job: LoadJob
    passes: tuple[Pass, ...] = ()
    """The passes that count, in the order of time."""
    warm_up: tuple[Pass, ...] = ()
    """The passes since the model was loaded that only warmed it up."""
    window_s: float = 0.0
    """Seconds of each window of the next pass."""
    failed_attempts: tuple[str, ...] = ()
    """Why attempts at passes, void ones too, were repeated, but for warm-ups, whose windows are short."""
    answers_under_load: tuple[AnswerComparison, ...] = ()
    """The verifications of all passes, also of warm-ups after earlier loadings."""
    baseline: "PointState | None" = None
    """The same point on the baseline's server, if there is a baseline."""
    error: ProofError | None = None

    @property
    def point(self) -> LoadPoint:
        return self.job.point

    @property
    def sides(self) -> "tuple[PointState, ...]":
        """This server's state, and the baseline's if there is one."""
        return (self,) if self.baseline is None else (self, self.baseline)

    @property
    def requests(self) -> int:
        return sum(len(one_pass.latencies_ms) for one_pass in self.passes)

    @property
    def spent_s(self) -> float:
        """Seconds spent on passes that count, on both servers."""
        return sum(one_pass.elapsed_s for side in self.sides for one_pass in side.passes)


def with_baseline(state: PointState, server: Server, name: str) -> PointState:
    """The point with its baseline, loaded as `name` on `server`."""
    served = dataclasses.replace(state.job.served, server=server, name=name)
    baseline = PointState(dataclasses.replace(state.job, served=served, verifies=False))
    return dataclasses.replace(state, baseline=baseline)


def with_pass(state: PointState, one_pass: Pass, *, warms_up: bool = False) -> PointState:
    """The state after another pass, which counts unless it only `warms_up`."""
    answers = (*state.answers_under_load, *filter(None, [one_pass.answers_under_load]))
    state = dataclasses.replace(state, answers_under_load=answers)
    if warms_up:
        return dataclasses.replace(state, warm_up=(*state.warm_up, one_pass))
    return dataclasses.replace(
        state,
        passes=(*state.passes, one_pass),
        failed_attempts=(*state.failed_attempts, *one_pass.failed_attempts),
        window_s=one_pass.window_s,
    )


def warm_up_latencies_ms(state: PointState) -> np.ndarray:
    """Milliseconds of each request of the warm-up, in the order of the answers, [requests]."""
    return np.concatenate([one_pass.all_latencies_ms for one_pass in state.warm_up])


def pass_latency_s(one_pass: Pass) -> float:
    """The median seconds of a pass's requests, but no more than its windows were long enough for: above a
    server's capacity, requests take longer the longer a pass is."""
    return min(float(np.median(one_pass.all_latencies_ms)) / 1e3, one_pass.window_s / LATENCIES_PER_WINDOW)


def median_latency_s(state: PointState) -> float:
    """The median seconds of a request in the warm-up."""
    return float(np.median(warm_up_latencies_ms(state))) / 1e3


def is_stationary(state: PointState) -> bool:
    """Whether the latencies became stationary in the warm-up."""
    return estimates.warm_up_end(warm_up_latencies_ms(state)) is not None


def warm_up_s(state: PointState) -> float:
    """The seconds under load until the latencies became stationary."""
    under_load_s = sum(one_pass.under_load_s for one_pass in state.warm_up)
    latencies = warm_up_latencies_ms(state)
    cut = estimates.warm_up_end(latencies)
    return round(under_load_s * (1.0 if cut is None else cut / len(latencies)), 3)


def main_estimate(state: PointState) -> Estimate:
    """The estimate for the interval target: inferences per second, or at a rate the mean latency in ms."""
    if state.point.is_at_rate:
        return estimates.estimate(state.passes, estimates.mean_latency_ms)
    return estimates.estimate(state.passes, estimates.throughput, scale=state.point.batch)


def speeds(state: PointState) -> list[float]:
    return [speed(one_pass, state.point) for one_pass in state.passes]


def speed(one_pass: Pass, point: LoadPoint) -> float:
    """The speed in a pass: inferences per second, or at a rate the inverse of the mean latency."""
    throughput_per_s = estimates.throughput([one_pass]) * point.batch
    return speed_of_pass(throughput_per_s, estimates.mean_latency_ms([one_pass]), at_rate=point.is_at_rate)


def p99_ms(state: PointState) -> list[float]:
    return [estimates.percentile_latency([one_pass], 99) for one_pass in state.passes]


def compare_speeds(state: PointState, plan: MeasuringPlan) -> SpeedComparison | None:
    """The comparison with the baseline's speed; None without a baseline, or with too few pairs yet."""
    baseline = state.baseline
    if baseline is None or len(state.passes) < MIN_PAIRS:
        return None
    result = slowdown.compare_pairs(speeds(state), speeds(baseline), plan, state.spent_s)
    return slowdown.with_p99(result, p99_ms(state), p99_ms(baseline))
