"""Loads a prepared case on its server, for one scenario at a time."""

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tritonproof.base.errors import NotAvailableError
from tritonproof.client.input_data import input_data
from tritonproof.client.requests import LoadedAs, ServedModel
from tritonproof.frameworks import pytorch
from tritonproof.record import schema
from tritonproof.record.schema import ConfigVariant, Deployment, Scenario
from tritonproof.run.once import once
from tritonproof.run.prepared_case import CaseScope, PreparedCase
from tritonproof.serve.container import libraries


@dataclass(frozen=True)
class Loading:
    """The last loading of a case. Each further one is a new value, so that the case is cold after it."""

    loaded: LoadedAs | None = None
    """How the case is loaded; None before it is asked for a scenario, and after a loading that failed."""
    by_own_config: bool = True
    """False if a search has varied the configuration of a repository's model, or if a loading failed."""
    is_cold: bool = True
    """Whether it has had no load since."""


@dataclass(eq=False)
class Loader:
    """Loads a prepared case, and knows how it is loaded at the moment."""

    prepared: PreparedCase
    scope: CaseScope
    loading: Loading = Loading()
    starts: dict[Scenario, schema.Start] = field(default_factory=dict)
    """By scenario: how long the server's start, the last loading and the first request after it took."""

    @property
    def loaded(self) -> LoadedAs | None:
        return self.loading.loaded

    @property
    def serving(self) -> schema.Serving | None:
        """The record's entry of the server and the case's backend; None while nothing tells the backend."""
        backend = self.loaded.backend if self.loaded else self.prepared.backend
        return self.serving_by(backend) if backend else None

    def serving_by(self, backend: str) -> schema.Serving:
        """The record's entry of the server, a backend, and the settings that all load points of it share."""
        server, image = self.prepared.server, self.prepared.server.program.image
        versions = libraries(server.program, server.version)
        return schema.Serving(
            server.spec.kind,
            server.version,
            backend,
            shared_memory=self.scope.settings.shared_memory,
            image=image.name if image else None,
            image_digest=image.digest if image else None,
            versions={} if backend == "python" else versions,  # the suite's runtimes use the machine's
        )

    @once
    def served(self) -> ServedModel:
        """The case's model on its server, with the samples of its requests."""
        case, server = self.prepared.case, self.prepared.server
        data = self.scope.stack.enter_context(input_data(case.model, self.prepared.samples, server.scratch))
        return ServedModel(server, server.name_of(case), case.model, data)

    def leave_gpu(self) -> None:
        """Free the GPU memory of this process's models, as servers need it; the models reopen on use."""
        if self.prepared.case.target.device == "cuda":
            self.prepared.leave_gpu()
            self.scope.model_run.leave_gpu()
            pytorch.release_gpu_memory()

    def ensure_loaded(self, scenario: Scenario, deployment: Deployment | None = None) -> LoadedAs:
        """Load the case for a scenario, with `deployment` or its own, unless it is loaded so. Both
        scenarios of a model of --repository are loaded in the same way."""
        prepared = self.prepared
        variant = ConfigVariant(scenario, deployment or prepared.deployment)
        self.leave_gpu()
        prepared.server.check_running()
        if self.loaded is not None and self.loaded.variant == variant and self.loading.by_own_config:
            return self.loaded
        self.restore()
        self.loading = Loading()  # for no scenario, if what follows fails
        loaded, self.starts[scenario] = prepared.load_variant(variant)
        self.loading = Loading(loaded)
        return loaded

    @contextlib.contextmanager
    def changing_to(self, loaded: LoadedAs) -> Iterator[None]:
        """The block loads a repository's model by another configuration, and checks its answers. The model
        counts as `loaded` once the block has ended without error; until then, nothing does."""
        self.loading = Loading(by_own_config=False)
        with self.scope.model_run.hold_machine(exclusive=False):
            yield
        self.loading = Loading(loaded, by_own_config=False)

    def restore(self) -> None:
        """Load a repository's model by its own configuration, unless it is loaded so."""
        if not self.loading.by_own_config and self.prepared.case.model.from_repository:  # else loaded on use
            self.loading = Loading(by_own_config=False)
            with self.scope.model_run.hold_machine(exclusive=False):
                self.prepared.load_anew(ConfigVariant("online", self.prepared.deployment))
            self.loading = Loading()

    def put_under_load(self) -> bool:
        """Note that the case gets load; returns whether it was cold, without load since it was loaded."""
        was_cold = self.loading.is_cold
        self.loading = dataclasses.replace(self.loading, is_cold=False)
        return was_cold

    def check_may_reload(self) -> None:
        """Raise NotAvailableError if others may use the server, which must then keep its models loaded."""
        if self.scope.settings.triton.is_remote:
            what = "models are not reloaded on a server that others may use"
            raise NotAvailableError(what, where=self.prepared.case)

    def reload(self) -> float:
        """Unload the case and load it again in the same way; returns the seconds of loading."""
        prepared, loaded = self.prepared, self.loaded
        self.loading = Loading(by_own_config=False)
        prepared.server.unload(prepared.server.name_of(prepared.case))
        started = time.monotonic()
        since_start = ConfigVariant("online", prepared.deployment)  # before anything asked for a scenario
        backend = prepared.load_anew(loaded.variant if loaded else since_start)
        self.loading = Loading(loaded and dataclasses.replace(loaded, backend=backend, first_answer=None))
        return time.monotonic() - started
