"""A candidate's state in a search: its passes, and by few readings the load that keeps the budget."""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

import numpy as np

from tritonproof.base.errors import AccuracyError, ProofError
from tritonproof.measure import estimates
from tritonproof.measure.passes import SteadyPart
from tritonproof.measure.point_state import PointState
from tritonproof.record.schema import ConfigVariant, LoadPoint
from tritonproof.search.candidates import Candidate, SearchGoal


@dataclass(frozen=True)
class OperatingPoint:
    """A candidate at one of its loads."""

    candidate: Candidate
    rung: int
    """The index of the load in the candidate's ladder."""

    @property
    def point(self) -> LoadPoint:
        return self.candidate.ladder[self.rung]

    @property
    def sample_level(self) -> float:
        return self.candidate.sample_levels[self.rung]


class RerunError(Exception):
    """A finalist cannot be measured anew, or answers wrongly under load, which only reruns check."""

    def __init__(self, candidate: Candidate, error: ProofError) -> None:
        self.candidate, self.error = candidate, error


class Measurer(Protocol):
    """What a search asks of its server: a `CandidateMeasurer` of a real one, or a simulation."""

    def probe(self, operating_point: OperatingPoint) -> SteadyPart:
        """Take one short pass. Raises ProofError if the candidate cannot be loaded or measured."""

    def measure_again(self, operating_points: Sequence[OperatingPoint]) -> Sequence[PointState]:
        """Take fresh passes at each point, in turns. Raises RerunError for the first that fails."""


@dataclass(frozen=True)
class Trial:
    """A candidate with the passes that select it; no reported figure comes from them."""

    candidate: Candidate
    probes: tuple[tuple[int, SteadyPart], ...] = ()
    """Each part with its rung, the index of its load in the candidate's ladder, in the order of time."""
    error: ProofError | None = None
    capacity_probe_count: int = 0
    """How many passes in a closed loop have shown which rates to try."""


@dataclass(frozen=True)
class RungReading:
    """What all passes at one load show together."""

    rung: int
    pass_count: int
    throughput_per_s: float
    """Inferences per second."""
    latency_ms: float
    """The latency at the goal's percentile."""


def screen(trial: Trial, probe_count: int, goal: SearchGoal, measurer: Measurer) -> Trial:
    """The trial with `probe_count` more passes, each where it helps most, or the error of one that failed."""
    for _count in range(probe_count if trial.error is None else 0):
        rung = next_rung(trial, goal)
        try:
            part = measurer.probe(OperatingPoint(trial.candidate, rung))
        except ProofError as error:
            return dataclasses.replace(trial, error=error)
        trial = dataclasses.replace(trial, probes=(*trial.probes, (rung, part)))
    return trial


def next_rung(trial: Trial, goal: SearchGoal) -> int:
    """The rung to measure next: between the heaviest load that keeps the budget and the lightest that does
    not, or once these are neighbours, where one more pass helps most.

    Latency is assumed to be proportional to the samples in flight outside of the measured levels, and a power
    of them between. At a rate it is neither, so the search bisects the rates, in logarithmic steps, as MLPerf
    LoadGen finds the peak of its Server scenario (FindPeakPerformanceBinarySearch of its loadgen.cc).
    """
    levels, readings = trial.candidate.sample_levels, readings_of(trial, goal)
    if not readings:
        return rung_at(levels, levels[-1] / 2 if goal.is_for_rate else math.sqrt(levels[-1]))
    low, high = _bracket(readings, goal)
    below, above = low.rung if low else -1, high.rung if high else len(levels)
    if above - below == 1:
        return _rung_to_repeat(readings, goal)
    if goal.is_for_rate:
        return (below + above) // 2
    nearest, power = low or readings[0], 1.0
    if low and high:
        power = math.log(levels[above] / levels[below]) / math.log(high.latency_ms / low.latency_ms)
    aim = levels[nearest.rung] * (goal.latency_budget_ms / nearest.latency_ms) ** power
    return min(max(rung_at(levels, aim), below + 1), above - 1)


def _rung_to_repeat(readings: Sequence[RungReading], goal: SearchGoal) -> int:
    """The edge of the bracket with fewer passes; if latency is no limit, a rung near the peak."""
    low, high = _bracket(readings, goal)
    edges = [reading for reading in (low, high) if reading]
    if high is None:
        peak = max(readings, key=attrgetter("throughput_per_s"))
        rungs = {reading.rung for reading in readings}
        if fresh := {(peak.rung + rung) // 2 for rung in rungs} - rungs:
            return min(fresh, key=lambda rung: abs(rung - peak.rung))
        edges = [peak]
    return int(min(edges, key=attrgetter("pass_count")).rung)


def _bracket(
    readings: Sequence[RungReading], goal: SearchGoal
) -> tuple[RungReading | None, RungReading | None]:
    """The heaviest load that keeps the budget, and the next, which does not; `readings` ascend by rung."""
    budget_ms = goal.latency_budget_ms
    last = max((i for i, reading in enumerate(readings) if reading.latency_ms <= budget_ms), default=-1)
    return readings[last] if last >= 0 else None, next(iter(readings[last + 1 :]), None)


def rung_at(levels: Sequence[float], wanted: float) -> int:
    """The rung of the highest level up to `wanted`."""
    return max(0, int(np.searchsorted(levels, wanted, side="right")) - 1)


def readings_of(trial: Trial, goal: SearchGoal) -> list[RungReading]:
    """What all passes at each rung show together, ascending by rung."""
    readings = []
    for rung in sorted({rung for rung, _ in trial.probes}):
        parts = [part for part_rung, part in trial.probes if part_rung == rung]
        per_s = estimates.requests_per_s(parts) * trial.candidate.ladder[rung].batch
        latency_ms = estimates.percentile_latency(parts, goal.percentile)
        readings.append(RungReading(rung, len(parts), per_s, latency_ms))
    return readings


def best_reading(trial: Trial, goal: SearchGoal) -> RungReading:
    """The reading of the highest throughput within the budget, else the one with the lowest latency."""
    readings = readings_of(trial, goal)
    within = [reading for reading in readings if reading.latency_ms <= goal.latency_budget_ms]
    nearest = min(readings, key=attrgetter("latency_ms"))
    return max(within, key=attrgetter("throughput_per_s"), default=nearest)


def promise_of(trial: Trial, goal: SearchGoal) -> float:
    """The highest throughput per second within the budget; if no load keeps it, minus the lowest latency."""
    best = best_reading(trial, goal)
    return best.throughput_per_s if best.latency_ms <= goal.latency_budget_ms else -best.latency_ms


def most_promising(trials: Iterable[Trial], goal: SearchGoal) -> list[Trial]:
    """The trials without an error, the most promising first."""
    sound = [trial for trial in trials if trial.error is None]
    return sorted(sound, key=lambda trial: -promise_of(trial, goal))


def finalists(trials: Sequence[Trial], goal: SearchGoal, count: int) -> list[Trial]:
    """At most `count` of the most promising trials, of different variants; all but the first seemed to
    keep the budget. If none could be measured, raises the error of wrong answers, else the first trial's."""
    best: dict[ConfigVariant, Trial] = {}
    for trial in most_promising(trials, goal):
        if not best or promise_of(trial, goal) > 0:
            best.setdefault(trial.candidate.variant, trial)
    if not best:
        errors = [trial.error for trial in trials if trial.error]
        raise next((error for error in errors if isinstance(error, AccuracyError)), errors[0])
    return list(best.values())[:count]
