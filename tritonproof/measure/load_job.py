"""One pass of the load generator, `run_pass(job, window_s)`: what it gets, what it has to do and returns; and
when the passes of a load point suffice.

`perf_analyzer.run_pass` is the real one. All that measures speed is a rule for when to take another pass, so
a function that invents passes suffices to try it without a server.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tritonproof.accuracy.sameness import AnswerCheck
from tritonproof.client.requests import ServedModel, SharedMemory
from tritonproof.measure.passes import Pass
from tritonproof.ratios import FALSE_ALARM_RATE
from tritonproof.record.schema import LoadPoint


@dataclass(frozen=True)
class LoadJob:
    """What the load generator has to do at a load point, except for how long."""

    served: ServedModel
    point: LoadPoint
    shared_memory: SharedMemory
    request_s: float = 0.0
    """Seconds that one request takes on an idle server; 0 if unknown."""
    check: AnswerCheck | None = None
    verifies: bool = True
    """Whether answers are verified. Those of a baseline are not, as they may differ."""

    def __str__(self) -> str:
        return f"{self.served.name}, {self.point}"


RunPass = Callable[[LoadJob, float], Pass]
"""`run_pass(job, window_s)`: one pass of windows of so many seconds each. Raises ProofError if it fails."""


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
    def level(self) -> float:
        """The significance level of one point's comparison."""
        return FALSE_ALARM_RATE / self.compared_points
