"""A case that the suite converts: where its build and its server come from, and how it is loaded."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tritonproof.build import baselines, in_process
from tritonproof.build.builds import BuiltModel, in_use
from tritonproof.host.scratch import scratch_folder
from tritonproof.host.targets import runs_here
from tritonproof.measure.load_data import LoadData
from tritonproof.record.quantities import DURATION, SIZE
from tritonproof.record.schema import Deployment, Scenario, Start
from tritonproof.serve.backends import pool_options, server_variables
from tritonproof.serve.server import Server
from tritonproof.settings.case_settings import build_case
from tritonproof.spec import Arrays, Case, Device, Samples

if TYPE_CHECKING:
    from tritonproof.run.case_run import CaseRun


@dataclass(frozen=True)
class ConvertedSource:
    """The source of a run whose case the suite converts. The run keeps what it makes."""

    run: "CaseRun"
    case: Case
    build: contextlib.AbstractContextManager[BuiltModel]
    """Makes the build, and has it for a block."""
    keeps_config: bool = False
    """Whether the build's own config.pbtxt serves it, in place of the settings."""

    # A server that the suite has started says all, and loads the model later.
    backend, called_names, unreported = "", (), ()

    @property
    def samples(self) -> Samples:
        return self.run.model_run.samples

    def make_build(self) -> BuiltModel:
        return self.run.enter_context(self.build)

    def start_server(self) -> Server:
        """Start its Triton. It is built first, as a server without its model repository ends."""
        run = self.run
        triton = run.triton(
            run.build.folder.parent,
            variables=server_variables(run.settings.triton, self.case, run.deployment),
            options=pool_options(self.case, run.deployment, self.case.gpus),
        )
        with run.hold_machine(exclusive=False):
            return run.enter_context(triton)

    def open_oracle(self) -> Callable[[Arrays], Arrays]:
        run = self.run
        engines = in_process.engine_folder(run.build.case, run.build.digest)
        with run.hold_machine(exclusive=False):
            return in_process.open_in_process(self.case, run.build.artifact, run.deployment, engines)

    def load_and_ask(self, scenario: Scenario, deployment: Deployment) -> tuple[str, Start, Arrays]:
        run = self.run
        run.say(f"load into Triton ({scenario})")
        with run.hold_machine(exclusive=False):
            started = time.monotonic()
            backend = self.load(scenario, deployment)
            load_s = time.monotonic() - started
            first_s, first_answer = run.loader.timed_answer(1)
        start = Start(scenario, run.server.ready_s, round(load_s, 3), round(1e3 * first_s, 3))
        return backend, start, first_answer

    def load(self, scenario: Scenario, deployment: Deployment) -> str:
        run = self.run
        if not self.keeps_config:
            return run.server.load(run.build, deployment, scenario)
        config = baselines.config_of(run.build.folder)
        run.server.load_as_is(run.build.folder, baselines.for_scenario(config, self.case, scenario))
        return str(config.backend or config.platform)

    def batches_dynamically(self, scenario: Scenario) -> bool:
        return scenario == "online"

    def remaining_data(self) -> Iterable[LoadData]:
        """None: the accuracy step sends every sample, and looks at every number."""
        return ()


@contextlib.contextmanager
def convert(run: "CaseRun") -> Iterator[BuiltModel]:
    """The converted case, in its folder of --model-repos. That of a GPU which is not here (--convert-only) is
    converted on this machine's CPU and removed after the test: a run on the GPU converts with the packages
    for GPUs, and would not reuse it."""
    case, settings, is_here = run.case, run.settings, runs_here(run.case.target)
    with contextlib.ExitStack() as stack:
        if not is_here:
            folder = stack.enter_context(scratch_folder("conversion"))
            settings = dataclasses.replace(settings, model_repos=folder)
        with run.hold_machine(exclusive=False):
            run.say("convert")
            device: Device | None = None if is_here else "cpu"
            build = build_case(case, run.model_run.weights, settings, run.say, device=device)
        size, took = SIZE.text(build.size_mib), DURATION.text(build.build_time_s)
        if is_here:
            run.progress.note(f"{case}: built in {took}{', reused' if build.reused else ''} ({size})")
            build = stack.enter_context(in_use(build, on_progress=run.say))
        else:
            run.progress.note(f"{case}: can be converted ({size}); {case.target.label} converts its own")
        yield build
