"""Measures the candidates of a search on their server, and judges whether their latencies keep the budget."""

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import structs

from tritonproof.accuracy.answer_comparison import merge_comparisons
from tritonproof.base.errors import AccuracyError, ProofError
from tritonproof.measure import estimates, perf_analyzer, stopping, sweep
from tritonproof.measure.passes import WINDOWS, LoadJob, RunPass, SteadyPart, warm_up_window_s
from tritonproof.measure.point_state import PointState, Side
from tritonproof.measure.stopping import MeasuringPlan
from tritonproof.measure.verifying import verifying
from tritonproof.record.fields import Estimate, Verdict
from tritonproof.record.speed import LoadPoint
from tritonproof.search.candidates import Candidate, SearchGoal, steady_state_s

_PROBES_PER_POINT_BUDGET = 40
"""The point budget over the least seconds of a probe's window."""
_RERUN_POINT_BUDGETS = 2
"""Point budgets for each load point of a rerun: a percentile takes longer than a throughput. With six passes
of one point budget, the upper end of a p99 was more than twice its value."""


@dataclass(frozen=True)
class Rerun:
    """Fresh passes of a candidate at one of its load points, and what they show."""

    candidate: Candidate
    state: PointState
    latency_ms: Estimate
    """The latency at the percentile that the goal names."""
    verdict: Verdict
    """Whether the latency is shown to keep the budget."""

    @property
    def throughputs_per_s(self) -> list[float]:
        """Inferences per second of each pass, also at a rate, which is what a search for rates compares."""
        batch = self.state.point.batch
        return [estimates.requests_per_s([part]) * batch for part in self.state.steady_parts]


class RerunError(Exception):
    """A finalist cannot be measured anew, or answers wrongly under load, which only reruns check."""

    def __init__(self, candidate: Candidate, error: ProofError) -> None:
        self.candidate, self.error = candidate, error


@dataclass(frozen=True)
class Measurer:
    """Loads and measures the candidates of a search, whose goal it knows, by passes of the load generator."""

    goal: SearchGoal
    plan: MeasuringPlan
    """The plan of an ordinary load point; probes take less, reruns more."""
    prepare_job: Callable[[Candidate, LoadPoint], LoadJob]
    """Loads the candidate, unless it is loaded, and returns the job of the load point, with the seconds of
    one request. Raises ProofError if it does not load."""
    hold_machine: Callable[[], contextlib.AbstractContextManager[None]]
    """Returns a block in which nothing else is measured or built on this machine."""
    run_pass: RunPass = perf_analyzer.run_pass
    say: Callable[[str, str], object] = lambda _activity, _detail: None
    """Is told what the search does, and the progress of that."""
    on_left_out: Callable[[Candidate, ProofError], object] = lambda _candidate, _error: None
    """Is told why a candidate cannot be loaded or measured, or answers wrongly."""

    def probe(self, candidate: Candidate, point: LoadPoint) -> SteadyPart:
        """Take one short pass. Answers are not verified, as it only gives a speed. Raises ProofError if the
        candidate cannot be loaded or measured."""
        steady_window_s = steady_state_s(candidate, self.goal) / WINDOWS
        try:
            job = self.prepare_job(candidate, point)
            queued_s = job.request_s * max(1.0, point.concurrency / candidate.variant.deployment.instances)
            # Latencies beyond the latency budget need not be precise.
            latency_s = max(job.request_s, min(queued_s, self.goal.latency_budget_ms / 1e3))
            least_s = max(steady_window_s, self.plan.point_budget_s / _PROBES_PER_POINT_BUDGET)
            with self.hold_machine():
                return self.run_pass(job, max(least_s, warm_up_window_s(point, latency_s))).steady
        except ProofError as error:
            self.on_left_out(candidate, error)
            raise

    def rerun(self, points: dict[Candidate, LoadPoint]) -> list[Rerun]:
        """Take half of the fresh passes of each candidate at its point, then the others in reverse order, so
        that a drift of the machine affects all alike, and the last is not loaded twice. Raises RerunError for
        the first that fails."""
        verified = {candidate: verifying(self.run_pass) for candidate in points}
        turns = [(candidate, 1.0) for candidate in reversed(points)]
        if len(points) > 1:
            turns = [(candidate, 0.5) for candidate in points] + turns
        states: dict[Candidate, PointState] = {}
        for candidate, share in turns:
            try:
                job = self.prepare_job(candidate, points[candidate])
                steady_window_s = steady_state_s(candidate, self.goal) / WINDOWS
                state = states.get(candidate) or PointState((Side(job),), window_s=steady_window_s)
                states[candidate] = self._take_turn(candidate, state, share, verified[candidate])
            except ProofError as error:
                self.on_left_out(candidate, error)
                raise RerunError(candidate, error) from error
        return [rerun_of(candidate, state, self.goal) for candidate, state in states.items()]

    def _take_turn(
        self, candidate: Candidate, state: PointState, share: float, run_pass: RunPass
    ) -> PointState:
        """The candidate's point after this share of a rerun's passes, with right answers."""
        goal, point_budget_s = self.goal, share * _RERUN_POINT_BUDGETS * self.plan.point_budget_s
        plan = dataclasses.replace(self.plan, point_budget_s=point_budget_s)

        def is_done(state: PointState, plan: MeasuringPlan) -> bool:
            return stopping.is_rerun_done(state, plan, goal.percentile, goal.latency_budget_ms, share)

        def say(now: str) -> None:
            self.say("rerun", f"{candidate.variant.scenario} {now}")

        with self.hold_machine():
            (state,) = sweep.sweep_points([state], plan, is_done=is_done, run_pass=run_pass, on_progress=say)
        if state.error is not None:
            raise state.error
        comparisons = state.current.answers_under_load
        if comparisons and (answers := merge_comparisons(comparisons)).wrong:
            what = f"{answers.wrong} of {answers.count} answers under load are wrong"
            raise AccuracyError(what, where=f"{state.current.job}, sample {answers.sample}")
        return state


def rerun_of(candidate: Candidate, state: PointState, goal: SearchGoal) -> Rerun:
    """The rerun that the passes in `state` make: the latency at the goal's percentile, and its verdict."""
    latency_ms = estimates.percentile_estimate(state.steady_parts, goal.percentile)
    return Rerun(candidate, state, latency_ms, search_verdict(latency_ms, state.steady_parts, goal))


def search_verdict(latency_ms: Estimate, parts: Sequence[SteadyPart], goal: SearchGoal) -> Verdict:
    """The verdict by which a search chooses, whether the percentile keeps the budget: a point that may not
    win has failed, even if its interval leaves that open. At a rate every interval counts as open above, as
    few passes may agree by luck. So the rule of MLPerf's Server scenario decides, which needs 662 requests
    for a p99: a queue forgets so slowly that hardly any requests are independent."""
    if not stopping.may_win(latency_ms, parts, goal.latency_budget_ms):
        return "failed"
    if goal.is_for_rate:
        latency_ms = structs.replace(latency_ms, open_above=True)
    bound_ms = estimates.certified(estimates.pooled_ms(parts), goal.percentile).bound_ms
    return latency_ms.verdict(goal.latency_budget_ms, bound_ms)
