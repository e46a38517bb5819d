"""The record of one case, which `run/record_file.py` writes and `reports` shows.

All of the schema is imported from here; its parts have a file each."""

# ruff: noqa: F403, F405 - the parts of the schema share their types

from typing import Annotated, Literal

from tritonproof.record.schema._answers import *
from tritonproof.record.schema._setup import *
from tritonproof.record.schema._speed import *


class Record(Struct, frozen=True):
    """All that is known about one case on one machine."""

    case: CaseKey
    machine: Machine
    serving: Serving | None
    deployment: Deployment
    build: Build
    conversion: Conversion | None = None
    accuracy: Accuracy | None = None
    accuracy_missing: Text | None = None
    """Why the task's metric was not measured; the ledger then has only what the framework's outputs tell."""
    gates: tuple[GateResult, ...] = ()
    starts: tuple[Start, ...] = ()
    points: Annotated[tuple[PointResult, ...], MAX_ENTRIES, SPEED] = ()
    efficiency: Annotated[tuple[Efficiency, ...], SPEED] = ()
    """At the best load point of each scenario; for a micro model at the best of all."""
    search: Search | None = None
    conversation: Conversation | None = None
    model_warmup: Annotated[ModelWarmup | None, SPEED] = None
    soak: Soak | None = None
    baseline: BaselineComparison | None = None
    failures: tuple[StepFailure, ...] = ()
    """Tests that failed before they had a result; a run that gets through the test removes its entry."""
    price_per_hour: Number | None = None
    """In any currency."""
    updated: Text = ""
    """The time of the last change, in UTC, ISO 8601."""
    schema: Literal[1] = SCHEMA

    @property
    def measured_points(self) -> list[MeasuredPoint]:
        """The load points, and the one of the soak."""
        return [*self.points, *([self.soak] if self.soak else [])]
