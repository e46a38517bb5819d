"""What a real `CaseRun` gets from a test: a case that nothing converts, on a server without a process."""

import contextlib
import dataclasses
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tests import toy
from tritonproof.base.errors import ProofError
from tritonproof.build.builds import CaseBuild
from tritonproof.client.requests import LoadedAs
from tritonproof.host import locks
from tritonproof.record import setup, speed
from tritonproof.run.case_run import CaseRun
from tritonproof.run.model_run import ModelRun, SuiteRun
from tritonproof.run.prepared_case import CaseScope, PreparedCase
from tritonproof.run.preparing import baseline_of
from tritonproof.run.progress import Progress
from tritonproof.run.repository_case import AcceptedSamples, RepositoryCase
from tritonproof.serve.described_model import DescribedModel
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSpec
from tritonproof.settings.settings import Settings
from tritonproof.spec import DEFAULT_PROFILES, Arrays, Case, Model, Samples
from tritonproof.user_models.model_from_config import AS_IS
from tritonproof.user_models.model_repository import RepositoryEntry

MODEL = toy.repository_model(profiles=DEFAULT_PROFILES)
"""The toy model as of a repository, whose answers have limits without a framework's network."""
Prepare = Callable[[CaseScope], PreparedCase]


@dataclass(eq=False)
class StandInServer(Server):
    """A Triton without a process, which answers zeros."""

    spec: ServerSpec = field(default_factory=lambda: ServerSpec("embedded"))
    address: str = ""
    version: str = "2.51.0"
    log: Path | None = None
    client: Any = field(default_factory=lambda: Mock(is_model_ready=Mock(return_value=False)))
    on_loading: Callable[[], object] = lambda: None
    """Called by each loading, which fails if it raises an error."""
    refused: tuple[int, ...] = ()
    """The batch sizes whose requests fail."""

    def load_model(self, _name: str, _config: str | None, _files: dict[str, bytes] | None = None) -> None:
        self.on_loading()

    def infer(self, _name: str, model: Model, arrays: Arrays) -> dict[str, Any]:
        if (batch := len(next(iter(arrays.values())))) in self.refused:
            raise ProofError("refused")
        return {tensor.name: np.zeros((batch, *tensor.shape), np.float32) for tensor in model.outputs}


def described_model(**configuration: Any) -> DescribedModel:
    """A model of a repository with this configuration, which its server has loaded."""
    config = ModelConfig(**configuration)
    return DescribedModel(RepositoryEntry("m", Path("m"), config), (), config, ("1",), 0.0)


@dataclass
class StandInCase:
    """A `PreparedCase` that is described by its server, and loaded in any variant."""

    case: Case
    server: Server = field(default_factory=StandInServer)
    deployment: setup.Deployment = toy.DEPLOYMENT
    samples: Samples = field(default_factory=lambda: toy.samples(1))
    folder: Path = Path("toy")
    """The folder of its build, which holds nothing unless the test puts something there."""
    described: DescribedModel | None = field(default_factory=described_model)
    open_in_process: Callable[[], Callable[[Arrays], Arrays]] | None = None
    loaded = None

    @property
    def build(self) -> CaseBuild:
        return CaseBuild(self.case, self.folder, toy.FACTS)

    def variant_for(self, scenario: setup.Scenario) -> setup.ConfigVariant:
        return setup.ConfigVariant(scenario, self.deployment)

    def load(self, variant: setup.ConfigVariant) -> LoadedAs:
        self.server.load_model(str(self.case), None)
        return LoadedAs(variant, "python")


def prepare(**changes: Any) -> Prepare:
    """Prepare the case that a run is asked for, with these changes of its stand-in."""
    return lambda scope: dataclasses.replace(StandInCase(scope.requested), **changes)


def prepare_repository_case(server: Server | None = None, **configuration: Any) -> Prepare:
    """Prepare a model of a repository with this configuration, which the server has loaded and asked."""

    def prepare_it(scope: CaseScope) -> RepositoryCase:
        case = dataclasses.replace(scope.requested, format=AS_IS, precision="")
        described, accepted = described_model(**configuration), AcceptedSamples(toy.samples(1), 0.0, {})
        build = CaseBuild(case, Path("m"))
        return RepositoryCase(case, toy.DEPLOYMENT, server or StandInServer(), described, build, accepted)

    return prepare_it


@contextlib.contextmanager
def running(
    settings: Settings,
    how: Prepare,
    write_line: Callable[[str], None] = print,
    points: Mapping[str, Sequence[speed.LoadPoint]] | None = None,
) -> Iterator[CaseRun]:
    """A run of the toy model's case with these settings, prepared in this way, which writes lines of progress;
    `points` are the selected ones of all cases."""
    case = toy.case(MODEL)
    suite_run = SuiteRun(settings, progress=Progress(write_line), selected_points=points)
    with (
        ModelRun(MODEL, case.target, suite_run) as model_run,
        CaseRun(case, model_run, settings, how, baseline_of) as run,
    ):
        yield run


def holds_machine_alone() -> bool:
    """Whether nobody else gets the machine, even to share it."""
    lock = os.open(locks.MACHINE_LOCK, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
