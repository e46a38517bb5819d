"""What a case is prepared from, and what a run asks of it then, be it converted or of a repository."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from tritonproof.build.builds import CaseBuild
from tritonproof.client.requests import LoadedAs
from tritonproof.record.setup import ConfigVariant, Deployment, Scenario
from tritonproof.run.model_run import ModelRun
from tritonproof.serve.described_model import DescribedModel
from tritonproof.serve.launch import serve
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSetup
from tritonproof.settings.settings import Settings
from tritonproof.spec import Arrays, Case, Samples

Role = Literal["", "baseline", "reference"]
"""What another run needs this run for: as its baseline or its reference; empty if none does."""


@dataclass(eq=False)
class CaseScope:
    """What a case is prepared from: the case as it was selected, its settings, and what ends with its run. A
    `CaseRun` is such a scope; the kinds of cases know no more of a run than this."""

    requested: Case
    model_run: ModelRun
    settings: Settings
    """The suite's settings, or for a baseline those with another server or repository."""
    role: Role = ""
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def label(self) -> str:
        """The run's name in progress and errors."""
        if self.role == "baseline":
            return f"{self.requested} against {self.settings.baseline}"
        return f"the reference {self.requested}" if self.role == "reference" else str(self.requested)

    def say(self, activity: str, detail: str = "") -> None:
        self.model_run.suite_run.progress.say(f"{self.label}: {activity}", detail)

    def note(self, text: str) -> None:
        self.model_run.suite_run.progress.note(text)

    @contextlib.contextmanager
    def open_server(self, repository: Path, **more: Any) -> Iterator[Server]:
        """A Triton for this run with the models below `repository`; `more` goes to its `ServerSetup`."""
        case, settings = self.requested, self.settings
        log = f"{case}.{self.role}.server.log" if self.role else f"{case}.server.log"
        setup = ServerSetup(
            repository,
            settings.results / case.target.name / log,
            device=case.target.device,
            shared_memory=settings.shared_memory,
            **more,
        )
        with serve(settings.triton, setup, self.say) as server:
            yield dataclasses.replace(server, label=f"the Triton of {self.label}") if self.role else server


class PreparedCase(Protocol):
    """A case with its build and server: a `ConvertedCase`, or a `RepositoryCase`, served as it is."""

    @property
    def case(self) -> Case:
        """The case; for --repository with the inputs, outputs and batch sizes that only its server knew."""

    @property
    def samples(self) -> Samples:
        """The samples of which requests are made."""

    @property
    def deployment(self) -> Deployment:
        """The deployment that the case itself is loaded with."""

    @property
    def build(self) -> CaseBuild:
        """The files that are served: the repository's, or the conversion's, which the first call starts."""

    @property
    def server(self) -> Server:
        """The case's Triton, which is started when first asked for."""

    @property
    def open_in_process(self) -> Callable[[], Callable[[Arrays], Arrays]] | None:
        """Opens the converted artifact in this process. From inputs by name, [rows, ...] each, it computes
        the outputs, which the server must give too. None for a model of --repository."""

    @property
    def described(self) -> DescribedModel | None:
        """What its server says of a model of --repository; None for a conversion, which the suite describes
        to the server."""

    @property
    def loaded(self) -> LoadedAs | None:
        """How the model was loaded when the case was prepared; None if it was not."""

    def variant_for(self, scenario: Scenario) -> ConfigVariant:
        """The variant of its configuration that serves a scenario: of --repository one serves both."""

    def load(self, variant: ConfigVariant) -> LoadedAs:
        """Load the model, even if it is loaded; returns how, without a first request."""
