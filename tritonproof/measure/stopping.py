"""Decides when a load point is warmed up, and when it has been measured enough. What a rerun of a search
(search/measurer.py) or turns beside the artifact in process (efficiency/in_turns.py) have to show is another
matter, so their rules stand there, with the passes and `is_spent` of this file."""

from collections.abc import Callable

from tritonproof.measure import estimates, point_state, slowdown
from tritonproof.measure.plan import SLOW_REQUEST_S, MeasuringPlan
from tritonproof.measure.point_state import PointState, Side
from tritonproof.ratios import MIN_PAIRS

FEW_REQUESTS = 100
"""Of fewer requests, less than one lies above the p99."""
PASSES_TO_BELIEVE_AN_INTERVAL = 6
"""Passes before a narrow interval is believed: with five, intervals of lucky passes are taken too often. With
six to eight, at least 92 of 100 simulated ones held the truth, for all shapes of latencies."""
PASSES_HOWEVER_LONG = 3
"""Passes even over the point budget, and turns of slow requests beside the artifact in process: the 95 %
interval of two reaches 12.7 standard errors, of three 4.3."""
MAX_PASSES = 30
"""Passes within a point budget; this makes each longer, so that less time is lost to starting them."""
MAX_WARM_UP_PASSES = 5
"""Passes of a warm-up at most; latencies that are not stationary by then are measured with a mark."""
_STILL_FASTER_SHARE = 0.9
"""A mean latency below this share of the one before shows that the server still gets faster. From one second
to the next, the machine of the README's records varies by 10 % or more without such a reason."""


StoppingRule = Callable[[PointState, MeasuringPlan], bool]
"""Whether a point has been measured enough."""


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
        is_known = is_believed and meets_interval_target(state, plan)
    else:
        current, baseline = map(point_state.speeds, state.sides)
        current_ms, baseline_ms = map(point_state.p99_ms, state.sides)
        is_known = slowdown.is_settled(current, baseline, state.terms, (current_ms, baseline_ms))
    is_enough = is_known or is_spent(state.spent_s, count, plan.point_budget_s)
    return is_enough and requests_missing(state, plan) == 0


def requests_missing(state: PointState, plan: MeasuringPlan) -> int:
    """How many more requests --certify needs for its bound; 0 without it."""
    if plan.certify is None:
        return 0
    return max(0, estimates.requests_needed(plan.certify) - state.requests)


def meets_interval_target(state: PointState, plan: MeasuringPlan) -> bool:
    """Whether the interval of the point's throughput, or at a rate its latency, is narrow enough."""
    return estimates.relative_half_width(point_state.main_estimate(state)) <= plan.interval_target


def is_spent(spent_s: float, count: int, point_budget_s: float) -> bool:
    """Whether more than half of another pass, of the mean length of `count` passes, exceeds the budget."""
    return spent_s + spent_s / count / 2 > point_budget_s
