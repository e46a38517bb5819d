"""A run of a case: each value that proving and measuring it needs, made when first asked for and kept for the
length of a block. Other modules of this folder have the functions that take a run, such as `measure`."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tritonproof.base.errors import AccuracyError
from tritonproof.build.builds import BuiltModel
from tritonproof.frameworks import pytorch
from tritonproof.host import machine
from tritonproof.measure.job import AnswerCheck, Job
from tritonproof.measure.load_data import LoadData, input_data
from tritonproof.measure.measurement import Outcome
from tritonproof.record import schema
from tritonproof.record.schema import Deployment, LoadPoint, Scenario
from tritonproof.run.as_is_source import AsIsSource
from tritonproof.run.baseline import as_baseline, baseline_source
from tritonproof.run.correctness import Correctness
from tritonproof.run.loader import Loader
from tritonproof.run.model_run import ModelRun, SuiteRun
from tritonproof.run.once import forget, is_made, once
from tritonproof.run.source import Source, own_source
from tritonproof.serve.launch import serve
from tritonproof.serve.server import Server
from tritonproof.settings.case_settings import deployment_of, load_points
from tritonproof.spec import Arrays, Case, Samples


@dataclass(frozen=True)
class Role:
    """What sets the runs of baselines and of reference formats apart; the defaults are a case's own run."""

    log_name: str = ""
    """The name of its server's log; empty for the case's own server."""
    label: str = ""
    """The run's name in progress and errors; empty for the case's."""
    samples_of: "CaseRun | None" = None
    """The run whose samples it uses; None for its own."""
    make_source: "Callable[[CaseRun], Source]" = own_source
    """Where its case comes from."""


@dataclass(eq=False)
class CaseRun(contextlib.ExitStack):
    """A case for the duration of a block, `with CaseRun(case, model_run) as run`."""

    requested: Case
    """The case as requested; `case` is the case as its server reports it."""
    model_run: ModelRun
    suite_run: SuiteRun = field(default_factory=SuiteRun)
    role: Role = Role()
    """Whether it is the case's own run, or one that is measured beside it."""
    sweeps: dict[Scenario, Mapping[LoadPoint, Outcome]] = field(default_factory=dict, init=False)
    """What came of each load point of a scenario."""

    def __post_init__(self) -> None:
        super().__init__()
        self.settings, self.progress = self.model_run.settings, self.model_run.progress
        self.hold_machine = self.model_run.hold_machine

    @property
    def stamp(self) -> schema.Machine:
        return machine.stamp(self.case.target.device, is_client=self.settings.triton.kind == "remote")

    def say(self, step: str, detail: str = "") -> None:
        self.progress.say(f"{self.role.label or self.requested}: {step}", detail)

    @once
    def source(self) -> Source:
        """Where the case, its build, its server and its expected answers come from."""
        return self.role.make_source(self)

    @once
    def loader(self) -> Loader:
        """What loads the case on its server."""
        return Loader(self)

    @once
    def correctness(self) -> Correctness:
        """What shows that the case is right."""
        return Correctness(self)

    def __exit__(self, *error: Any) -> bool | None:
        try:
            return super().__exit__(*error)
        finally:  # they have this run: it, and the weights, would stay in memory until a garbage collection
            for name in ("source", "loader", "correctness"):
                forget(self, name)

    @property
    def as_is_source(self) -> AsIsSource | None:
        """The case of --repository as its server has loaded it; None for a converted case."""
        return self.source if isinstance(self.source, AsIsSource) else None

    @property
    def case(self) -> Case:
        """The case; for --repository with the inputs, outputs and batches that only the server knows."""
        return self.source.case

    @property
    def samples(self) -> Samples:
        return self.source.samples

    @once
    def deployment(self) -> Deployment:
        return deployment_of(self.case, self.settings)

    @once
    def build(self) -> BuiltModel:
        """The model's folder: a converted one is in model_repos/<target>/<case>/, built if it is missing."""
        return self.source.make_build()

    @once
    def oracle(self) -> Callable[[Arrays], Arrays]:
        """The source of the expected answers, in testing's term, a function of inputs by name: the converted
        model in process; for --repository the model's own server, which gets each row alone."""
        return self.source.open_oracle()

    @once
    def server(self) -> Server:
        """The case's Triton, started while nobody measures and stopped with the block."""
        return self.source.start_server()

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

    def check_running(self) -> None:
        """Raise ProofError if the case's server has ended by itself."""
        if is_made(self, "server"):  # one that has not been started is not started for this
            self.server.check_running()

    def leave_gpu(self) -> None:
        """Free this process's models from the GPU's memory, which servers need; they reopen on use."""
        if self.requested.target.device == "cuda":
            forget(self, "oracle")
            forget(self.model_run, "framework_model")
            pytorch.release_gpu_memory()

    def accuracy_error(self, what: str, *, where: object = None) -> AccuracyError:
        """The error for wrong answers; on made-up inputs even a right model may be unstable."""
        fix = None
        if self.samples.are_made_up:
            name = self.case.model.name
            fix = f"its inputs are made up; see whether it holds with real ones: --samples {name}=DIR"
        return AccuracyError(what, where=where, fix=fix)

    @once
    def load_data(self) -> LoadData:
        return self.enter_context(input_data(self.case.model, self.samples, self.server.scratch))

    def job(self, point: LoadPoint, request_s: float, check: AnswerCheck) -> Job:
        """The load generator's work at a point of the case, as it is loaded now."""
        server, memory, model = self.server, self.settings.shared_memory, self.case.model
        data = self.load_data.below(server.scratch)
        return Job(server, server.name_of(self.case), model, point, memory, data, request_s, check)

    def points(self, scenario: Scenario) -> list[LoadPoint]:
        """The load points of a scenario that are measured together."""
        points = load_points(self.case, scenario, self.settings)
        if self.suite_run.points is not None:
            selected = self.suite_run.points.get(str(self.requested), ())
            points = [point for point in selected if point.scenario == scenario]
        # Of a model of --repository only the server knows the largest batch.
        return [point for point in points if point.batch <= self.deployment.max_batch_size]

    @once
    def baseline(self) -> "CaseRun | None":
        """The run to compare the case with, on its own server; None without --against and --against-triton,
        and if the baseline's repository has no model of that name."""
        found = as_baseline(self.requested, self.settings, self.model_run.models)
        if found is None:
            return None
        case, settings, models = found
        label = f"{case} against {self.settings.baseline_name}"
        role = Role("against", label, make_source=functools.partial(baseline_source, self))
        if self.settings.compares_repositories:
            role = Role("against", label, samples_of=self)
        model_run = self.enter_context(ModelRun(case.model, case.target, settings, models, self.progress))
        return self.enter_context(CaseRun(case, model_run, self.suite_run, role))
