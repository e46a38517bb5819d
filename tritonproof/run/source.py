"""Where a run's case comes from, and what differs between a model that the suite converts (`ConvertedSource`)
and one of --repository (`AsIsSource`)."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from tritonproof.build.builds import BuiltModel
from tritonproof.measure.load_data import LoadData
from tritonproof.record.schema import Deployment, Scenario, Start
from tritonproof.run.as_is_source import serve_as_is
from tritonproof.run.converted_source import ConvertedSource, convert
from tritonproof.serve.server import Server
from tritonproof.spec import Arrays, Case, Samples

if TYPE_CHECKING:
    from tritonproof.run.case_run import CaseRun


class Source(Protocol):
    """What a run asks of it, each once; what it starts ends with the run's block."""

    @property
    def case(self) -> Case: ...

    @property
    def samples(self) -> Samples:
        """The samples of all requests."""

    @property
    def backend(self) -> str:
        """The backend of a model that its server has loaded already; "" for one that it has not."""

    @property
    def called_names(self) -> Sequence[str]:
        """The models that it calls, whose times the server reports one by one."""

    @property
    def unreported(self) -> Sequence[str]:
        """What its server does not say about it: configuration, statistics."""

    def make_build(self) -> BuiltModel:
        """Convert the model, or find its files."""

    def start_server(self) -> Server:
        """Start the case's Triton."""

    def open_oracle(self) -> Callable[[Arrays], Arrays]:
        """The function from inputs to the expected answers."""

    def load_and_ask(self, scenario: Scenario, deployment: Deployment) -> tuple[str, Start, Arrays | None]:
        """Load the model and send its first request; returns the backend that serves it, how long that took,
        and the answer, None if another request was the first."""

    def load(self, scenario: Scenario, deployment: Deployment) -> str:
        """Load the model, even if it is loaded; returns the backend that serves it."""

    def batches_dynamically(self, scenario: Scenario) -> bool:
        """Whether the server may join requests to a batch."""

    def remaining_data(self) -> Iterable[LoadData]:
        """The samples beyond the load data that the gates ask for too."""


def own_source(run: "CaseRun") -> Source:
    """The source of a case's own run."""
    if run.requested.model.as_is:
        return run.enter_context(serve_as_is(run))
    return ConvertedSource(run, run.requested, convert(run))
