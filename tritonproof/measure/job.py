"""One pass of the load generator, `run_pass(job, window_s)`: what it gets, what it has to do and returns; and
when the passes of a load point suffice.

`perf_analyzer.run_pass` is the real one. All that measures speed is a rule for when to take another pass, so
a function that invents passes suffices to try it without a server.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tritonproof.accuracy.sameness import AnswerCheck
from tritonproof.host.activity import CpuTime, GpuTime
from tritonproof.measure.estimates import SteadyPass, Timeline, steady_pass
from tritonproof.measure.served import ServedModel
from tritonproof.ratios import FALSE_ALARM_RATE
from tritonproof.record.schema import LoadPoint, VerifiedAnswers

SharedMemory = Literal["system", "cuda", "none"]


@dataclass(frozen=True)
class Job:
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


@dataclass(frozen=True)
class PassResult:
    """What one pass of the load generator over a load point gave, one that counts or one of the warm-up."""

    timeline: Timeline
    components_us: Mapping[str, float]
    """Mean microseconds per request in each of tritonproof.record.schema.COMPONENTS."""
    cpu: CpuTime
    elapsed_s: float
    """Seconds that the pass took, including the start of the load generator and reading its files."""
    next_window_s: float
    """Seconds of a measuring window of the next pass, longer than asked for if requests take longer."""
    gpu: GpuTime | None = None
    """What the server's GPU did while the windows were open; None if unknown."""
    damaged: tuple[str, ...] = ()
    """Why each earlier attempt does not count."""
    answers: VerifiedAnswers | None = None
    """The answers verified after the pass, if any."""
    counts: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    """For a model that calls others, what each did in the pass, by its name: requests, nanoseconds in the
    queue, and nanoseconds of computing."""

    @functools.cached_property
    def steady(self) -> SteadyPass:
        return steady_pass(self.timeline)

    @property
    def latencies_s(self) -> np.ndarray:
        """Seconds of each request from when it was sent, in the order of the answers, [requests]."""
        order = np.argsort(self.timeline.ends_ns, kind="stable")
        return (self.timeline.ends_ns - self.timeline.starts_ns)[order] / 1e9


RunPass = Callable[[Job, float], PassResult]
"""`run_pass(job, window_s)`: one pass of windows of so many seconds each. Raises ProofError if it fails."""


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
