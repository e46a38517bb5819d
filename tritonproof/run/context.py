"""What the parts of a case's run share, and what they ask of its prepared case."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tritonproof.build.builds import BuiltModel
from tritonproof.measure.input_data import InputData
from tritonproof.measure.job import Oracle
from tritonproof.record.schema import Deployment, Scenario, Start
from tritonproof.run.model_run import ModelRun, SuiteRun
from tritonproof.run.progress import Progress
from tritonproof.serve.launch import serve
from tritonproof.serve.server import Server
from tritonproof.settings.settings import Settings
from tritonproof.spec import Arrays, Case, Samples


class PreparedCase(Protocol):
    """A case that can be served, as all steps know it: one that the suite converts (`ConvertedCase`), or a
    model of --repository (`RepositoryCase`), which steps for such models alone ask for more. What it starts
    ends with the run's block."""

    @property
    def case(self) -> Case: ...

    @property
    def samples(self) -> Samples:
        """The samples of all requests."""

    @property
    def evaluated(self) -> Samples | None:
        """The samples of the accuracy step; None without labels that say what is right."""

    @property
    def requests_note(self) -> str:
        """Where the requests of a model of --repository come from, in words; "" for the evaluation data."""

    @property
    def deployment(self) -> Deployment:
        """The case's own settings."""

    @property
    def backend(self) -> str:
        """The backend of a model that its server has loaded already; "" for one that it has not."""

    @property
    def called_names(self) -> Sequence[str]:
        """The models that it calls, whose times the server reports one by one."""

    @property
    def unreported(self) -> Sequence[str]:
        """What its server does not say about it: configuration, statistics."""

    @property
    def build(self) -> BuiltModel:
        """The model's folder, built if it is missing."""

    @property
    def server(self) -> Server:
        """The case's Triton, started when first asked for, while nobody measures."""

    @property
    def oracle(self) -> Oracle:
        """What gives the expected answers."""

    def load_and_ask(self, scenario: Scenario, deployment: Deployment) -> tuple[str, Start, Arrays | None]:
        """Load the model and send its first request; returns the backend that serves it, how long that took,
        and the answer, None if another request was the first."""

    def load(self, scenario: Scenario, deployment: Deployment) -> str:
        """Load the model, even if it is loaded; returns the backend that serves it."""

    def batches_dynamically(self, scenario: Scenario) -> bool:
        """Whether the server may join requests to a batch."""

    def remaining_data(self) -> Iterable[InputData]:
        """The samples beyond the load data that the gates ask for too."""


@dataclass(frozen=True)
class Role:
    """What sets the runs of baselines and of reference formats apart; the defaults are a case's own run."""

    log_name: str = ""
    """The name of its server's log; empty for the case's own server."""
    label: str = ""
    """The run's name in progress and errors; empty for the case's."""
    shared_samples: Callable[[], Samples] | None = None
    """Gives the samples of the run that it is compared with, if it uses those."""
    prepare: "Callable[[CaseContext], PreparedCase] | None" = None
    """Prepares its case, if not as a case's own run does."""


OWN_RUN = Role()


@dataclass(eq=False)
class CaseContext:
    """A case as requested, and what all parts of its run share."""

    requested: Case
    """The case as requested; the prepared case has it as its server reports it."""
    model_run: ModelRun
    suite_run: SuiteRun = field(default_factory=SuiteRun)
    role: Role = OWN_RUN
    """Whether it is the case's own run, or one that is measured beside it."""
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """What ends with the run."""

    @property
    def settings(self) -> Settings:
        return self.model_run.settings

    @property
    def progress(self) -> Progress:
        return self.model_run.progress

    def hold_machine(self, *, exclusive: bool) -> contextlib.AbstractContextManager[None]:
        """Lock the machine for a block: exclusively to measure speed, else shared."""
        return self.model_run.hold_machine(exclusive=exclusive)

    def say(self, step: str, detail: str = "") -> None:
        self.progress.say(f"{self.role.label or self.requested}: {step}", detail)

    @contextlib.contextmanager
    def triton(self, repository: Path, **more: Any) -> Iterator[Server]:
        """A Triton of the run with the models below `repository`; `more` goes to `serve`."""
        case, settings, role = self.requested, self.settings, self.role
        log = f"{case}.{role.log_name}.server.log" if role.log_name else f"{case}.server.log"
        with serve(
            settings.triton,
            repository,
            settings.results / case.target.name / log,
            device=case.target.device,
            shared_memory=settings.shared_memory,
            on_progress=self.say,
            **more,
        ) as server:
            yield dataclasses.replace(server, label=f"the Triton of {role.label}") if role.label else server
