"""Measures load points together: short passes of all, in random order, until each is precise enough."""

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tritonproof.base.errors import ProofError
from tritonproof.measure import estimates, perf_analyzer, point_state, stopping
from tritonproof.measure.passes import WINDOWS, RunPass, pass_window_s, warm_up_window_s
from tritonproof.measure.point_result import point_result
from tritonproof.measure.point_state import PointState, Side
from tritonproof.measure.slowdown import MAX_PAIRS
from tritonproof.measure.stopping import MeasuringPlan
from tritonproof.record.quantities import COUNT, HALF_WIDTH
from tritonproof.record.speed import PointResult
from tritonproof.spec import OnProgress

Save = Callable[[Sequence[PointResult]], object]
"""Gets the results so far that count, each time that a round of passes ends."""
PAIRS_PER_LOADING = 8
"""Pairs of passes until both builds are reloaded. Of two servers with one model of 1.3 ms on 2 cores, the
first to start was 3 to 8 % slower in each of six trials, in CPU time too; reloaded twelve times, 1.7 %."""
_PAIRS_OVER_RELOADING = 3.0
"""The least seconds of pairs for each second of loading again and warming up."""


def sweep_points(
    begun: Sequence[PointState],
    plan: MeasuringPlan,
    *,
    is_done: Callable[[PointState, MeasuringPlan], bool] = stopping.is_measured,
    run_pass: RunPass = perf_analyzer.run_pass,
    on_progress: OnProgress = lambda _now: None,
    save: Save = lambda _results: None,
    reload: Callable[[], None] | None = None,
) -> list[PointState]:
    """Measure all points of one deployment in turns, each until `is_done`: by default until its interval is
    narrow, its comparison settled or its budget spent.

    First all warm up, in turns too, until their latencies are stationary. Rounds follow of one short pass of
    each unfinished point, in random order, so that disturbances of the machine affect all points alike and
    show as noise. A point with a baseline takes a pair of passes, one of each build. After each round `save`
    gets every point measured so far, so a killed run keeps them. A point that fails has its error in its
    state, and the others go on. Passes that a state already has count, so that measuring can go on after the
    model was loaded again. If a server pauses for longer than a window, its point begins anew with longer
    windows: of shorter passes only those without a pause would count, and show too high a speed.

    `reload` loads both builds again, in random order, before the first pair, and again after at least
    PAIRS_PER_LOADING pairs that took far longer than loading: where a model lies in memory makes it faster or
    slower for as long as it is loaded. If `reload` fails, so does every unfinished point.
    """
    rng = np.random.default_rng()
    states = list(begun)
    active = [index for index, state in enumerate(states) if state.error is None]
    while active:
        started = time.monotonic()
        try:
            if reload is not None:
                reload()
        except ProofError as error:
            for index in active:
                states[index] = dataclasses.replace(states[index], error=error)
            break
        warm = _warmed_up([states[index] for index in active], plan, run_pass, on_progress)
        for index, state in zip(active, warm, strict=True):
            states[index] = state
        active = [index for index in active if states[index].error is None]
        reloaded_at_s = time.monotonic()
        rounds = 0
        while active:
            for index in rng.permutation(active):
                progress = _progress(states[index], plan, len(states) - len(active), len(states))
                on_progress(f"{states[index].point} {progress}")
                states[index] = _with_another_pass(states[index], run_pass, rng)
            active = [index for index in active if not (states[index].error or is_done(states[index], plan))]
            unfinished = {states[index].point for index in active}
            repeated = [state for state in states if state.error is None and len(state.current.passes) > 1]
            save([point_result(state, plan, finished=state.point not in unfinished) for state in repeated])
            rounds += 1
            pairs_s, reloading_s = time.monotonic() - reloaded_at_s, reloaded_at_s - started
            pays = rounds >= PAIRS_PER_LOADING and pairs_s >= _PAIRS_OVER_RELOADING * reloading_s
            if reload is not None and pays:
                break
    return states


def _warmed_up(
    begun: Sequence[PointState], plan: MeasuringPlan, run_pass: RunPass, on_progress: OnProgress
) -> list[PointState]:
    """The points after warm-up passes of each side until its latencies were stationary, with the length of
    their windows, or with an error. They keep their passes."""

    def warm_up(side: Side) -> Side:
        latency_s = point_state.pass_latency_s(side.warm_up[-1]) if side.warm_up else side.job.request_s
        one_pass = run_pass(side.job, warm_up_window_s(side.job.point, latency_s))
        return point_state.with_pass(side, one_pass, warms_up=True)

    states = [_with_sides(state, lambda side: dataclasses.replace(side, warm_up=())) for state in begun]
    cold = list(range(len(states)))
    for _round in range(stopping.MAX_WARM_UP_PASSES):
        for index in cold:
            on_progress(f"{states[index].point} warm up")
            states[index] = _with_sides(states[index], warm_up)
        active = [index for index in cold if states[index].error is None]
        cold = [index for index in active if not all(map(stopping.is_warmed_up, states[index].sides))]
    return [_with_windows(state, plan) if state.error is None else state for state in states]


def _with_windows(state: PointState, plan: MeasuringPlan) -> PointState:
    """The point with the length of its windows: MAX_PASSES passes, or MAX_PAIRS pairs, fill the point budget,
    and about as many have the requests that --certify needs."""
    longest_s = max(map(point_state.median_latency_s, state.sides))
    sides, most = (1, stopping.MAX_PASSES) if state.terms is None else (2, MAX_PAIRS)
    share_s = pass_window_s(state.point, longest_s, plan.point_budget_s, sides * most)
    requests_per_s = state.point.level if state.point.is_at_rate else state.point.level / longest_s
    certifying_s = (plan.certifying_requests - state.requests) / requests_per_s / most / WINDOWS
    return dataclasses.replace(state, window_s=max(state.window_s, share_s, certifying_s))


def _with_another_pass(state: PointState, run_pass: RunPass, rng: np.random.Generator) -> PointState:
    """The point after another pass of each side, in random order, or with the error of a pass. If a pass had
    to take longer windows than the point's, these become the point's, and none of its passes counts."""

    def take_pass(side: Side) -> Side:
        return point_state.with_pass(side, run_pass(side.job, state.window_s))

    taken = _with_sides(state, take_pass, rng.permutation)
    longest_s = max((one_pass.window_s for side in taken.sides for one_pass in side.passes), default=0.0)
    if longest_s <= state.window_s:
        return taken
    void = _with_sides(taken, lambda side: dataclasses.replace(side, passes=()))
    return dataclasses.replace(void, window_s=longest_s)


def _with_sides(
    state: PointState, change: Callable[[Side], Side], order: Callable[[int], Iterable[int]] = range
) -> PointState:
    """The point with each side changed in turn, in an `order` of their indices, or with a ProofError."""
    sides = list(state.sides)
    try:
        for index in order(len(sides)):
            sides[index] = change(sides[index])
    except ProofError as error:
        return dataclasses.replace(state, error=error)
    return dataclasses.replace(state, sides=tuple(sides))


def _progress(state: PointState, plan: MeasuringPlan, settled: int, total: int) -> str:
    """What is next, and how precise the estimate is, such as `pass 3, 0 of 1 points; ± 2.0 %`. The estimate
    itself is left out, as the case may not be proven yet."""
    count = len(state.current.passes)
    text = f"{'pass' if state.terms is None else 'pair'} {count + 1}, {settled} of {total} points"
    if state.requests < (wanted := plan.certifying_requests):
        text += f", {COUNT.text(state.requests)} of {COUNT.text(wanted)} requests to certify"
    if count < 2:
        return text
    compared = point_state.compare_speeds(state)
    estimate = point_state.main_estimate(state) if compared is None else compared.ratio
    half_width = HALF_WIDTH.text(estimates.relative_half_width(estimate))
    return f"{text}; {'ratio ' if compared else ''}± {half_width}"
