"""A run of a case: each value that proving and measuring it needs, made when first asked for and kept for the
length of a block. Other modules here have the functions that take a run, such as `measure_point`."""

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from tritonproof.accuracy.sameness import AnswerCheck
from tritonproof.base.errors import AccuracyError, ProofError
from tritonproof.build.builds import BuiltModel
from tritonproof.gates.context import GateFinding
from tritonproof.host import machine
from tritonproof.measure.job import Job
from tritonproof.record import schema
from tritonproof.record.schema import Deployment, LoadPoint, PointResult, Scenario
from tritonproof.run.baseline import as_baseline, prepare_baseline
from tritonproof.run.context import OWN_RUN, CaseContext, Role
from tritonproof.run.converted_case import ConvertedCase, convert
from tritonproof.run.expectations import Expectations
from tritonproof.run.loader import Loader
from tritonproof.run.model_run import ModelRun, SuiteRun
from tritonproof.run.once import is_made, once
from tritonproof.run.repository_case import RepositoryCase, serve_repository_case
from tritonproof.serve.server import Server
from tritonproof.settings.case_settings import load_points
from tritonproof.spec import Case, Samples


def prepare(context: CaseContext) -> ConvertedCase | RepositoryCase:
    """Prepare the case of a case's own run."""
    if context.requested.model.from_repository:
        return context.stack.enter_context(serve_repository_case(context))
    return ConvertedCase(context, context.requested, convert(context))


class CaseRun(contextlib.AbstractContextManager["CaseRun"]):
    """A case for the duration of a block, `with CaseRun(case, model_run) as run`. Its parts share its
    context, and none holds the run itself: the weights are freed with its last reference."""

    def __init__(
        self, requested: Case, model_run: ModelRun, suite_run: SuiteRun | None = None, role: Role = OWN_RUN
    ) -> None:
        """`requested` is the case as requested, and `case` the case as its server reports it."""
        self.context = CaseContext(requested, model_run, suite_run or SuiteRun(), role)
        self.settings, self.progress = model_run.settings, model_run.progress
        self.say, self.hold_machine = self.context.say, self.context.hold_machine
        # What its steps have found, for the steps after them and for those who ask again.
        self.gate_findings: dict[str, GateFinding] = {}
        self.sweeps: dict[Scenario, Mapping[LoadPoint, PointResult | ProofError]] = {}
        self.latencies_s: dict[LoadPoint, Sequence[float]] = {}  # of every request that counts
        self.comparison: tuple[GateFinding, schema.BaselineComparison] | None = None

    def __exit__(self, *error: Any) -> None:
        self.context.stack.__exit__(*error)

    @once
    def prepared(self) -> ConvertedCase | RepositoryCase:
        """The case with its build, its server and its expected answers."""
        return (self.context.role.prepare or prepare)(self.context)

    @once
    def loader(self) -> Loader:
        """What loads the case on its server."""
        return Loader(self.context, self.prepared)

    @once
    def expectations(self) -> Expectations:
        """What the case's answers are held to."""
        return Expectations(self.context, self.loader)

    @property
    def case(self) -> Case:
        """The case; for --repository with the inputs, outputs and batches that only the server knows."""
        return self.prepared.case

    @property
    def samples(self) -> Samples:
        return self.prepared.samples

    @property
    def build(self) -> BuiltModel:
        return self.prepared.build

    @property
    def server(self) -> Server:
        return self.prepared.server

    @property
    def deployment(self) -> Deployment:
        return self.prepared.deployment

    @property
    def machine(self) -> schema.Machine:
        return machine.stamp(self.case.target.device, is_client=self.settings.triton.is_remote)

    def check_running(self) -> None:
        """Raise ProofError if the case's server has ended by itself."""
        # One that has not been started is not started for this.
        if is_made(self, "prepared") and is_made(self.prepared, "server"):
            self.server.check_running()

    def accuracy_error(self, what: str, *, where: object = None) -> AccuracyError:
        """The error for wrong answers; on made-up inputs even a right model may be unstable."""
        fix = None
        if self.samples.are_made_up:
            name = self.case.model.name
            fix = f"its inputs are made up; see whether it holds with real ones: --samples {name}=DIR"
        return AccuracyError(what, where=where, fix=fix)

    def job(self, point: LoadPoint, check: AnswerCheck, request_s: float = 0.0) -> Job:
        """The load generator's work at a point of the case, as it is loaded now."""
        memory = self.settings.shared_memory
        return Job(self.loader.served, point, memory, request_s, check)

    def points(self, scenario: Scenario) -> list[LoadPoint]:
        """The load points of a scenario that are measured together."""
        points = load_points(self.case, scenario, self.settings)
        if self.context.suite_run.points is not None:
            selected = self.context.suite_run.points.get(str(self.context.requested), ())
            points = [point for point in selected if point.scenario == scenario]
        # Of a model of --repository only the server knows the largest batch.
        return [point for point in points if point.batch <= self.deployment.max_batch_size]

    @once
    def baseline(self) -> "CaseRun | None":
        """The run to compare the case with, on its own server; None without --against and --against-triton,
        and if the baseline's repository has no model of that name."""
        found = as_baseline(self.context.requested, self.settings, self.context.model_run.models)
        if found is None:
            return None
        (case, settings, models), prepared = found, self.prepared
        label = f"{case} against {self.settings.baseline_name}"
        role = Role("baseline", label, prepare=functools.partial(prepare_baseline, lambda: prepared.build))
        if self.settings.compares_repositories:
            role = Role("baseline", label, shared_samples=lambda: prepared.samples)
        model_run = self.context.stack.enter_context(
            ModelRun(case.model, case.target, settings, models, self.progress)
        )
        return self.context.stack.enter_context(CaseRun(case, model_run, self.context.suite_run, role))
