"""What the parts of a case's run share."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tritonproof.run.model_run import ModelRun, SuiteRun
from tritonproof.run.progress import Progress
from tritonproof.serve.launch import serve
from tritonproof.serve.server import Server
from tritonproof.settings.settings import Settings
from tritonproof.spec import Case, Samples

if TYPE_CHECKING:
    from tritonproof.run.converted_case import ConvertedCase


@dataclass(frozen=True)
class Role:
    """What sets the runs of baselines and of reference formats apart; the defaults are a case's own run."""

    log_name: str = ""
    """The name of its server's log; empty for the case's own server."""
    label: str = ""
    """The run's name in progress and errors; empty for the case's."""
    shared_samples: Callable[[], Samples] | None = None
    """Gives the samples of the run that it is compared with, if it uses those."""
    prepare: "Callable[[CaseContext], ConvertedCase] | None" = None
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
