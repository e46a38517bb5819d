"""How precisely a load point is to be measured, and how long its passes are: three windows of perf_analyzer,
short, but long enough that requests start and end in each."""

from dataclasses import dataclass

from tritonproof.record.schema import LoadPoint

WINDOWS = 3
"""Windows of a pass, perf_analyzer's least number: it judges stability over three."""
MIN_WARM_UP_WINDOW_S = 0.06
"""The shortest window of a warm-up, in seconds. perf_analyzer kept to windows of 0.05 s and more."""
MIN_PASS_WINDOW_S = 0.12
"""The shortest window of a pass, in seconds: in a pass's first 0.2 s a server was 4 % slower than later."""
START_S = 0.1
"""Seconds that a pass takes beyond its windows; starting perf_analyzer alone takes about 0.06."""
LATENCIES_PER_WINDOW = 2.2
"""perf_analyzer refuses a window in which no request both starts and ends; a window of two latencies always
holds one. The three windows of a pass are long enough to cut off start-up and tail."""
_DUE_PER_PASS = 20
"""The least requests due in a pass at a rate: without the first quarter, which does not count, 15."""
SLOW_REQUEST_S = 1.0
"""A request that takes longer is slow: a pass of such exceeds twice the default budget of a point, 3 s."""


@dataclass(frozen=True)
class MeasuringPlan:
    """When a load point has been measured well enough."""

    interval_target: float = 0.05
    """Half the width of the interval over its value, of the throughput, or at a rate of the mean latency."""
    point_budget_s: float = 3.0
    """The seconds of measuring a point, also on a baseline's server, without warm-up and verifying."""
    certify: float | None = None
    """The percentile, such as 99, that requests must suffice to certify, even over that; None for none."""


def least_window_s(point: LoadPoint) -> float:
    """The seconds of the shortest window of a pass that counts. At a request rate it holds several requests,
    because a queue takes longer to become stationary."""
    if not point.is_at_rate:
        return MIN_PASS_WINDOW_S
    return max(2 * MIN_PASS_WINDOW_S, _DUE_PER_PASS / point.level / WINDOWS)


def warm_up_window_s(point: LoadPoint, request_s: float) -> float:
    """The seconds of a window of a warm-up pass, for requests of `request_s` seconds; 0 if unknown."""
    least_s = least_window_s(point) if point.is_at_rate else MIN_WARM_UP_WINDOW_S
    return max(least_s, LATENCIES_PER_WINDOW * request_s)


def pass_window_s(point: LoadPoint, latency_s: float, total_s: float = 0.0, most_passes: int = 1) -> float:
    """The seconds of a window of a pass that counts: at least several latencies, and long enough that
    `total_s`, such as the point's budget, does not hold more than `most_passes`."""
    share_s = (total_s / most_passes - START_S) / WINDOWS
    return max(least_window_s(point), share_s, LATENCIES_PER_WINDOW * latency_s)
