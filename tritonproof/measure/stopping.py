"""How precisely to measure, and when that is reached: in a warm-up, by a point of a sweep, by a percentile in
a rerun of a search, and by ratios in turns beside the artifact in process."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tritonproof.measure import estimates, point_state, slowdown
from tritonproof.measure.passes import SLOW_REQUEST_S, SteadyPart
from tritonproof.measure.point_state import PointState, Side
from tritonproof.ratios import MIN_PAIRS
from tritonproof.record.fields import Estimate

FEW_REQUESTS = 100
"""Of fewer requests, less than one lies above the p99."""
PASSES_TO_BELIEVE_AN_INTERVAL = 6
"""Passes before a narrow interval is believed: with five, intervals of lucky passes are taken too often. With
six to eight, at least 92 of 100 simulated ones held the truth, for all shapes of latencies."""
PASSES_HOWEVER_LONG = 3
"""Passes even over the point budget, and turns of slow requests beside the artifact in process: the 95 %
interval of two reaches 12.7 standard errors, of three 4.3."""
TURNS_TO_BELIEVE_A_RATIO = 5
"""Turns before a narrow ratio is believed. With three, the 95 % interval reaches more than four standard
errors to each side; with five, less than three."""
MAX_PASSES = 30
"""Passes within a point budget; this makes each longer, so that less time is lost to starting them."""
MAX_WARM_UP_PASSES = 5
"""Passes of a warm-up at most; latencies that are not stationary by then are measured with a mark."""
_STILL_FASTER_SHARE = 0.9
"""A mean latency below this share of the one before shows that the server still gets faster. From one second
to the next, the machine of the README's records varies by 10 % or more without such a reason."""
_CERTIFYING = 2
"""A rerun's requests at a rate, over the fewest that certify, of which one slow request could fail a p99."""
_MAX_POINT_BUDGETS = 10
"""The most point budgets of a rerun while all requests keep the latency budget, but are too few for the
percentile: a minute by default, in which a server of 12 requests per second answers enough for a p99."""


@dataclass(frozen=True)
class MeasuringPlan:
    """When a load point has been measured well enough."""

    interval_target: float = 0.05
    """Half the width of the interval over its value, of the throughput, or at a rate of the mean latency."""
    point_budget_s: float = 3.0
    """The seconds of measuring a point, also on a baseline's server, without warm-up and verifying."""
    certify: float | None = None
    """The percentile, such as 99, to measure until requests certify it, even over that budget; or None."""

    @property
    def certifying_requests(self) -> int:
        """The requests that certify the percentile; 0 without one."""
        return 0 if self.certify is None else estimates.requests_needed(self.certify)


def is_warmed_up(side: Side) -> bool:
    """Whether a side needs no more warm-up: the last pass was hardly faster than the one before, and the
    latencies no longer fall. If requests take long, one pass is enough."""
    if point_state.median_latency_s(side) > SLOW_REQUEST_S:
        return True
    means = [float(one_pass.all_latencies_ms.mean()) for one_pass in side.warm_up]
    is_falling = len(means) < 2 or means[-1] < _STILL_FASTER_SHARE * means[-2]
    return not is_falling and point_state.is_stationary(side)


def is_measured(state: PointState, plan: MeasuringPlan) -> bool:
    """The stopping rule of a sweep. A point with a baseline is done when its verdict is settled, any other
    when its interval is narrow, with enough requests for a p99; both are done when its budget is spent. If a
    percentile is to be certified, no point is done before it is."""
    count = len(state.current.passes)
    if count < (PASSES_HOWEVER_LONG if state.terms is None else MIN_PAIRS):
        return False
    if state.terms is None:
        is_believed = count >= PASSES_TO_BELIEVE_AN_INTERVAL and state.requests >= FEW_REQUESTS
        half_width = estimates.relative_half_width(point_state.main_estimate(state))
        is_known = is_believed and half_width <= plan.interval_target
    else:
        current, baseline = map(point_state.speeds, state.sides)
        current_ms, baseline_ms = map(point_state.p99_ms, state.sides)
        is_known = slowdown.is_settled(current, baseline, state.terms, (current_ms, baseline_ms))
    is_enough = is_known or is_spent(state.spent_s, count, plan.point_budget_s)
    return is_enough and state.requests >= plan.certifying_requests


def is_rerun_done(
    state: PointState, plan: MeasuringPlan, percentile: int, latency_budget_ms: float, share: float
) -> bool:
    """The stopping rule for a `share` of a search's rerun: its whole point budget, as a narrow throughput
    says little about a percentile, and more while all requests keep the latency budget, but are too few to
    show that for the percentile. At a rate, also this share of the passes for a believable interval and of
    the requests to certify it despite some slow ones. A point that may win needs those of --certify."""
    parts = state.steady_parts
    needed = estimates.requests_needed(percentile)
    least_passes, least_requests = float(PASSES_HOWEVER_LONG), 0.0
    if state.point.is_at_rate:
        least_passes = share * PASSES_TO_BELIEVE_AN_INTERVAL
        least_requests = share * _CERTIFYING * needed
    is_short = len(parts) < least_passes or state.requests < least_requests
    if is_short or not is_spent(state.spent_s, len(parts), plan.point_budget_s):
        return False
    latency_ms = estimates.percentile_estimate(parts, percentile)
    if may_win(latency_ms, parts, latency_budget_ms) and state.requests < share * plan.certifying_requests:
        return False
    is_known = latency_ms.high > latency_budget_ms or not latency_ms.open_above or state.requests >= needed
    return is_known or state.spent_s > _MAX_POINT_BUDGETS * plan.point_budget_s


def may_win(latency_ms: Estimate, parts: Sequence[SteadyPart], latency_budget_ms: float) -> bool:
    """Whether a search, which has to choose, may choose a point: the percentile's value keeps the budget,
    whether or not its interval shows that, and the server keeps up with the point's rate."""
    return latency_ms.value <= latency_budget_ms and estimates.keeps_up(parts)


def are_turns_done(ratios: Sequence[np.ndarray], spent_s: float, plan: MeasuringPlan, *, slow: bool) -> bool:
    """The stopping rule of turns, each of which gives another of the `ratios`, [turns] each: all are known
    precisely, or the point's budget is spent; `slow` if requests take long."""
    count = len(ratios[0])
    if count < (PASSES_HOWEVER_LONG if slow else TURNS_TO_BELIEVE_A_RATIO):
        return False
    half_widths = [estimates.relative_half_width(estimates.geometric_mean(ratio)) for ratio in ratios]
    is_known = count >= TURNS_TO_BELIEVE_A_RATIO and max(half_widths) <= plan.interval_target
    return is_known or is_spent(spent_s, count, plan.point_budget_s)


def is_spent(spent_s: float, count: int, point_budget_s: float) -> bool:
    """Whether more than half of another pass, as long as the mean of `count` passes, exceeds the budget."""
    return spent_s + spent_s / count / 2 > point_budget_s
