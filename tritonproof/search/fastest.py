"""Finds the highest throughput or request rate within a latency budget with few measurements, and measures
the best again with fresh passes, which did not help to choose it.

A candidate is a variant of the model's configuration with its possible load points. Its probes are a few
short passes at the load points where they help most. The most promising candidates get more; the two best are
the finalists, each at one of its load points. The rerun measures these with fresh passes, lowers a load that
exceeds the latency budget (in `search/`, the budget), and leaves out what answers wrongly.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from tritonproof import ratios
from tritonproof.base.errors import AccuracyError, ProofError
from tritonproof.measure import estimates
from tritonproof.measure.passes import SteadyPart
from tritonproof.measure.point_result import point_result
from tritonproof.record import fields, setup, speed
from tritonproof.search import candidates
from tritonproof.search.candidates import Candidate, SearchGoal, SearchSpace
from tritonproof.search.measurer import Measurer, Rerun, RerunError

_CAPACITY_LOAD_FACTOR = 2.0
"""The requests in flight by which the capacity is measured, over those that would just keep the budget: by
Little's law, a rate that keeps it never has more in flight."""
_PROBES = (4, 10)
"""The most passes of a candidate in the first and in the second round."""
_KEPT_SHARE, _MIN_KEPT = 1 / 3, 3
"""The first round keeps a third of the candidates, and at least three."""
_FINALISTS = 2
"""Configurations to rerun: the best, and the runner-up or the user's own, to show whether the best leads."""
_VERDICTS: Sequence[fields.Verdict] = ("passed", "inconclusive", "failed")
"""The verdicts, the best first."""
_MAX_RERUNS = 6
"""The most reruns. With six, one kept the budget in all 150 simulated searches for a rate; with 4, in 143."""
_LEAST_LOAD_SHARE = 0.7
"""A step down keeps at least this share of the load: a percentile's upper end may be one slow request."""
_RISE_AT_RATES = 4
"""The power of the rate with which latency rises: waiting times go with 1 / (1 - busy), which rises four
times as fast as the rate at a server that is busy for four fifths of the time."""


@dataclass(frozen=True)
class RungReading:
    """What all probes at one load point of a candidate show together."""

    rung: int
    pass_count: int
    throughput_per_s: float
    """Inferences per second."""
    latency_ms: float
    """The latency at the goal's percentile."""


def find_fastest(space: SearchSpace, measurer: Measurer) -> tuple[Rerun, speed.Search]:
    """The configuration and load of the highest throughput, or rate, that is shown to keep the budget, and
    the record's entry of the search, without its duration and the winner's config.pbtxt.

    Since the best of many noisy figures is too good on average, the reported ones are those of the rerun.
    Leaves out what does not load, cannot be measured or answers otherwise, even a finalist, for which the
    next promising configuration steps in. Raises ProofError if all are left out.
    """
    goal = measurer.goal
    tried = _first_round(space, measurer)
    count = max(_MIN_KEPT, math.ceil(_KEPT_SHARE * len(tried)))
    for number, candidate in enumerate(most_promising(tried, goal)[:count], 1):
        measurer.say(f"round 2, {number} of {count}, {candidate.label}", "")
        tried[tried.index(candidate)] = screen(candidate, _PROBES[1], measurer)
    own_variant = space.own_scenario, space.own_deployment
    attempts: list[list[Rerun]] = []
    while not attempts:
        best = finalists(tried, goal, _FINALISTS)
        measured = [candidate for candidate in tried if not candidate.error]
        own = [candidate for candidate in measured if candidate.variant == own_variant]
        if space.own_scenario is not None and own[:1] not in (best[:1], best[1:]):
            best[1:] = own[:1]  # no candidate replaces the user's own if that cannot be measured
        try:
            attempts = _rerun_best(best, measurer)
        except RerunError as failed:
            for index, candidate in enumerate(tried):
                if candidate.variant == failed.candidate.variant:
                    tried[index] = dataclasses.replace(candidate, error=failed.error)
    best_reruns = best_attempt(attempts)
    winner = best_reruns[0]
    probe_count = sum(len(candidate.probes) + candidate.capacity_probe_count for candidate in tried)
    entry = speed.Search(
        latency_budget_ms=goal.latency_budget_ms,
        percentile=f"p{goal.percentile}",
        deployment=winner.candidate.variant.deployment,
        result=point_result(winner.state, measurer.plan),
        verdict=winner.verdict,
        lead=_lead(best_reruns),
        configurations=len({candidate.variant for candidate in measured}),
        pass_count=probe_count + sum(len(one.state.current.passes) for reruns in attempts for one in reruns),
        duration_s=0.0,
        config="",
        own_is_measured=space.own_scenario is None or bool(own),
    )
    return winner, entry


def _first_round(space: SearchSpace, measurer: Measurer) -> list[Candidate]:
    """A few passes of every candidate: first to find the number of instances, then their batching."""
    goal, tried = measurer.goal, list[Candidate]()
    seen: set[setup.ConfigVariant] = set()

    def try_all(proposals: Iterable[Candidate]) -> None:
        for candidate in proposals:
            if candidate.variant not in seen:  # else it is tried with other load points
                seen.add(candidate.variant)
                measurer.say(f"configuration {len(seen)}, {candidate.label}", "")
            loaded = with_rates(candidate, measurer) if goal.is_for_rate else candidate
            tried.append(screen(loaded, _PROBES[0], measurer))

    try_all(candidates.basic_candidates(space, goal))
    dynamic = [candidate for candidate in tried if candidate.variant.joins_requests]
    online = most_promising(dynamic, goal)
    instances = online[0].variant.deployment.instances if online else space.own_deployment.instances
    varied = candidates.variations(space, goal, instances)
    try_all(candidate for candidate in varied if candidate.variant not in seen)
    return tried


def with_rates(candidate: Candidate, measurer: Measurer) -> Candidate:
    """The candidate with a ladder of rates up to its capacity, which is measured in a closed loop. If even
    one request at a time exceeds the budget, that load alone is its ladder: no rate can do better."""
    levels, rung, budget_ms = candidate.sample_levels, 0, measurer.goal.latency_budget_ms
    probes: list[SteadyPart] = []
    try:
        while True:
            probes.append(measurer.probe(candidate, candidate.ladder[rung]))
            latency_ms = estimates.percentile_latency(probes[-1:], 50)
            if latency_ms >= budget_ms or rung == len(levels) - 1:
                break
            aim = _CAPACITY_LOAD_FACTOR * levels[rung] * budget_ms / latency_ms
            rung = max(rung + 1, rung_at(levels, aim))
    except ProofError as error:
        return dataclasses.replace(candidate, capacity_probe_count=len(probes), error=error)
    ladder = candidate.ladder[:1]
    if rung > 0 or latency_ms <= budget_ms:
        capacity_per_s = max(estimates.requests_per_s([part]) for part in probes)
        ladder = candidates.ladder_of_rates(capacity_per_s, measurer.goal)
    return dataclasses.replace(candidate, ladder=ladder, capacity_probe_count=len(probes))


def screen(candidate: Candidate, probe_count: int, measurer: Measurer) -> Candidate:
    """The candidate with more probes, each where it helps most, or with the error of a probe that failed."""
    for _count in range(probe_count if candidate.error is None else 0):
        rung = next_rung(candidate, measurer.goal)
        try:
            part = measurer.probe(candidate, candidate.ladder[rung])
        except ProofError as error:
            return dataclasses.replace(candidate, error=error)
        candidate = dataclasses.replace(candidate, probes=(*candidate.probes, (rung, part)))
    return candidate


def next_rung(candidate: Candidate, goal: SearchGoal) -> int:
    """The rung to measure next: between the heaviest load that keeps the budget and the lightest that does
    not, or once these are neighbours, where one more pass helps most.

    Latency is assumed to be proportional to the samples in flight outside of the measured levels, and a power
    of them between. At a rate it is neither, so the search bisects the rates, in logarithmic steps, as MLPerf
    LoadGen finds the peak of its Server scenario (FindPeakPerformanceBinarySearch of its loadgen.cc).
    """
    levels, readings = candidate.sample_levels, readings_of(candidate, goal)
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


def readings_of(candidate: Candidate, goal: SearchGoal) -> list[RungReading]:
    """What all probes at each rung show together, ascending by rung."""
    readings = []
    for rung in sorted({rung for rung, _ in candidate.probes}):
        parts = [part for part_rung, part in candidate.probes if part_rung == rung]
        per_s = estimates.requests_per_s(parts) * candidate.ladder[rung].batch
        latency_ms = estimates.percentile_latency(parts, goal.percentile)
        readings.append(RungReading(rung, len(parts), per_s, latency_ms))
    return readings


def best_reading(candidate: Candidate, goal: SearchGoal) -> RungReading:
    """The reading of the highest throughput within the budget, else the one with the lowest latency."""
    readings = readings_of(candidate, goal)
    within = [reading for reading in readings if reading.latency_ms <= goal.latency_budget_ms]
    nearest = min(readings, key=attrgetter("latency_ms"))
    return max(within, key=attrgetter("throughput_per_s"), default=nearest)


def promise_of(candidate: Candidate, goal: SearchGoal) -> float:
    """The highest throughput per second within the budget; if no load keeps it, minus the lowest latency."""
    best = best_reading(candidate, goal)
    return best.throughput_per_s if best.latency_ms <= goal.latency_budget_ms else -best.latency_ms


def most_promising(tried: Iterable[Candidate], goal: SearchGoal) -> list[Candidate]:
    """The candidates without an error, the most promising first."""
    sound = [candidate for candidate in tried if candidate.error is None]
    return sorted(sound, key=lambda candidate: -promise_of(candidate, goal))


def finalists(tried: Sequence[Candidate], goal: SearchGoal, count: int) -> list[Candidate]:
    """At most `count` of the most promising candidates, of different variants; all but the first seemed to
    keep the budget. If none could be measured, raises the error of wrong answers, else the first one's."""
    best: dict[setup.ConfigVariant, Candidate] = {}
    for candidate in most_promising(tried, goal):
        if not best or promise_of(candidate, goal) > 0:
            best.setdefault(candidate.variant, candidate)
    if not best:
        errors = [candidate.error for candidate in tried if candidate.error]
        raise next((error for error in errors if isinstance(error, AccuracyError)), errors[0])
    return list(best.values())[:count]


def _rerun_best(best: Sequence[Candidate], measurer: Measurer) -> list[list[Rerun]]:
    """Measure the candidates, each at its best load point, with fresh passes, until the first is shown to
    keep the budget or none is left; returns all attempts. If the first candidate fails, the next attempt
    lowers its load, and the second's load if that fails too, and takes all passes again."""
    goal = measurer.goal
    points = {candidate: candidate.ladder[best_reading(candidate, goal).rung] for candidate in best}
    attempts: list[list[Rerun]] = []
    while points and len(attempts) < _MAX_RERUNS:
        loads = " and ".join(f"{candidate.variant.scenario} {point}" for candidate, point in points.items())
        measurer.say(f"rerun {len(attempts) + 1} of at most {_MAX_RERUNS}, {loads}", "")
        reruns = measurer.rerun(points)
        attempts.append(reruns)
        if _next_point(reruns[0], goal) == reruns[0].state.point:
            break
        lighter = {rerun.candidate: _next_point(rerun, goal) for rerun in reruns}
        points = {candidate: point for candidate, point in lighter.items() if point is not None}
    return attempts


def _next_point(rerun: Rerun, goal: SearchGoal) -> speed.LoadPoint | None:
    """The same load if it keeps the budget, or in a closed loop only lacks requests, of which lighter loads
    have fewer; else one at which the percentile's upper end should keep it; None below the lightest."""
    candidate, point = rerun.candidate, rerun.state.point
    is_below = rerun.latency_ms.high <= goal.latency_budget_ms
    if rerun.verdict == "passed" or (is_below and not goal.is_for_rate):
        return point
    rung, levels = candidate.ladder.index(point), candidate.sample_levels
    if rung == 0:
        return None
    share = max(_LEAST_LOAD_SHARE, goal.latency_budget_ms / rerun.latency_ms.high)
    if goal.is_for_rate:
        share **= 1 / _RISE_AT_RATES
    return candidate.ladder[min(rung - 1, rung_at(levels, share * levels[rung]))]


def best_attempt(attempts: Sequence[Sequence[Rerun]]) -> Sequence[Rerun]:
    """The last attempt whose first point passed, else the last that is inconclusive, else the nearest to the
    budget. Within an attempt the better verdict comes first, then the higher throughput."""
    ranked = []
    for reruns in attempts:
        ranks = [_VERDICTS.index(rerun.verdict) for rerun in reruns]
        ahead = _lead(reruns)
        is_faster = ahead is not None and ahead.value < 1 and ranks[0] == ranks[1]
        ranked.append(reruns[::-1] if ranks[-1] < ranks[0] or is_faster else reruns)
    for verdict in _VERDICTS[:-1]:
        if matching := [reruns for reruns in ranked if reruns[0].verdict == verdict]:
            return matching[-1]
    return min(ranked, key=lambda reruns: reruns[0].latency_ms.value)


def _lead(reruns: Sequence[Rerun]) -> fields.Ratio | None:
    """The ratio of the first point's throughput to the second's, if the second kept the budget too."""
    if len(reruns) < 2 or reruns[1].verdict == "failed":
        return None
    return ratios.unpaired_ratio(reruns[0].throughputs_per_s, reruns[1].throughputs_per_s)
