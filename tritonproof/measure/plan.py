"""How well a load point is to be known, and how long its passes: three windows of perf_analyzer, short, but
with requests that start and end in each."""

from dataclasses import dataclass

from tritonproof.ratios import FALSE_ALARM_RATE
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
"""perf_analyzer refuses a window in which no request both starts and ends; one as long as two latencies
always holds such a request. The three of a pass are long enough to cut off start-up and tail."""
_DUE_PER_PASS = 20
"""Requests that are due in a pass at a rate: without the first quarter, which does not count, 15 are left."""
_SLOW_S = 1.0
"""If a request takes longer than this, a pass exceeds twice the default budget of a point, 3 s."""


@dataclass(frozen=True)
class MeasuringPlan:
    """The conditions under which a point is known well enough, by itself or beside a baseline."""

    interval_target: float = 0.05
    """Half the width of the interval over the value, of the throughput, at a rate of the mean latency."""
    budget_s: float = 3.0
    """Seconds of measuring a point, of both builds if two are compared, without warm-up and verifying."""
    certify: float | None = None
    """The percentile, such as 99, that a point needs enough requests to certify, if any, even over budget."""
    min_window_s: float = 0.0
    """The least seconds of a window, if it is known how long the queue takes to its steady state."""
    baseline_name: str = ""
    """The commit, folder, or Triton with its version, for a reader."""
    allowed_slowdown: float = 0.03
    """How much slower than the baseline this build may be, as a fraction."""
    compared_points: int = 1
    """How many load points the whole run compares, which share its false alarm rate."""

    @property
    def significance_level(self) -> float:
        """The significance level of one point's comparison."""
        return FALSE_ALARM_RATE / self.compared_points


def is_slow(latency_s: float) -> bool:
    """Whether a request takes so long that only few can be measured."""
    return latency_s > _SLOW_S


def least_window_s(point: LoadPoint) -> float:
    """The length, in seconds, of the shortest window of a pass that counts. At a request rate it is several
    requests long, because a queue takes longer to become stationary."""
    if not point.is_at_rate:
        return MIN_PASS_WINDOW_S
    return max(2 * MIN_PASS_WINDOW_S, _DUE_PER_PASS / point.level / WINDOWS)


def warm_up_window_s(point: LoadPoint, request_s: float) -> float:
    """The seconds of a window of a warm-up pass. One request takes `request_s`, 0 if that is unknown."""
    least_s = least_window_s(point) if point.is_at_rate else MIN_WARM_UP_WINDOW_S
    return max(least_s, LATENCIES_PER_WINDOW * request_s)


def pass_window_s(point: LoadPoint, latency_s: float, budget_s: float = 0.0, most_passes: int = 1) -> float:
    """The length, in seconds, of a window of the passes that count: several latencies, and so long that the
    budget does not hold more passes than are useful."""
    share_s = (budget_s / most_passes - START_S) / WINDOWS
    return max(least_window_s(point), share_s, LATENCIES_PER_WINDOW * latency_s)
