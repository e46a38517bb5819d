"""The record of one case, which `run/record_updates.py` writes and `reports` shows.

All of the schema is imported from here, also what other files hold. Soaks and failures are defined here."""

# ruff: noqa: F403, F405 - the stars gather the parts

from collections.abc import Mapping
from typing import Annotated, Literal

from tritonproof.record.schema._answers import *
from tritonproof.record.schema._setup import *
from tritonproof.record.schema._speed import *

RESOURCE_UNITS: Mapping[str, Literal["bytes", "number"]] = {
    **dict.fromkeys(PROCESS_MEMORY, "bytes"),
    "shared memory": "bytes",
    "GPU memory": "bytes",
    "open files": "number",
    "threads": "number",
}
"""The resources that a soak watches, by Growth.resource, and their units."""


class Growth(Struct, frozen=True):
    """The growth of a server's use of a resource, per request under load or per loading of the model."""

    resource: Text
    """One of RESOURCE_UNITS."""
    unit: Literal["bytes", "number"]
    per: Literal["request", "loading"]
    """loading: each time that the model is unloaded and loaded again."""
    slope: Slope
    """The growth per request or loading, in the part of the soak that counts."""
    first: Number
    last: Number
    counted: Count
    """The number of requests or loadings from which the slope is computed."""
    verdict: Verdict
    """passed: there is no leak, and one of the least size would have been found; failed: the use grows
    without end, more than an allocator's does; inconclusive: neither is shown."""


class Soak(Struct, frozen=True):
    """A load point under load for a long time: does the server leak, and does it stay as fast?"""

    point: LoadPoint
    duration_s: Annotated[Positive, SPEED]
    """Seconds under load, including the pauses between passes that verify answers and read the use."""
    requests: Count
    pass_count: Count
    """The passes of the load generator. After each, with no request in flight, the use was read."""
    growth: Annotated[tuple[Growth, ...], MAX_ENTRIES]
    """The growth per request of each resource, then per loading."""
    loadings: Count = 0
    """The reloads of the model after it was under load."""
    not_watched: tuple[Text, ...] = ()
    end_over_begin: Annotated[Ratio | None, SPEED] = None
    """Speed in the last quarter of the passes over that in the second; None for few passes, or hidden."""
    requests_per_s: Annotated[Positive | None, SPEED] = None
    """Requests per second over the whole time under load; None for a hidden speed."""
    answers_under_load: AnswerComparison | None = None
    failed_attempt_count: Count = 0
    """How many attempts at passes were repeated: machine or server paused, or nothing usable was left."""
    origin: Origin | None = None


class StepFailure(Struct, frozen=True):
    """A test that failed before it had a result, for example on an output that is no number."""

    test: Name
    """The test's function, such as test_accuracy, with a load point's name: test_online-b001-c004."""
    step: Name
    """The test's step, such as accuracy: see `fixtures/steps.py`."""
    message: Text
    origin: Origin | None = None
    hides_speed: bool = True
    """Whether the case may be wrong, so that no speed is shown; else only the step's figures are absent."""
    point: LoadPoint | None = None
    """The load point that was to be measured, if the test measures one."""
    field: Text = ""
    """The record's field of the missing result, such as accuracy, if the step has a single one."""


class Record(Struct, frozen=True):
    """All that is known about one case on one machine."""

    case: CaseKey
    machine: Machine
    serving: Serving | None
    deployment: Deployment
    build: Build
    conversion: Conversion | None = None
    accuracy: Ledger | None = None
    why_no_score: Text | None = None
    """Why the task's metric was not measured. The ledger then has only comparisons with the framework."""
    gates: tuple[GateResult, ...] = ()
    """The results of the gates, in the order in which each first had one."""
    starts: tuple[Start, ...] = ()
    points: Annotated[tuple[PointResult, ...], MAX_ENTRIES, SPEED] = ()
    efficiency: Annotated[tuple[Efficiency, ...], SPEED] = ()
    """The efficiency at the fastest point of each scenario; for a micro model at the fastest of all."""
    search: Search | None = None
    model_warmup: Annotated[ModelWarmup | None, SPEED] = None
    soak: Soak | None = None
    baseline: BaselineComparison | None = None
    failures: tuple[StepFailure, ...] = ()
    """The tests that failed before they had a result; a run in which the test has one removes its entry. If
    the case could not be built, the build's digest is empty, unless an earlier run recorded the case."""
    price_per_hour: Number | None = None
    """The price of an hour of the machine, in any currency."""
    updated: Text = ""
    """The time of the last change, in UTC, ISO 8601."""
    schema: Literal[1] = 1

    @property
    def name(self) -> str:
        return str(self.case)

    @property
    def main_score(self) -> Score | None:
        """The score that tables show; None without a measured metric of the task."""
        if self.accuracy is None or self.why_no_score or not self.accuracy.scores:
            return None
        return self.accuracy.scores[0]

    @property
    def results_under_load(self) -> list[PointResult | Soak]:
        """The load points, and the soak, which has one too."""
        return [*self.points, *([self.soak] if self.soak else [])]
