"""Where a run's case comes from: `ConvertedCase` for a model that the suite converts, `AsIsCase` for one of
--repository."""

from collections.abc import Callable
from typing import Protocol

from tritonproof.build.builds import BuiltModel
from tritonproof.record.schema import Deployment, Scenario, Start
from tritonproof.serve.server import Server
from tritonproof.spec import Arrays, Case, Samples


class Source(Protocol):
    """What a run asks of it, each once; what it starts ends with the run's block."""

    @property
    def case(self) -> Case: ...

    @property
    def samples(self) -> Samples:
        """The samples of all requests."""

    def make_build(self) -> BuiltModel:
        """Convert the model, or find its files."""

    def start_server(self) -> Server:
        """Start the case's Triton."""

    def open_oracle(self) -> Callable[[Arrays], Arrays]:
        """The function from inputs to the expected answers."""

    def deploy(self, scenario: Scenario, deployment: Deployment) -> tuple[str, Start, Arrays | None]:
        """Load the model and send its first request; returns the backend that serves it, how long that took,
        and the answer, None if another request was the first."""

    def load(self, scenario: Scenario, deployment: Deployment) -> str:
        """Load the model, even if it is loaded; returns the backend that serves it."""

    def joins_requests(self, scenario: Scenario) -> bool:
        """Whether the server may join requests to a batch."""
