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
from tritonproof.run.model_run import ModelRun
from tritonproof.run.once import forget, once
from tritonproof.run.prepared_case import PreparedCase
from tritonproof.serve.container import libraries
from tritonproof.settings.settings import Settings


@dataclass(eq=False)
class Loader:
    """Loads a prepared case, and knows how it is loaded at the moment."""

    prepared: PreparedCase
    model_run: ModelRun
    settings: Settings
    stack: contextlib.ExitStack
    """Keeps the samples of requests until the run of the case ends."""
    loaded: LoadedAs | None = None
    under_load: LoadedAs | None = None
    """The loading that has been under load: another one leaves the case cold."""
    lacks_own_config: bool = False
    """Whether the case is not loaded as it was prepared: a reload failed, or a search changed it."""
    starts: dict[Scenario, schema.Start] = field(default_factory=dict)
    """By scenario: how long the server's start, the last loading and the first request after it took."""

    @property
    def serving(self) -> schema.Serving | None:
        """The record's entry of the server and the case's backend; None while nothing tells the backend."""
        known = self.loaded or self.prepared.described
        return self.serving_by(known.backend) if known and known.backend else None

    def serving_by(self, backend: str) -> schema.Serving:
        """The record's entry of the server, a backend, and the settings that all load points of it share."""
        server, image = self.prepared.server, self.prepared.server.program.image
        versions = libraries(server.program, server.version)
        return schema.Serving(
            server.spec.kind,
            server.version,
            backend,
            shared_memory=self.settings.shared_memory,
            image=image.name if image else None,
            image_digest=image.digest if image else None,
            versions={} if backend == "python" else versions,  # the suite's runtimes use the machine's
        )

    @once
    def served(self) -> ServedModel:
        """The case's model on its server, with the samples of its requests."""
        case, server = self.prepared.case, self.prepared.server
        data = self.stack.enter_context(input_data(case.model, self.prepared.samples, server.scratch))
        return ServedModel(server, server.name_of(case), case.model, data)

    def leave_gpu(self) -> None:
        """Free the GPU memory of this process's models, as servers need it; the models reopen on use."""
        if self.prepared.case.target.device == "cuda":
            forget(self.prepared, "infer_in_process")  # of a converted case
            forget(self.model_run, "framework_model_on_target")
            pytorch.release_gpu_memory()

    def ensure_loaded(self, scenario: Scenario, deployment: Deployment | None = None) -> LoadedAs:
        """Load the case for a scenario, with `deployment` or its own, unless it is loaded so. Both
        scenarios of a model of --repository are loaded in the same way."""
        prepared = self.prepared
        variant = ConfigVariant(scenario, deployment or prepared.deployment)
        self.leave_gpu()
        prepared.server.check_running()
        if self.loaded is not None and self.loaded.variant == variant and not self.lacks_own_config:
            return self.loaded
        self.loaded = None  # nothing is loaded if what follows fails
        self.restore()
        self.loaded, self.starts[scenario] = prepared.load_variant(variant)
        return self.loaded

    @contextlib.contextmanager
    def changing_to(self, loaded: LoadedAs) -> Iterator[None]:
        """The block loads a repository's model by another configuration, and checks its answers. The model
        counts as `loaded` once the block has ended without error; until then, nothing does."""
        self.loaded, self.lacks_own_config = None, True
        with self.model_run.hold_machine(exclusive=False):
            yield
        self.loaded = loaded

    def restore(self) -> None:
        """Load a repository's model by its own configuration, unless it is loaded so."""
        if self.lacks_own_config and self.prepared.described is not None:  # a conversion is loaded on use
            self.loaded = None
            with self.model_run.hold_machine(exclusive=False):
                self.prepared.load_anew(ConfigVariant("online", self.prepared.deployment))
        self.lacks_own_config = False

    def put_under_load(self) -> bool:
        """Note that the case gets load; returns whether it was cold, without load since it was loaded."""
        was_cold = self.under_load is not self.loaded
        self.under_load = self.loaded
        return was_cold

    def check_may_reload(self) -> None:
        """Raise NotAvailableError if others may use the server, which must then keep its models loaded."""
        if self.settings.triton.is_remote:
            what = "models are not reloaded on a server that others may use"
            raise NotAvailableError(what, where=self.prepared.case)

    def reload(self) -> float:
        """Unload the case and load it again in the same way; returns the seconds of loading."""
        prepared, loaded = self.prepared, self.loaded
        self.loaded = None
        self.lacks_own_config = True
        prepared.server.unload(prepared.server.name_of(prepared.case))
        started = time.monotonic()
        since_start = ConfigVariant("online", prepared.deployment)  # before anything asked for a scenario
        backend = prepared.load_anew(loaded.variant if loaded else since_start)
        self.loaded = loaded and dataclasses.replace(loaded, backend=backend, first_answer=None)
        self.lacks_own_config = False
        return time.monotonic() - started
