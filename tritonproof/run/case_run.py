"""A run of a case: each value that proving and measuring it needs, found when first asked for and kept for
the length of a block. Other modules have functions that take a run, such as `measure_point`."""

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NoReturn

from tritonproof.accuracy.answer_comparison import AnswerCheck
from tritonproof.base.errors import AccuracyError, ProofError
from tritonproof.build.builds import CaseBuild
from tritonproof.gates.context import GateFinding
from tritonproof.host import machine
from tritonproof.measure.passes import LoadJob
from tritonproof.record import schema
from tritonproof.record.schema import Deployment, LoadPoint, PointResult, Scenario
from tritonproof.run.baseline import as_baseline, prepare_baseline
from tritonproof.run.converted_case import ConvertedCase, converted_build
from tritonproof.run.expectations import Expectations
from tritonproof.run.loader import Loader
from tritonproof.run.model_run import ModelRun
from tritonproof.run.once import forget, is_made, once
from tritonproof.run.prepared_case import CaseScope, PreparedCase
from tritonproof.run.repository_case import serve_repository_case
from tritonproof.serve.server import Server
from tritonproof.settings.case_settings import load_points
from tritonproof.spec import Case, Samples


def prepare_own(scope: CaseScope) -> PreparedCase:
    """Prepare the case itself, for its own run."""
    if scope.requested.model.from_repository:
        return scope.stack.enter_context(serve_repository_case(scope))
    return ConvertedCase(scope, converted_build(scope))


def _ended(scope: CaseScope) -> NoReturn:
    raise RuntimeError(f"{scope.label}: the block of this run has ended")


class CaseRun(CaseScope, contextlib.AbstractContextManager["CaseRun"]):
    """A case for the duration of a block, `with CaseRun(case, model_run) as run`, whose steps ask it for what
    they need: the prepared case, its loader, its expectations. The end of the block frees their models."""

    def __init__(
        self,
        requested: Case,
        model_run: ModelRun,
        role: Literal["", "baseline", "reference"] = "",
        prepare: Callable[[CaseScope], PreparedCase] = prepare_own,
    ) -> None:
        super().__init__(requested, model_run, role)
        self._prepare = prepare
        # What steps have found, for later steps and when they are asked again.
        self.gate_findings: dict[str, GateFinding] = {}
        self.sweeps: dict[Scenario, Mapping[LoadPoint, PointResult | ProofError]] = {}
        self.latencies_s: dict[LoadPoint, Sequence[float]] = {}  # of every request that counts
        self.comparison: tuple[GateFinding, schema.BaselineComparison] | None = None

    def __exit__(self, *error: Any) -> None:
        for part in ("prepared", "loader", "expectations", "baseline"):
            forget(self, part)
        self._prepare = _ended
        self.stack.__exit__(*error)

    @once
    def prepared(self) -> PreparedCase:
        return self._prepare(self)

    @once
    def loader(self) -> Loader:
        return Loader(self, self.prepared)

    @once
    def expectations(self) -> Expectations:
        return Expectations(self.loader)

    @property
    def case(self) -> Case:
        return self.prepared.case

    @property
    def samples(self) -> Samples:
        return self.prepared.samples

    @property
    def build(self) -> CaseBuild:
        return self.prepared.build

    @property
    def server(self) -> Server:
        return self.prepared.server

    @property
    def deployment(self) -> Deployment:
        return self.prepared.deployment

    @property
    def machine(self) -> schema.Machine:
        return machine.stamp(self.requested.target.device, is_client=self.settings.triton.is_remote)

    def check_running(self) -> None:
        """Raise ProofError if the case's server, once it was started, has ended by itself."""
        if is_made(self, "prepared") and is_made(self.prepared, "server"):
            self.server.check_running()

    def accuracy_error(self, what: str, *, where: object = None) -> AccuracyError:
        """The error for wrong answers; on made-up inputs, it says, even a right model may be unstable."""
        fix = None
        if self.samples.are_synthetic:
            name = self.case.model.name
            fix = f"its inputs are made up; see whether it holds with real ones: --samples {name}=DIR"
        return AccuracyError(what, where=where, fix=fix)

    def job(self, point: LoadPoint, check: AnswerCheck, request_s: float = 0.0) -> LoadJob:
        """The load generator's job at a load point, with the case as it is loaded now."""
        return LoadJob(self.loader.served, point, self.settings.shared_memory, request_s, check)

    def points(self, scenario: Scenario) -> list[LoadPoint]:
        """The load points of a scenario, which are measured together."""
        points = load_points(self.case, scenario, self.settings)
        if self.suite_run.points is not None:
            selected = self.suite_run.points.get(str(self.requested), ())
            points = [point for point in selected if point.scenario == scenario]
        # For a model of --repository only the server knows the largest batch.
        return [point for point in points if point.batch <= self.deployment.max_batch_size]

    @once
    def baseline(self) -> "CaseRun | None":
        """The run of the baseline on its own server; None if none is given, or it has no such model."""
        baseline = as_baseline(self.requested, self.model_run)
        if baseline is None:
            return None
        (case, model_run) = baseline
        prepare = functools.partial(prepare_baseline, self.prepared)
        self.stack.enter_context(model_run)
        return self.stack.enter_context(CaseRun(case, model_run, "baseline", prepare))
