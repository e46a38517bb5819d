"""Loads a prepared case on its server, for one scenario at a time, and a converted one in this process."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tritonproof.base.errors import NotAvailableError
from tritonproof.client.input_data import input_data
from tritonproof.client.requests import LoadedAs, ServedModel
from tritonproof.frameworks import pytorch
from tritonproof.record.setup import Deployment, Scenario, Serving, Start
from tritonproof.run.once import forget, once
from tritonproof.run.prepared_case import CaseScope, PreparedCase
from tritonproof.serve.container import libraries
from tritonproof.spec import Arrays


@dataclass(eq=False)
class Loader:
    """Loads a prepared case, and knows how it is loaded at the moment."""

    prepared: PreparedCase
    scope: CaseScope
    loaded: LoadedAs | None = field(init=False)
    """How the case is loaded; None before its first loading, and after one that failed."""
    is_cold: bool = True
    """Whether the case has been under no load since it was loaded."""
    starts: dict[Scenario, Start] = field(default_factory=dict)
    """By scenario: how long the server's start, the last loading and the first request after it took."""

    def __post_init__(self) -> None:
        self.loaded = self.prepared.loaded

    @property
    def serving(self) -> Serving | None:
        """The record's entry of the server and the case's backend; None while nothing tells the backend."""
        return self.serving_by(self.loaded.backend) if self.loaded else None

    def serving_by(self, backend: str) -> Serving:
        """The record's entry of the server, a backend, and the settings that all load points of it share."""
        server, image = self.prepared.server, self.prepared.server.program.image
        versions = libraries(server.program, server.version)
        return Serving(
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

    @once
    def infer_in_process(self) -> Callable[[Arrays], Arrays]:
        """The function that runs the converted artifact in this process; only a converted case has it."""
        assert self.prepared.open_in_process is not None
        return self.prepared.open_in_process()

    def time_request(self, batch: int) -> tuple[float, Arrays]:
        """Send a request with `batch` copies of the first sample; returns its seconds and its outputs."""
        case, server = self.prepared.case, self.prepared.server
        rows = {name: values[[0] * batch] for name, values in self.prepared.samples.read([0]).items()}
        started = time.monotonic()
        outputs = server.infer(server.name_of(case), case.model, rows)
        elapsed_s = time.monotonic() - started
        return elapsed_s, {output: values for output, values in outputs.items() if values is not None}

    def leave_gpu(self) -> None:
        """Free the GPU memory of this process's models, as servers need it; the models reopen on use."""
        if self.prepared.case.target.device == "cuda":
            forget(self, "infer_in_process")
            self.scope.model_run.leave_gpu()
            pytorch.release_gpu_memory()

    def ensure_loaded(self, scenario: Scenario, deployment: Deployment | None = None) -> LoadedAs:
        """Load the case for a scenario, with `deployment` or its own, unless it is already loaded that way.
        Raises NotAvailableError unless the model takes single requests."""
        prepared, model = self.prepared, self.prepared.case.model
        variant = prepared.variant_for(scenario)
        if deployment is not None:
            variant = variant._replace(deployment=deployment)
        self.leave_gpu()
        prepared.server.check_running()
        if not model.takes_single_requests:
            how = "keeps state" if model.exchange == "sequence" else "may answer a request more than once"
            outlook = "test_conversation proves it, load on it is not measured"
            raise NotAvailableError(f"{model.name} {how}: {outlook}")
        loaded = self.loaded
        if loaded is None or not loaded.by_own_config or loaded.variant != variant:
            self.loaded, self.is_cold = None, True
            self.scope.say(f"load into Triton ({scenario})")
            with self.scope.model_run.hold_machine(exclusive=False):
                started = time.monotonic()
                loaded = prepared.load(variant)
                loading_s = time.monotonic() - started
                first_request_s, answer = self.time_request(1)
            loaded = dataclasses.replace(loaded, loading_s=loading_s, first_request_s=first_request_s)
            loaded = self.loaded = dataclasses.replace(loaded, first_answer=answer)
        times = round(loaded.loading_s, 3), round(1e3 * loaded.first_request_s, 3)
        self.starts[scenario] = Start(scenario, prepared.server.ready_s, *times)
        return loaded

    @contextlib.contextmanager
    def changing_to(self, loaded: LoadedAs) -> Iterator[None]:
        """For a block that loads a --repository model by another configuration and checks its answers. The
        case counts as `loaded` once the block has ended without error, and until then as not loaded."""
        self.loaded, self.is_cold = None, True
        with self.scope.model_run.hold_machine(exclusive=False):
            yield
        self.loaded = loaded

    def load_again(self) -> LoadedAs:
        """Load the case for offline, anew even if one loading serves both scenarios."""
        self.check_may_reload()
        self.ensure_loaded("offline")
        if self.prepared.variant_for("offline") == self.prepared.variant_for("online"):
            self.reload()
        return self.ensure_loaded("offline")

    def check_may_reload(self) -> None:
        """Raise NotAvailableError if others may use the server, which must then keep its models loaded."""
        if self.scope.settings.triton.is_remote:
            what = "models are not reloaded on a server that others may use"
            raise NotAvailableError(what, where=self.prepared.case)

    def reload(self) -> float:
        """Unload the case and load it again in the same way; returns the seconds of loading."""
        prepared, loaded = self.prepared, self.loaded
        self.loaded, self.is_cold = None, True
        prepared.server.unload(prepared.server.name_of(prepared.case))
        started = time.monotonic()
        anew = prepared.load(loaded.variant if loaded else prepared.variant_for("online"))
        if loaded is not None:
            self.loaded = dataclasses.replace(loaded, backend=anew.backend, first_answer=None)
        return time.monotonic() - started
