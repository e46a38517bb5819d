"""The record of one case: its schema. `reports.record.files` reads and writes it.

`fixtures` makes records, `reports` shows them. All its names are had from here; the files below are its parts. It needs the
standard library alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from reports.record.domains import MOST_LOADS, Name
from reports.record.schema._answers import (
    GATES,
    Accuracy,
    AnswerGate,
    Conversation,
    Disagreement,
    Limit,
    OutputDifference,
    Parity,
    SameAnswers,
    Score,
    VerifiedAnswers,
    WrongAnswer,
    meets,
    within_limits,
)
from reports.record.schema._beside import Comparison
from reports.record.schema._best_points import BesideReference, Efficiency, Search, verdict_of
from reports.record.schema._cases import Artifact, Case, Deployment, Machine, Origin, Serving, case_id
from reports.record.schema._estimates import BudgetWord, Estimate, SpeedWord, Verdict
from reports.record.schema._loads import (
    COMPONENTS,
    MARKS,
    CertifiedPercentile,
    ComposingModel,
    CpuUse,
    GpuUse,
    LatencyBudget,
    Load,
    LoadSetting,
    Mark,
    Pass,
    Place,
    place,
    point_id,
)
from reports.record.schema._soaks import LEAST_LEAK, USED, Growth, Soak, soak_verdict

SCHEMA = 1


@dataclass(frozen=True)
class Start:
    """How long starting the server, loading the model and the first request took."""

    scenario: Name
    server_s: float | None
    """Seconds from the server's start until it was ready, without a model; None for a server that ran already."""
    load_s: float
    """Seconds that loading the model took, with the server's own warm-up requests."""
    first_request_ms: float
    origin: Origin | None = None
    """Where it comes from; the recorder adds it."""


@dataclass(frozen=True)
class StageFailure:
    """A test that proves the case right and failed before it had a result, as where an output was no number."""

    test: Name
    """The function of the test: test_accuracy."""
    stage: Name
    """Its stage: conversion, accuracy, answers, conversation or reload."""
    what: str
    """What was wrong, as a sentence."""
    origin: Origin | None = None
    """Where it comes from."""


@dataclass(frozen=True)
class Record:
    """All that is known of one case on one machine."""

    case: Case
    machine: Machine
    serving: Serving | None
    """The server that answered; None until the case has been served."""
    deployment: Deployment
    build: Artifact
    conversion: Parity | None = None
    accuracy: Accuracy | None = None
    accuracy_missing: str | None = None
    """Why the task's metric was not measured; the ledger then holds what the framework's outputs alone tell."""
    gates: Sequence[AnswerGate] = ()
    """What the gates that need no ground truth found, in the order of their names."""
    starts: Sequence[Start] = ()
    loads: Annotated[Sequence[Load], MOST_LOADS] = field(default_factory=tuple)
    efficiency: Sequence[Efficiency] = ()
    """What serving costs at the best load point of each scenario; of a micro model at the best of all."""
    search: Search | None = None
    conversation: Conversation | None = None
    """What is proven of a model that is not asked by single requests; None of all others."""
    soak: Soak | None = None
    """The load point that was under load for a long time; None where none was."""
    failures: Sequence[StageFailure] = ()
    """Which tests failed before they had a result, each until a run gets through it."""
    price_per_hour: float | None = None
    """What an hour of the machine costs, in any currency."""
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds that a test of each stage took, the mean of the stage's tests in the run that measured it last; starting the
    server is in it, converting the model (`build.build_time_s`) is not."""
    updated: str = ""
    """The time of the last change in UTC, ISO 8601."""
    schema: int = SCHEMA
