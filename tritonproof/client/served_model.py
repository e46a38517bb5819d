"""A model as a server serves it, with the samples that it is sent; and how its case is loaded there."""

from dataclasses import dataclass

from tritonproof.client.input_data import InputData
from tritonproof.record.schema import Deployment, Scenario
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
