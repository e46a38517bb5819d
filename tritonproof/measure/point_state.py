"""The state of a load point's measurement. All values are frozen: a further pass makes a new value."""

import dataclasses
from dataclasses import dataclass

import numpy as np

from tritonproof.base.errors import ProofError
from tritonproof.measure import comparison, estimates
from tritonproof.measure.estimates import SteadyPass
from tritonproof.measure.job import Job, MeasuringPlan, PassResult
from tritonproof.ratios import MIN_PAIRS, speed_of_pass
from tritonproof.record.schema import Estimate, LoadPoint, SpeedComparison, VerifiedAnswers
from tritonproof.serve.server import Server


@dataclass(frozen=True)
class Side:
    """The passes over one load point on one server."""

    job: Job
    warm_up: tuple[PassResult, ...] = ()
    """Those since the model was loaded that only warmed it up."""
    passes: tuple[PassResult, ...] = ()
    """Those that count, in the order they were taken."""
    window_s: float = 0.0
    """Seconds of a measuring window of the next pass."""
    damaged: tuple[str, ...] = ()
    answers: tuple[VerifiedAnswers, ...] = ()
    """The verified answers of all passes, also of warm-ups after earlier loadings."""

    @property
    def steady_passes(self) -> list[SteadyPass]:
        return [result.steady for result in self.passes]

    @property
    def requests(self) -> int:
        return sum(len(steady.latencies_ms) for steady in self.steady_passes)

    @property
    def spent_s(self) -> float:
        return sum(result.elapsed_s for result in self.passes)


@dataclass(frozen=True)
class PointState:
    """A load point while it is measured, with the baseline that it is compared with, if any."""

    current: Side
    baseline: Side | None = None
    error: ProofError | None = None

    @property
    def point(self) -> LoadPoint:
        return self.current.job.point

    @property
    def sides(self) -> tuple[Side, ...]:
        return (self.current,) if self.baseline is None else (self.current, self.baseline)

    @property
    def spent_s(self) -> float:
        """Seconds spent on passes that count, of all sides."""
        return sum(side.spent_s for side in self.sides)


def with_baseline(state: PointState, server: Server, name: str) -> PointState:
    """The point together with that of a baseline, loaded as `name` on `server`, measured in turns."""
    # The answers of the baseline may differ, so nothing is verified on its side.
    job = state.current.job
    served = dataclasses.replace(job.served, server=server, name=name)
    baseline = Side(dataclasses.replace(job, served=served, verifies=False))
    return dataclasses.replace(state, baseline=baseline)


def with_pass(side: Side, result: PassResult, *, warms_up: bool = False) -> Side:
    """The side after another pass, which counts unless it only `warms_up`."""
    return dataclasses.replace(
        side,
        warm_up=(*side.warm_up, result) if warms_up else side.warm_up,
        passes=side.passes if warms_up else (*side.passes, result),
        window_s=result.next_window_s,  # what was too short for these requests is so for the next ones too
        damaged=(*side.damaged, *result.damaged),
        answers=(*side.answers, *filter(None, [result.answers])),
    )


def warm_up_latencies_s(side: Side) -> np.ndarray:
    """Seconds of each request of a side's warm-up, in the order of the answers, [requests]."""
    return np.concatenate([result.latencies_s for result in side.warm_up])


def median_latency_s(side: Side) -> float:
    """Median seconds of a request while the server was warmed up."""
    return float(np.median(warm_up_latencies_s(side)))


def is_stationary(side: Side) -> bool:
    """Whether the latencies were shown to be stationary before the measurement."""
    return estimates.warm_up_end(warm_up_latencies_s(side)) is not None


def warm_up_s(side: Side) -> float:
    """Seconds under load until the latencies were stationary."""
    latencies, timelines = warm_up_latencies_s(side), [result.timeline for result in side.warm_up]
    under_load_s = sum(float(times.ends_ns.max() - times.starts_ns.min()) / 1e9 for times in timelines)
    cut = estimates.warm_up_end(latencies)
    return round(under_load_s * (1.0 if cut is None else cut / len(latencies)), 3)


def main_estimate(side: Side) -> Estimate:
    """What the interval target is for: inferences per second, or at a request rate the mean latency in ms."""
    point = side.job.point
    if point.request_rate_per_s is None:
        return estimates.estimate(side.steady_passes, estimates.throughput, scale=point.batch)
    return estimates.estimate(side.steady_passes, estimates.mean_latency)


def speeds(side: Side) -> list[float]:
    return [speed(steady, side.job.point) for steady in side.steady_passes]


def speed(steady: SteadyPass, point: LoadPoint) -> float:
    throughput_per_s = estimates.throughput([steady]) * point.batch
    return speed_of_pass(throughput_per_s, estimates.mean_latency([steady]), point.request_rate_per_s)


def p99_ms(side: Side) -> list[float]:
    return [estimates.percentile_latency([steady], 99) for steady in side.steady_passes]


def compare_speeds(state: PointState, plan: MeasuringPlan) -> SpeedComparison | None:
    """The comparison with the baseline's speed; None without one, or with too few pairs yet."""
    if state.baseline is None or len(state.current.passes) < MIN_PAIRS:
        return None
    result = comparison.compare_pairs(speeds(state.current), speeds(state.baseline), plan, state.spent_s)
    return comparison.with_p99(result, p99_ms(state.current), p99_ms(state.baseline))
