"""A case that the suite converts: where its build and its server come from, and how it is loaded."""

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tritonproof.base.errors import ProofError
from tritonproof.build import baseline_source, runtimes
from tritonproof.build.baseline_source import BaselineSource
from tritonproof.build.builds import BuiltModel, in_use, snapshot
from tritonproof.host.scratch import scratch_folder
from tritonproof.host.targets import runs_here
from tritonproof.record.quantities import DURATION, SIZE
from tritonproof.record.schema import Deployment, Scenario, Start
from tritonproof.run.case_settings import build_case
from tritonproof.serve.backends import pool_options, server_variables
from tritonproof.serve.server import Server
from tritonproof.spec import Arrays, Case, Device, Samples

if TYPE_CHECKING:
    from tritonproof.run.case_run import CaseRun


@dataclass(frozen=True)
class ConvertedCase:
    """The source of a run whose case the suite converts. The run keeps what these properties make."""

    run: "CaseRun"
    case: Case

    @property
    def samples(self) -> Samples:
        return self.run.model_run.samples

    @property
    def build(self) -> BuiltModel:
        source = self.run.role.build_source or functools.partial(convert, self.run)
        return self.run.enter_context(source())

    @property
    def server(self) -> Server:
        """Its Triton. It is built first, as a server without its model repository ends."""
        run = self.run
        for kind in run.suite_run.peaks:
            with contextlib.suppress(ProofError):  # raised again by the step that needs it
                run.peak_per_s(kind)
        triton = run.triton(
            run.build.folder.parent,
            variables=server_variables(run.settings.triton, self.case, run.deployment),
            options=pool_options(self.case, run.deployment, self.case.gpus),
        )
        with run.hold_machine(exclusive=False):
            return run.enter_context(triton)

    @property
    def oracle(self) -> Callable[[Any], Mapping[str, Any]]:
        run = self.run
        engines = runtimes.engine_folder(run.build.case, run.build.digest)
        with run.hold_machine(exclusive=False):
            return runtimes.open_in_process(self.case, run.build.artifact, run.deployment, engines)

    def deploy(self, scenario: Scenario, deployment: Deployment) -> tuple[str, Start, Arrays]:
        """Load it and send the first request; returns its backend, how long that took, and the answer."""
        run = self.run
        run.say(f"load into Triton ({scenario})")
        with run.hold_machine(exclusive=False):
            began = time.monotonic()
            backend = self.load(scenario, deployment)
            load_s = time.monotonic() - began
            first_s, first_answer = run.timed_answer(1)
        start = Start(scenario, run.server.ready_s, round(load_s, 3), round(1e3 * first_s, 3))
        return backend, start, first_answer

    def load(self, scenario: Scenario, deployment: Deployment) -> str:
        """Load it on its server, even if it is loaded; returns the backend that serves it."""
        run = self.run
        if not run.role.keeps_config:
            return run.server.load(run.build, deployment, scenario)
        config = baseline_source.config_of(run.build.folder)
        run.server.load_as_is(run.build.folder, baseline_source.for_scenario(config, self.case, scenario))
        return ""

    def joins_requests(self, scenario: Scenario) -> bool:
        return scenario == "online"


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
            run.narrator.note(f"{case}: built in {took}{', reused' if build.reused else ''} ({size})")
            build = stack.enter_context(in_use(build, report=run.say))
        else:
            run.narrator.note(f"{case}: can be converted ({size}); {case.target.label} converts its own")
        yield build


@contextlib.contextmanager
def build_baseline(run: "CaseRun", baseline: BaselineSource) -> Iterator[BuiltModel]:
    """The case's baseline in its own model repository: one that exists, or one built in its own checkout. Its
    own config.pbtxt serves it, as in production: a change of settings is part of the comparison."""

    def say(step: str) -> None:
        run.narrator.say(f"{run.case} against {baseline.name}: {step}")

    with contextlib.ExitStack() as stack:
        if baseline.kind == "builds":
            folder = baseline_source.find_build(baseline, run.case)
            baseline_source.check_unchanged(baseline, folder)
        else:
            if (checkout := baseline.folder) is None:
                say("get its files")
                place = run.settings.model_repos / ".against"
                checkout = baseline_source.export_commit(baseline, place, report=say)
            options = run.settings.command_line("builds", run.case.model.name)
            built = baseline_source.build_in_checkout(checkout, baseline, run.case, options, say)
            run.narrator.note(f"{run.case} against {baseline.name}: built in {built}")
            folder = stack.enter_context(snapshot(built, report=say))
            baseline_source.check_unchanged(baseline, folder, built)
        yield BuiltModel(run.case, folder, "", "", 0.0, 0.0, reused=True)
