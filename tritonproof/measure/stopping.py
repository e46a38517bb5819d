"""Decides how long the passes over a load point are, and when to stop. Pure functions of what was measured.

A pass is three windows of perf_analyzer: short, but long enough that requests start and end in each.
"""

from collections.abc import Callable

from tritonproof.measure import comparison, estimates, point_state
from tritonproof.measure.job import MeasuringPlan
from tritonproof.measure.point_state import PointState
from tritonproof.ratios import MIN_PAIRS
from tritonproof.record.schema import LoadPoint

WINDOWS = 3
"""Windows of a pass: perf_analyzer's least number, as it looks at stability only over three."""
MIN_WARM_UP_WINDOW_S = 0.06
"""Seconds of a warm-up's window. perf_analyzer kept to windows of 0.05 s and more."""
MIN_PASS_WINDOW_S = 0.12
"""Seconds of a pass's window: in its first 0.2 s a server was 4 % slower than afterwards, in turns."""
START_S = 0.1
"""Seconds that a pass takes beyond its windows; starting perf_analyzer alone costs about 0.06."""
LATENCIES_PER_WINDOW = 2.2
"""perf_analyzer refuses a window in which no request both starts and ends; one of two latencies holds one
always. The three of a pass are long enough to cut off start-up and tail."""
_DUE_PER_PASS = 20
"""Requests that are due in a pass at a rate: without the first quarter, which does not count, 15 are left."""
_SLOW_S = 1.0
"""If a request takes longer than this, a pass exceeds twice the default budget of a point, 3 s."""

FEW_REQUESTS = 100
"""With fewer requests, less than one lies above the p99."""
PASSES_TO_BELIEVE_AN_INTERVAL = 6
"""Passes before a narrow interval is believed: if five may stop, intervals of lucky passes are taken too
often. With six to eight, at least 92 of 100 simulated ones held the truth, for all shapes of latencies."""
PASSES_HOWEVER_LONG = 3
"""Passes even over budget: the 95 % interval of two reaches 12.7 standard errors, of three 4.3."""
MAX_PASSES = 30
"""Passes in a budget, which makes each longer; fewer, longer passes lose less to starting them."""
MAX_WARM_UP_PASSES = 5
"""Passes of a warm-up; latencies that have not settled by then are measured with a mark."""
_FALLING = 0.9
"""A mean latency below this share of the one before shows that the server is still getting faster. From one
second to the next, the machine of the README's records varies by 10 % or more without such a reason."""


StoppingRule = Callable[[PointState], bool]
"""Whether a point has been measured enough."""


def is_warmed_up(state: PointState) -> bool:
    """Whether a point needs no further warm-up: the last pass was hardly faster than the one before, and the
    latencies no longer fall. If a request takes long, one pass is enough."""
    if is_slow(point_state.median_latency_s(state)):
        return True
    means = [float(one_pass.all_latencies_s.mean()) for one_pass in state.warm_up]
    is_falling = len(means) < 2 or means[-1] < _FALLING * means[-2]
    return not is_falling and point_state.is_stationary(state)


def sweep_rule(plan: MeasuringPlan) -> StoppingRule:
    """The stopping rule of a sweep. A point that is compared with a baseline is done when its verdict is
    settled, any other point when its interval is narrow, with enough requests for a p99, and both when the
    budget is spent. If a percentile is to be certified, the point is not done before it is."""

    def is_done(state: PointState) -> bool:
        count = len(state.passes)
        if count < (PASSES_HOWEVER_LONG if state.baseline is None else MIN_PAIRS):
            return False
        if state.baseline is None:
            is_believed = count >= PASSES_TO_BELIEVE_AN_INTERVAL and state.requests >= FEW_REQUESTS
            is_known = is_believed and meets_interval_target(state, plan)
        else:
            is_known = _is_settled(state, plan)
        is_enough = is_known or is_spent(state.spent_s, count, plan.budget_s)
        return is_enough and requests_missing(state, plan) == 0

    return is_done


def requests_missing(state: PointState, plan: MeasuringPlan) -> int:
    """How many requests more --certify needs for its bound; 0 without it."""
    if plan.certify is None:
        return 0
    return max(0, estimates.requests_needed(plan.certify) - state.requests)


def _is_settled(state: PointState, plan: MeasuringPlan) -> bool:
    """Whether the comparison with the baseline has a certain verdict."""
    current, baseline = map(point_state.speeds, state.sides)
    current_ms, baseline_ms = map(point_state.p99_ms, state.sides)
    return comparison.is_settled(current, baseline, plan, (current_ms, baseline_ms))


def meets_interval_target(state: PointState, plan: MeasuringPlan) -> bool:
    return estimates.relative_half_width(point_state.main_estimate(state)) <= plan.interval_target


def is_spent(spent_s: float, count: int, budget_s: float) -> bool:
    """Whether more than half of another pass, as long as `count` passes on average, exceeds the budget."""
    return spent_s + spent_s / count / 2 > budget_s


def is_slow(latency_s: float) -> bool:
    """Whether a request takes so long that only few can be measured."""
    return latency_s > _SLOW_S


def least_window_s(point: LoadPoint) -> float:
    """The length, in seconds, of the shortest window of a pass that counts. At a request rate it is several
    requests long, because a queue takes longer to become stationary."""
    if point.request_rate_per_s is None:
        return MIN_PASS_WINDOW_S
    return max(2 * MIN_PASS_WINDOW_S, _DUE_PER_PASS / point.request_rate_per_s / WINDOWS)


def warm_up_window_s(point: LoadPoint, request_s: float, last_s: float) -> float:
    """The length, in seconds, of a window of the next warm-up pass. `request_s` is the time of one request, 0
    if unknown; `last_s` is the window of the pass before, which may have been lengthened."""
    least_s = MIN_WARM_UP_WINDOW_S if point.request_rate_per_s is None else least_window_s(point)
    return max(least_s, LATENCIES_PER_WINDOW * request_s, last_s)


def pass_window_s(point: LoadPoint, longest_latency_s: float, budget_s: float, most_passes: int) -> float:
    """The length, in seconds, of a window of the passes that count: several latencies, and so long that the
    budget does not hold more passes than are useful."""
    share_s = (budget_s / most_passes - START_S) / WINDOWS
    return max(least_window_s(point), share_s, LATENCIES_PER_WINDOW * longest_latency_s)
