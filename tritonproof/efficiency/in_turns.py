"""Measures in turns a case's fastest load points, its artifact in process and the reference format, to show
what serving costs and which format is the fastest."""

import functools
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tritonproof.efficiency.worker import Worker
from tritonproof.measure import estimates, perf_analyzer, stopping
from tritonproof.measure.marks import mark_of_failed_attempts, marks_where
from tritonproof.measure.passes import SLOW_REQUEST_S, LoadJob, RunPass, pass_window_s
from tritonproof.measure.stopping import MeasuringPlan
from tritonproof.record import fields, setup
from tritonproof.record.quantities import THROUGHPUT
from tritonproof.record.speed import Mark, PointResult

_TURN_S = 0.25
"""The least seconds of a turn in process: about as long as perf_analyzer's shortest pass."""
_TURN_BATCHES = 3
"""The fewest batches of a turn in process, however long they take: a pass has as many windows."""
_MAX_RATIO = 1.05
"""A larger ratio to in process, if certainly above 1, is an error: native backends reached 1.02 on a CPU."""
_REPEATED_WITHIN = 0.1
"""How far, as a share, a repeated throughput may be from the first: twice the default interval target."""


@dataclass(frozen=True)
class Turns:
    """The measurements so far: one figure for each side and turn."""

    rates_per_s: Mapping[str, Sequence[float]]
    """Inferences per second of each side, by turn: "served", through the server; "in_process", of the same
    artifact on as many GPUs as the server has; and perhaps "reference", of the served reference format."""
    spent_s: float = 0.0
    failed_attempts: Sequence[str] = ()
    """Why attempts at passes of the load generator were repeated."""

    @property
    def count(self) -> int:
        return len(self.rates_per_s["served"])

    def mean_per_s(self, side: str) -> fields.Estimate:
        """A side's inferences per second, from two turns on."""
        return estimates.geometric_mean(self.rates_per_s[side])

    @property
    def ratios(self) -> dict[str, np.ndarray]:
        """The ratios of the served side to each other side, by the other's name, [turns] each."""
        served, others = self.rates_per_s["served"], self.rates_per_s.keys() - {"served"}
        return {name: np.divide(served, self.rates_per_s[name]) for name in others}

    def ratio(self, to: str = "in_process") -> fields.Ratio:
        """The ratio of served to another side, from two turns on. Its interval is Student's, as there may be
        only three turns: the ranks of `paired_ratio`, which assume no distribution, need MIN_PAIRS."""
        mean = estimates.geometric_mean(self.ratios[to])
        return fields.Ratio(mean.value, mean.low, mean.high)


def take_turns(sides: Mapping[str, Callable[[], float]], done: Callable[[Turns], bool]) -> Turns:
    """Run all sides in turns, in random order, so that disturbances of the machine affect all alike. Each
    side is a function that runs for one turn, and returns its inferences per second. Unlike the points of a
    sweep, which end one by one, sides end together, as only their ratios count."""
    rates_per_s: dict[str, list[float]] = {name: [] for name in sides}
    spent_s, rng = 0.0, np.random.default_rng()
    while not done(Turns(rates_per_s, spent_s)):
        started = time.monotonic()
        for name in rng.permutation(list(sides)):
            rates_per_s[name].append(sides[name]())
        spent_s += time.monotonic() - started
    return Turns(rates_per_s, spent_s)


def measure_in_turns(
    jobs: Mapping[str, LoadJob],
    worker: Worker,
    batch: int,
    plan: MeasuringPlan,
    cold: Collection[str] = (),
    run_pass: RunPass = perf_analyzer.run_pass,
) -> Turns:
    """Measure in turns the loaded model at a load point (the job "served"), its artifact in `worker` with
    `batch` inferences at a time, and if given the reference format at its fastest point ("reference").

    The `worker` first takes an uncounted turn, as TorchScript compiles kernels in its second run, or a single
    batch if requests are slow. The `cold` jobs, which have not run since their model was loaded,
    take an uncounted turn too, unless they are slow.
    """
    slow = jobs["served"].request_s > SLOW_REQUEST_S
    windows_s = {name: pass_window_s(job.point, job.request_s) for name, job in jobs.items()}
    failed_attempts = list[str]()
    worker.measure_per_s(batch, 0 if slow else _TURN_S, 1 if slow else _TURN_BATCHES)
    for name in cold:
        if jobs[name].request_s <= SLOW_REQUEST_S:
            run_pass(jobs[name], windows_s[name])

    def rate_per_s(name: str) -> float:
        one_pass = run_pass(jobs[name], windows_s[name])
        failed_attempts.extend(one_pass.failed_attempts)
        windows_s[name] = one_pass.window_s  # longer from now on if it was too short
        return estimates.requests_per_s([one_pass.steady]) * jobs[name].point.batch

    sides = {name: functools.partial(rate_per_s, name) for name in jobs}
    sides["in_process"] = functools.partial(worker.measure_per_s, batch, _TURN_S, _TURN_BATCHES)
    turns = take_turns(
        sides, lambda now: stopping.are_turns_done([*now.ratios.values()], now.spent_s, plan, slow=slow)
    )
    return replace(turns, failed_attempts=failed_attempts)


def marks_of_turns(turns: Turns, result: PointResult, reference: PointResult | None = None) -> list[Mark]:
    """The marks of a point measured in turns, with earlier results of the point and of the `reference`."""
    changes = [_change("", result, turns.mean_per_s("served"))]
    if reference is not None and "reference" in turns.rates_per_s:
        changes.append(_change("the reference ", reference, turns.mean_per_s("reference")))
    changed, ratio = "; ".join(filter(None, changes)), turns.ratio()
    causes = "answers from a cache, fewer threads or another batch in process, or other programs at work"
    return marks_where(
        mark_of_failed_attempts(turns.failed_attempts),
        ("not-repeated", bool(changed), changed),
        ("faster-than-in-process", ratio.value > _MAX_RATIO and ratio.low > 1, f"look for {causes}"),
    )


def batch_in_process(result: PointResult, deployment: setup.Deployment, gpus: int = 1) -> int:
    """The batch that the server can form at a point, for a fair comparison in process: offline the requests'
    own; online the largest preferred size, else the largest of all, if each GPU has as many requests."""
    point = result.point
    if point.scenario == "offline":
        return point.batch
    aim = max(deployment.preferred_batch_sizes, default=deployment.max_batch_size)
    return max(point.batch, min(aim, math.ceil(point.batch * point.concurrency / gpus)))


def _change(whose: str, first: PointResult, repeated: fields.Estimate) -> str:
    """How a point's throughput differs when measured again, perhaps by chance; empty if it hardly does."""
    before_per_s = first.throughput_per_s.value
    text = f"{whose}{THROUGHPUT.text(repeated.value)} in place of {THROUGHPUT.text(before_per_s)}"
    return text if abs(repeated.value / before_per_s - 1) > _REPEATED_WITHIN else ""
