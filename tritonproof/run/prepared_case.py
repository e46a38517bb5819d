"""What a run asks of its prepared case, be it converted or of a repository."""

import time
from collections.abc import Callable
from typing import Protocol

from tritonproof.build.builds import CaseBuild
from tritonproof.client.requests import LoadedAs
from tritonproof.record.schema import ConfigVariant, Deployment, Start
from tritonproof.serve.described_model import DescribedModel
from tritonproof.serve.server import Server
from tritonproof.spec import Arrays, Case, Samples


class PreparedCase(Protocol):
    """A case with its build and server: a `ConvertedCase`, or a `RepositoryCase`, served as it is."""

    @property
    def case(self) -> Case:
        """The case; for --repository with the inputs, outputs and batch sizes that only its server knew."""

    @property
    def samples(self) -> Samples:
        """The samples of which requests are made."""

    @property
    def scored_samples(self) -> Samples | None:
        """The samples whose answers are scored; None for a model of --repository without labels."""

    @property
    def requests_note(self) -> str:
        """Where the requests come from, in words; empty for the model's data set."""

    @property
    def deployment(self) -> Deployment:
        """The deployment that the case itself is loaded with."""

    @property
    def build(self) -> CaseBuild:
        """The files that are served: of the conversion, which asking starts, or of the repository."""

    @property
    def server(self) -> Server:
        """The case's Triton, which is started when first asked for."""

    @property
    def infer_in_process(self) -> Callable[[Arrays], Arrays] | None:
        """The converted artifact in this process: from inputs by name, [rows, ...] each, the outputs, which
        its server must give too. None for a model of --repository."""

    @property
    def described(self) -> DescribedModel | None:
        """The model as its server describes it; None for a conversion, which calls no other model, and whose
        server reports everything."""

    def load_anew(self, variant: ConfigVariant) -> str:
        """Load the model, even if it is loaded; returns the backend that serves it."""

    def load_variant(self, variant: ConfigVariant) -> tuple[LoadedAs, Start]:
        """Load a conversion as a variant; a repository's model is loaded since the case was prepared. Returns
        how the model is loaded, and how long loading it and its first request took."""


def time_request(prepared: PreparedCase, batch: int) -> tuple[float, Arrays]:
    """Send a request with `batch` copies of the first sample; returns its seconds and its outputs."""
    rows = {name: values[[0] * batch] for name, values in prepared.samples.read([0]).items()}
    started = time.monotonic()
    outputs = prepared.server.infer(prepared.server.name_of(prepared.case), prepared.case.model, rows)
    elapsed_s = time.monotonic() - started
    return elapsed_s, {output: values for output, values in outputs.items() if values is not None}
