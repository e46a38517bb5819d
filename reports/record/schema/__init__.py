"""The record of one case: what `fixtures` writes and `reports` shows. `reports.record.files` reads and writes it."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

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
from reports.record.schema._base import (
    CONFIDENCE,
    LONGEST_TEXT,
    MOST_LOADS,
    BudgetWord,
    ByName,
    Count,
    Estimate,
    LongText,
    Name,
    Number,
    SpeedWord,
    Struct,
    Text,
    Verdict,
)
from reports.record.schema._cases import Artifact, Case, Deployment, Machine, Origin, Serving, case_id
from reports.record.schema._findings import (
    LEAST_LEAK,
    USED,
    BesideReference,
    Efficiency,
    Growth,
    Search,
    Soak,
    soak_verdict,
    verdict_of,
)
from reports.record.schema._loads import (
    COMPONENTS,
    MARKS,
    CertifiedPercentile,
    Comparison,
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

SCHEMA = 1


class Start(Struct, frozen=True):
    """How long starting the server, loading the model and the first request took."""

    scenario: Name
    server_s: Number | None
    """Seconds from the server's start until it was ready, without a model; None for a server that ran already."""
    load_s: Number
    """Seconds that loading the model took, with the server's own warm-up requests."""
    first_request_ms: Number
    origin: Origin | None = None
    """Where it comes from; the recorder adds it."""


class StageFailure(Struct, frozen=True):
    """A test that proves the case right and failed before it had a result, as where an output was no number."""

    test: Name
    """The function of the test: test_accuracy."""
    stage: Name
    """Its stage: conversion, accuracy, answers, conversation or reload."""
    what: Text
    """What was wrong, as a sentence."""
    origin: Origin | None = None
    """Where it comes from."""


class Record(Struct, frozen=True):
    """All that is known of one case on one machine."""

    case: Case
    machine: Machine
    serving: Serving | None
    """The server that answered; None until the case has been served."""
    deployment: Deployment
    build: Artifact
    conversion: Parity | None = None
    accuracy: Accuracy | None = None
    accuracy_missing: Text | None = None
    """Why the task's metric was not measured; the ledger then holds what the framework's outputs alone tell."""
    gates: tuple[AnswerGate, ...] = ()
    """What the gates that need no ground truth found, in the order of their names."""
    starts: tuple[Start, ...] = ()
    loads: Annotated[tuple[Load, ...], MOST_LOADS] = ()
    efficiency: tuple[Efficiency, ...] = ()
    """What serving costs at the best load point of each scenario; of a micro model at the best of all."""
    search: Search | None = None
    conversation: Conversation | None = None
    """What is proven of a model that is not asked by single requests; None of all others."""
    soak: Soak | None = None
    """The load point that was under load for a long time; None where none was."""
    failures: tuple[StageFailure, ...] = ()
    """Which tests failed before they had a result, each until a run gets through it."""
    price_per_hour: Number | None = None
    """What an hour of the machine costs, in any currency."""
    stage_seconds: ByName[Number] = field(default_factory=dict)
    """Seconds that a test of each stage took, the mean of the stage's tests in the run that measured it last; starting the
    server is in it, converting the model (`build.build_time_s`) is not."""
    updated: Text = ""
    """The time of the last change in UTC, ISO 8601."""
    schema: Count = SCHEMA
