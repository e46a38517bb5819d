"""A case that is ready to be asked: what its run needs to know about it, whoever has prepared it."""

import time
from collections.abc import Iterable
from typing import Protocol

from tritonproof.accuracy.sameness import Oracle
from tritonproof.build.builds import BuiltModel
from tritonproof.client.input_data import InputData
from tritonproof.record.schema import Deployment, Scenario, Start
from tritonproof.serve.server import Server
from tritonproof.spec import Arrays, Case, Samples


class PreparedCase(Protocol):
    """A case with its build, its server and its oracle: a `ConvertedCase`, or a `RepositoryCase`, which is
    served as it is."""

    @property
    def case(self) -> Case:
        """The case; for --repository with the inputs, outputs and batches that only the server knows."""

    @property
    def samples(self) -> Samples:
        """The samples that requests are made of."""

    @property
    def evaluated(self) -> Samples | None:
        """The samples of the accuracy step; None without labels."""

    @property
    def requests_note(self) -> str:
        """Where the requests come from, in words; empty for the model's data set."""

    @property
    def deployment(self) -> Deployment:
        """The case's own settings."""

    @property
    def build(self) -> BuiltModel: ...

    @property
    def server(self) -> Server:
        """Its Triton, which is started when first asked for."""

    @property
    def oracle(self) -> Oracle:
        """What gives the expected answers."""

    @property
    def backend(self) -> str:
        """The backend that serves it; empty while only a loading can tell."""

    @property
    def called_names(self) -> tuple[str, ...]:
        """The models that it calls, whose times the server reports one by one."""

    @property
    def unreported(self) -> tuple[str, ...]:
        """What its server does not say about it: configuration, statistics."""

    def load_anew(self, scenario: Scenario, deployment: Deployment) -> str:
        """Load the model, even if it is loaded; returns the backend that serves it."""

    def ensure_loaded(self, scenario: Scenario, deployment: Deployment) -> tuple[str, Start, Arrays | None]:
        """Have the model loaded for a scenario, and its first request answered. Returns its backend, how long
        that took, and the answer, [1, ...] each; None if that request was not the first since the loading."""

    def batches_dynamically(self, scenario: Scenario) -> bool:
        """Whether the server may join requests to a batch, as far as it says."""

    def remaining_data(self) -> Iterable[InputData]:
        """The samples that the accuracy step does not send, for the gates to ask for too."""


def timed_answer(prepared: PreparedCase, batch: int) -> tuple[float, Arrays]:
    """Send a request of `batch` copies of the first sample; returns its seconds and its answer."""
    rows = {name: values[[0] * batch] for name, values in prepared.samples.read([0]).items()}
    started = time.monotonic()
    outputs = prepared.server.infer(prepared.server.name_of(prepared.case), prepared.case.model, rows)
    elapsed_s = time.monotonic() - started
    return elapsed_s, {output: values for output, values in outputs.items() if values is not None}
