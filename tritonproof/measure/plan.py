"""When a load point is known well enough, which many steps ask."""

from dataclasses import dataclass

from tritonproof.ratios import FALSE_ALARM_RATE


@dataclass(frozen=True)
class MeasuringPlan:
    """The conditions under which a point is known well enough, by itself or beside a baseline."""

    interval_target: float = 0.05
    """Half the width of the interval over the value, of the throughput, at a rate of the mean latency."""
    budget_s: float = 3.0
    """Seconds of measuring a point, of both builds if two are compared, without warm-up and verifying."""
    certify: float | None = None
    """The percentile, such as 99, for which a point needs enough requests to be certified, if any, even over
    budget."""
    settling_window_s: float = 0.0
    """The least seconds of a window, if it is known how long the queue takes to settle."""
    baseline_name: str = ""
    """The commit, folder, or Triton with its version, for a reader."""
    allowed_slowdown: float = 0.03
    """How much slower than the baseline this build may be, as a fraction."""
    compared_points: int = 1
    """How many load points the whole run compares, which share its false alarm rate."""

    @property
    def level(self) -> float:
        """The significance level of one point's comparison."""
        return FALSE_ALARM_RATE / self.compared_points
