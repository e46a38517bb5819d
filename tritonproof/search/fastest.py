"""Finds the highest throughput or request rate within a latency budget with few measurements, and measures
the best again with fresh passes, which did not help to choose it.

A candidate is a variant of the model's configuration with its possible load points. Its trial has probes, a
few short passes at the load points where they help most. The most promising trials get more; the two best are
the finalists, each at one of its load points, an operating point. The rerun measures these with fresh passes,
lowers a load that exceeds the latency budget (in `search/`, the budget), and leaves out what answers wrongly.
"""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from msgspec import structs

from tritonproof import ratios
from tritonproof.accuracy.answer_comparison import merge_comparisons
from tritonproof.base.errors import AccuracyError, ProofError
from tritonproof.measure import estimates, perf_analyzer, stopping, sweep
from tritonproof.measure.passes import LoadJob, RunPass, SteadyPart
from tritonproof.measure.plan import WINDOWS, MeasuringPlan, warm_up_window_s
from tritonproof.measure.point_result import point_result
from tritonproof.measure.point_state import PointState, Side
from tritonproof.measure.verifying import verifying
from tritonproof.record.schema import ConfigVariant, Estimate, Ratio, Scenario, Search, Verdict
from tritonproof.search import candidates, trials
from tritonproof.search.candidates import Candidate, SearchGoal, SearchSpace, steady_state_s
from tritonproof.search.trials import Measurer, OperatingPoint, RerunError, Trial
from tritonproof.spec import OnProgress

_CAPACITY_LOAD_FACTOR = 2.0
"""The requests in flight by which the capacity is measured, over those that would just keep the budget: by
Little's law, a rate that keeps it never has more in flight."""
_PROBES = (4, 10)
"""The most passes of a candidate in the first and in the second round."""
_KEPT_SHARE, _MIN_KEPT = 1 / 3, 3
"""The first round keeps a third of the candidates, and at least three."""
_FINALISTS = 2
"""Configurations to rerun: the best, and the runner-up or the user's own, to show whether the best leads."""
_VERDICTS: Sequence[Verdict] = ("passed", "inconclusive", "failed")
"""The verdicts, the best first."""
_MAX_RERUNS = 6
"""Reruns at most. In 150 simulated searches for a highest rate one of six kept the budget, of four in 143."""
_LEAST_LOAD_SHARE = 0.7
"""The least share of the load after a step down: a percentile's upper end may be one slow request."""
_RISE_AT_RATES = 4
"""The power of the rate with which latency rises: waiting times go with 1 / (1 - busy), which rises four
times as fast as the rate at a server that is busy for four fifths of the time."""


@dataclass(frozen=True)
class Rerun:
    """Fresh passes at an operating point, and what they show."""

    operating_point: OperatingPoint
    state: PointState
    latency_ms: Estimate
    """The latency at the percentile that the goal names."""
    verdict: Verdict
    """Whether the latency is shown to keep the budget."""

    @property
    def throughputs_per_s(self) -> list[float]:
        """Inferences per second of each pass, also at a rate, which is what a search for rates compares."""
        batch = self.operating_point.point.batch
        return [estimates.requests_per_s([part]) * batch for part in self.state.steady_parts]


def find_fastest(
    space: SearchSpace,
    goal: SearchGoal,
    measurer: Measurer,
    plan: MeasuringPlan,
    on_progress: OnProgress = lambda _text: None,
) -> tuple[Rerun, Search]:
    """The configuration and load of the highest throughput, or rate, that is shown to keep the budget, and
    the record's entry of the search, without its duration and the winner's config.pbtxt.

    Since the best of many noisy figures is too good on average, the reported ones are those of the rerun.
    Leaves out what does not load, cannot be measured or answers otherwise, even a finalist, for which the
    next promising configuration steps in. Raises ProofError if all are left out.
    """
    tried = {trial.candidate: trial for trial in _first_round(space, goal, measurer, on_progress)}
    count = max(_MIN_KEPT, math.ceil(_KEPT_SHARE * len(tried)))
    for number, trial in enumerate(trials.most_promising(tried.values(), goal)[:count], 1):
        on_progress(f"round 2, {number} of {count}, {trial.candidate.label}")
        tried[trial.candidate] = trials.screen(trial, _PROBES[1], goal, measurer)
    own_variant = space.own_scenario, space.own_deployment
    attempts: list[list[Rerun]] = []
    while not attempts:
        best = trials.finalists(list(tried.values()), goal, _FINALISTS)
        measured = [trial for trial in tried.values() if not trial.error]
        own = [trial for trial in measured if trial.candidate.variant == own_variant]
        if space.own_scenario is not None and own[:1] not in (best[:1], best[1:]):
            best[1:] = own[:1]  # no other takes its place if it cannot be measured
        try:
            attempts = _rerun_best(best, goal, measurer, on_progress)
        except RerunError as failed:
            for candidate, trial in tried.items():
                if candidate.variant == failed.candidate.variant:
                    tried[candidate] = dataclasses.replace(trial, error=failed.error)
    best_reruns = best_attempt(attempts)
    winner = best_reruns[0]
    probe_count = sum(len(trial.probes) + trial.capacity_probe_count for trial in tried.values())
    entry = Search(
        latency_budget_ms=goal.latency_budget_ms,
        percentile=f"p{goal.percentile}",
        deployment=winner.operating_point.candidate.variant.deployment,
        result=point_result(winner.state, plan),
        verdict=winner.verdict,
        lead=_lead(best_reruns),
        configurations=len({trial.candidate.variant for trial in measured}),
        pass_count=probe_count + sum(len(one.state.current.passes) for reruns in attempts for one in reruns),
        duration_s=0.0,
        config="",
        own_is_measured=space.own_scenario is None or bool(own),
    )
    return winner, entry


def _first_round(
    space: SearchSpace, goal: SearchGoal, measurer: Measurer, on_progress: OnProgress
) -> list[Trial]:
    """A few passes of every candidate: first to find the number of instances, then their batching."""
    first: list[Trial] = []
    seen: set[ConfigVariant] = set()

    def try_all(proposals: Iterable[Candidate]) -> None:
        for candidate in proposals:
            if candidate.variant not in seen:  # else it is tried with other load points
                seen.add(candidate.variant)
                on_progress(f"configuration {len(seen)}, {candidate.label}")
            trial = with_rates(candidate, goal, measurer) if goal.is_for_rate else Trial(candidate)
            first.append(trials.screen(trial, _PROBES[0], goal, measurer))

    try_all(candidates.basic_candidates(space, goal))
    dynamic = [trial for trial in first if trial.candidate.variant.joins_requests]
    online = trials.most_promising(dynamic, goal)
    instances = online[0].candidate.variant.deployment.instances if online else space.own_deployment.instances
    varied = candidates.variations(space, goal, instances)
    try_all(candidate for candidate in varied if candidate.variant not in seen)
    return first


def with_rates(candidate: Candidate, goal: SearchGoal, measurer: Measurer) -> Trial:
    """The candidate with a ladder of rates up to its capacity, which is measured in a closed loop. If even
    one request at a time exceeds the budget, that load alone is its ladder: no rate can do better."""
    levels, rung = candidate.sample_levels, 0
    probes: list[SteadyPart] = []
    try:
        while True:
            probes.append(measurer.probe(OperatingPoint(candidate, rung)))
            latency_ms = estimates.percentile_latency(probes[-1:], 50)
            if latency_ms >= goal.latency_budget_ms or rung == len(levels) - 1:
                break
            aim = _CAPACITY_LOAD_FACTOR * levels[rung] * goal.latency_budget_ms / latency_ms
            rung = max(rung + 1, trials.rung_at(levels, aim))
    except ProofError as error:
        return Trial(candidate, capacity_probe_count=len(probes), error=error)
    ladder = candidate.ladder[:1]
    if rung > 0 or latency_ms <= goal.latency_budget_ms:
        capacity_per_s = max(estimates.requests_per_s([part]) for part in probes)
        ladder = candidates.ladder_of_rates(capacity_per_s, goal)
    return Trial(dataclasses.replace(candidate, ladder=ladder), capacity_probe_count=len(probes))


def _rerun_best(
    best: Sequence[Trial], goal: SearchGoal, measurer: Measurer, on_progress: OnProgress
) -> list[list[Rerun]]:
    """Measure the best load points of the trials with fresh passes, until the first is shown to keep the
    budget or none is left; returns all attempts. If the first fails, the next attempt lowers its load, and
    that of the second if that fails too, and takes all passes again."""
    readings = ((trial.candidate, trials.best_reading(trial, goal)) for trial in best)
    operating_points = [OperatingPoint(candidate, reading.rung) for candidate, reading in readings]
    attempts: list[list[Rerun]] = []
    while operating_points and len(attempts) < _MAX_RERUNS:
        points = " and ".join(f"{one.candidate.variant.scenario} {one.point}" for one in operating_points)
        on_progress(f"rerun {len(attempts) + 1} of at most {_MAX_RERUNS}, {points}")
        states = zip(operating_points, measurer.measure_again(operating_points), strict=True)
        attempts.append([rerun_of(operating_point, state, goal) for operating_point, state in states])
        lighter = [_lighter(rerun, goal) for rerun in attempts[-1]]
        if lighter[0] == operating_points[0]:
            break
        operating_points = [*filter(None, lighter)]
    return attempts


def _lighter(rerun: Rerun, goal: SearchGoal) -> OperatingPoint | None:
    """The load to rerun next: the same if it keeps the budget, or in a closed loop lacks only requests, of
    which a lighter load has fewer; else where the percentile's upper end should; None below the lightest."""
    operating_point = rerun.operating_point
    is_below = rerun.latency_ms.high <= goal.latency_budget_ms
    if rerun.verdict == "passed" or (is_below and not goal.is_for_rate):
        return operating_point
    if operating_point.rung == 0:
        return None
    share = max(_LEAST_LOAD_SHARE, goal.latency_budget_ms / rerun.latency_ms.high)
    if goal.is_for_rate:
        share **= 1 / _RISE_AT_RATES
    lower = trials.rung_at(operating_point.candidate.sample_levels, share * operating_point.sample_level)
    return dataclasses.replace(operating_point, rung=min(operating_point.rung - 1, lower))


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


def _lead(reruns: Sequence[Rerun]) -> Ratio | None:
    """The ratio of the first point's throughput to the second's, if the second kept the budget too."""
    if len(reruns) < 2 or reruns[1].verdict == "failed":
        return None
    return ratios.unpaired_ratio(reruns[0].throughputs_per_s, reruns[1].throughputs_per_s)


def rerun_of(operating_point: OperatingPoint, state: PointState, goal: SearchGoal) -> Rerun:
    """A rerun by its passes: the latency at the goal's percentile, and whether it keeps the budget."""
    latency_ms = estimates.percentile_estimate(state.steady_parts, goal.percentile)
    return Rerun(operating_point, state, latency_ms, latency_verdict(latency_ms, state.steady_parts, goal))


def latency_verdict(latency_ms: Estimate, parts: Sequence[SteadyPart], goal: SearchGoal) -> Verdict:
    """Passed if the percentile's whole interval keeps the budget, and at a rate MLPerf's rule holds too;
    inconclusive if only its value keeps the budget; failed also if the server falls behind its rate."""
    if not estimates.keeps_up(parts):
        return "failed"
    if goal.is_for_rate:  # few passes may be narrow by luck
        latency_ms = structs.replace(latency_ms, open_above=True)
    if keeps_latency_budget(latency_ms, parts, goal):
        return "passed"
    return "inconclusive" if latency_ms.value <= goal.latency_budget_ms else "failed"


def keeps_latency_budget(latency_ms: Estimate, parts: Sequence[SteadyPart], goal: SearchGoal) -> bool:
    """Whether a percentile's whole interval keeps the budget. If it is open above, its finite end must, and
    the rule of MLPerf's Server scenario, which needs 662 requests for a p99, decides: a queue forgets so
    slowly that hardly any requests are independent."""
    bound_ms = None
    if latency_ms.open_above:
        bound_ms = estimates.certified(estimates.pooled_ms(parts), goal.percentile).bound_ms
    return latency_ms.is_within(goal.latency_budget_ms, bound_ms)


_PROBES_PER_POINT_BUDGET = 40
"""The point budget over the least seconds of a probe's window."""
_RERUN_POINT_BUDGETS = 2
"""Point budgets for each operating point of a rerun: a percentile takes longer than a throughput. With six
passes of one point budget, the upper end of a p99 was more than twice its value."""
_MAX_POINT_BUDGETS = 10
"""The most point budgets of a rerun while all requests keep the latency budget, but are too few for the
percentile: a minute by default, in which a server of 12 requests per second answers enough for a p99."""
_CERTIFYING = 2
"""The requests to send at a rate, as a multiple of those that certify: one slow one could fail a p99."""


@dataclass(frozen=True)
class CandidateMeasurer:
    """Measures the candidates of a search: loads each, and takes passes of the load generator."""

    goal: SearchGoal
    prepare_job: Callable[[OperatingPoint], LoadJob]
    """Loads the candidate, unless it is loaded, and returns the job of the load point, with the seconds of
    one request. Raises ProofError if it does not load."""
    hold_machine: Callable[[], contextlib.AbstractContextManager[None]]
    """Returns a block in which nothing else is measured or built on this machine."""
    plan: MeasuringPlan
    """The plan of an ordinary load point; probes take less, reruns more."""
    on_progress: Callable[[Scenario, str], None] = lambda _scenario, _now: None
    run_pass: RunPass = perf_analyzer.run_pass
    on_left_out: Callable[[Candidate, ProofError], object] = lambda _candidate, _error: None
    """Is told why a candidate cannot be loaded or measured, or answers wrongly."""

    def probe(self, operating_point: OperatingPoint) -> SteadyPart:
        """Take one short pass. Answers are not verified, as it only gives a speed."""
        candidate, point = operating_point.candidate, operating_point.point
        steady_window_s = steady_state_s(candidate, self.goal) / WINDOWS
        try:
            job = self.prepare_job(operating_point)
            queued_s = job.request_s * max(1.0, point.concurrency / candidate.variant.deployment.instances)
            # Latencies beyond the latency budget need not be precise.
            latency_s = max(job.request_s, min(queued_s, self.goal.latency_budget_ms / 1e3))
            least_s = max(steady_window_s, self.plan.point_budget_s / _PROBES_PER_POINT_BUDGET)
            with self.hold_machine():
                return self.run_pass(job, max(least_s, warm_up_window_s(point, latency_s))).steady
        except ProofError as error:
            self.on_left_out(candidate, error)
            raise

    def measure_again(self, operating_points: Sequence[OperatingPoint]) -> list[PointState]:
        """Take half of the passes of a rerun at each point, then the others in reverse order, so that a drift
        of the machine affects all alike, and the last is not loaded twice."""
        verified = {point: verifying(self.run_pass) for point in operating_points}
        turns = [(point, 1.0) for point in reversed(operating_points)]
        if len(operating_points) > 1:
            turns = [(point, 0.5) for point in operating_points] + turns
        states: dict[OperatingPoint, PointState] = {}
        for operating_point, share in turns:
            try:
                job = self.prepare_job(operating_point)
                steady_window_s = steady_state_s(operating_point.candidate, self.goal) / WINDOWS
                point_budget_s = share * _RERUN_POINT_BUDGETS * self.plan.point_budget_s
                plan = dataclasses.replace(self.plan, point_budget_s=point_budget_s)
                is_done = _is_rerun_done(plan, self.goal, operating_point, share)
                state = states.get(operating_point) or PointState(Side(job), window_s=steady_window_s)
                say = functools.partial(self.on_progress, operating_point.candidate.variant.scenario)
                with self.hold_machine():
                    (state,) = sweep.sweep_points(
                        [state], plan, is_done=is_done, run_pass=verified[operating_point], on_progress=say
                    )
                if state.error is not None:
                    raise state.error
                comparisons = state.current.answers_under_load
                if comparisons and (answers := merge_comparisons(comparisons)).wrong:
                    what = f"{answers.wrong} of {answers.count} answers under load are wrong"
                    raise AccuracyError(what, where=f"{job}, sample {answers.sample}")
            except ProofError as error:
                self.on_left_out(operating_point.candidate, error)
                raise RerunError(operating_point.candidate, error) from error
            states[operating_point] = state
        return list(states.values())


def _is_rerun_done(
    plan: MeasuringPlan, goal: SearchGoal, operating_point: OperatingPoint, share: float
) -> stopping.StoppingRule:
    """The stopping rule of a rerun's share: all of its point budget, as a narrow throughput says little about
    a percentile, and more while all requests keep the latency budget, but are too few to show it for the
    percentile. At a rate, also its share of the passes of a believable interval, and of the requests that
    certify the percentile in spite of some slow ones. A point that may win has those of --certify too."""
    least_passes, least_requests = float(stopping.PASSES_HOWEVER_LONG), 0.0
    certifying_requests = 0.0 if plan.certify is None else share * estimates.requests_needed(plan.certify)
    if operating_point.point.is_at_rate:
        least_passes = share * stopping.PASSES_TO_BELIEVE_AN_INTERVAL
        least_requests = share * _CERTIFYING * estimates.requests_needed(goal.percentile)

    def is_done(state: PointState) -> bool:
        parts = state.steady_parts
        is_short = len(parts) < least_passes or state.requests < least_requests
        if is_short or not stopping.is_spent(state.spent_s, len(parts), plan.point_budget_s):
            return False
        latency_ms = estimates.percentile_estimate(parts, goal.percentile)
        if state.requests < certifying_requests and latency_verdict(latency_ms, parts, goal) != "failed":
            return False
        is_above = latency_ms.high > goal.latency_budget_ms
        is_decided = is_above or keeps_latency_budget(latency_ms, parts, goal)
        return is_decided or state.spent_s > _MAX_POINT_BUDGETS * plan.point_budget_s

    return is_done
