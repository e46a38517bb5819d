"""A model as a server serves it, how its case is loaded there, and what its answers are held to."""

from collections.abc import Callable
from dataclasses import dataclass

from tritonproof.accuracy.expected import ExpectedOutputs
from tritonproof.accuracy.limits import AnswerLimits
from tritonproof.measure.input_data import InputData
from tritonproof.record.schema import Deployment, ExpectedFrom, Scenario
from tritonproof.serve.server import Server
from tritonproof.spec import Arrays, Model


@dataclass(frozen=True)
class ServedModel:
    """A model as a server serves it, and the samples that it is sent: all that a request needs."""

    server: Server
    name: str
    """The name under which the server has loaded the model."""
    model: Model
    data: InputData


@dataclass(frozen=True)
class LoadedCase:
    """A case as it is loaded on its server."""

    scenario: Scenario
    deployment: Deployment
    backend: str
    first_answer: Arrays | None = None
    """The answer to the first request, the first sample alone, [1, ...] each; None if another was first."""
    batches_dynamically: bool = True
    """Whether the server may join requests to a batch."""


@dataclass(frozen=True)
class Oracle:
    """The source of expected answers, in testing's term."""

    answer: Callable[[Arrays], Arrays]
    """Takes inputs by name, [rows, ...] each, and returns the outputs."""
    expected_from: ExpectedFrom = "in process"


@dataclass(frozen=True)
class AnswerCheck:
    """The expected outputs for the samples of the load data, and how near to them answers have to be."""

    expected: ExpectedOutputs
    limits: AnswerLimits
    expected_from: ExpectedFrom = "in process"
    other_shapes: tuple["AnswerCheck", ...] = ()
    """The checks of the load data's samples of other shapes."""
