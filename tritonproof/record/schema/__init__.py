"""The record of one case, which `run/record_updates.py` writes and `reports` shows.

All of the schema is imported from here. Its parts have a file each; what a record says of a soak is here."""

# ruff: noqa: F403, F405 - the stars gather the parts

from collections.abc import Mapping
from typing import Annotated, Literal

from tritonproof.record.schema._answers import *
from tritonproof.record.schema._setup import *
from tritonproof.record.schema._speed import *

RESOURCE_UNITS: Mapping[str, Literal["bytes", "number"]] = {
    "memory of the server": "bytes",
    "memory of its stubs": "bytes",
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
    """loading: each unloading and loading of the model."""
    slope: Slope
    """The growth each time, in the part of the soak that counts."""
    first: Number
    last: Number
    counted: Count
    """The requests or loadings of the slope."""
    verdict: Verdict
    """passed: a leak of the least size would have been found, and there is none; failed: it grows without
    end, more than an allocator does; inconclusive: neither."""


class Soak(Struct, frozen=True):
    """One load point under load for a long time: does the server leak, and is it as fast at the end?"""

    point: LoadPoint
    duration_s: Annotated[Positive, SPEED]
    """Seconds under load, with the pauses between passes for verifying answers and reading the use."""
    requests: Count
    passes: Count
    """The passes of the load generator; after each the use was read, with no request in flight."""
    growth: Annotated[tuple[Growth, ...], MAX_ENTRIES]
    """Of requests, then of loadings."""
    loadings: Count = 0
    """Reloads of the model after it was under load."""
    not_watched: tuple[Text, ...] = ()
    end_over_begin: Annotated[Ratio | None, SPEED] = None
    """Speed in the last quarter of the passes over the second; None for few passes or a hidden speed."""
    requests_per_s: Annotated[Positive | None, SPEED] = None
    """Requests per second over the whole time under load; None for a hidden speed."""
    answers: VerifiedAnswers | None = None
    damaged_passes: Count = 0
    """Passes that were repeated: machine or server paused, or the load generator left nothing usable."""
    origin: Origin | None = None


class Record(Struct, frozen=True):
    """All that is known about one case on one machine."""

    case: CaseKey
    machine: Machine
    serving: Serving | None
    deployment: Deployment
    build: Build
    conversion: Conversion | None = None
    accuracy: Ledger | None = None
    accuracy_missing: Text | None = None
    """Why the task's metric was not measured; the ledger then has only what the framework's outputs tell."""
    gates: tuple[GateResult, ...] = ()
    starts: tuple[Start, ...] = ()
    points: Annotated[tuple[PointResult, ...], MAX_ENTRIES, SPEED] = ()
    efficiency: Annotated[tuple[Efficiency, ...], SPEED] = ()
    """At the fastest load point of each scenario; for a micro model at the fastest of all."""
    search: Search | None = None
    conversation: Conversation | None = None
    model_warmup: Annotated[ModelWarmup | None, SPEED] = None
    soak: Soak | None = None
    baseline: BaselineComparison | None = None
    failures: tuple[StepFailure, ...] = ()
    """Tests that failed before they had a result; a run that gets through the test removes its entry. If the
    case could not even be built, the build's digest is empty, unless an earlier run has recorded the case."""
    price_per_hour: Number | None = None
    """In any currency."""
    updated: Text = ""
    """The time of the last change, in UTC, ISO 8601."""
    schema: Literal[1] = 1

    @property
    def name(self) -> str:
        """The case's name."""
        return str(self.case)

    @property
    def measured_points(self) -> list[PointResult | Soak]:
        """The load points, and the one of the soak."""
        return [*self.points, *([self.soak] if self.soak else [])]
