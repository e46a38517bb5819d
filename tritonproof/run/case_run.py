"""A run of a case: each value that proving and measuring it needs, found when first asked for and kept for
the length of a block. Other modules have functions that take a run, such as `measure_point`."""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NoReturn

from tritonproof.accuracy import ledger, precisions, stages
from tritonproof.accuracy.answer_comparison import AnswerFinding, ExpectedAnswers
from tritonproof.accuracy.limits import CaseLimits, case_limits
from tritonproof.accuracy.precision_cost import PrecisionCost
from tritonproof.base.errors import AccuracyError, ProofError
from tritonproof.build.builds import CaseBuild
from tritonproof.client.input_data import InputData
from tritonproof.gates.context import GateContext, ask_one_by_one
from tritonproof.host import machine
from tritonproof.measure.passes import LoadJob
from tritonproof.measure.verifying import expect_in_process, with_expected
from tritonproof.record import schema
from tritonproof.record.schema import Deployment, GateResult, LoadPoint, PointResult, Scenario
from tritonproof.run.baseline import as_baseline, prepare_baseline
from tritonproof.run.converted_case import ConvertedCase, converted_build
from tritonproof.run.loader import Loader
from tritonproof.run.model_run import ModelRun
from tritonproof.run.once import forget_all, is_made, once, once_sharing_machine
from tritonproof.run.prepared_case import CaseScope, PreparedCase
from tritonproof.run.repository_case import serve_repository_case
from tritonproof.serve.server import Server
from tritonproof.settings.case_settings import load_points
from tritonproof.settings.settings import Settings
from tritonproof.spec import Case, NetworkModel, Samples, why_undeclared


def prepare_own(scope: CaseScope) -> PreparedCase:
    """Prepare the case itself, for its own run."""
    if scope.requested.model.from_repository:
        entries = scope.suite_run.models.repository_entries
        return scope.stack.enter_context(serve_repository_case(scope, entries))
    return ConvertedCase(scope, converted_build(scope))


def _ended(scope: CaseScope) -> NoReturn:
    raise RuntimeError(f"{scope.label}: the block of this run has ended")


class CaseRun(CaseScope, contextlib.AbstractContextManager["CaseRun"]):
    """A case for the duration of a block, `with CaseRun(case, model_run) as run`. Steps ask it for the case,
    prepared and loaded, and for what its answers are compared with. The end of the block frees all of it."""

    def __init__(
        self,
        requested: Case,
        model_run: ModelRun,
        role: Literal["", "baseline", "reference"] = "",
        prepare: Callable[[CaseScope], PreparedCase] = prepare_own,
        settings: Settings | None = None,
    ) -> None:
        super().__init__(requested, model_run, role, settings)
        self._prepare = prepare
        # What steps have found, for later steps and when they are asked again.
        self.sweeps: dict[Scenario, Mapping[LoadPoint, PointResult | ProofError]] = {}
        self.latencies_s: dict[LoadPoint, Sequence[float]] = {}  # of every request that counts
        self.baseline_result: tuple[AnswerFinding[GateResult], schema.BaselineComparison] | None = None

    def __exit__(self, *error: Any) -> None:
        forget_all(self)
        self._prepare = _ended
        self.stack.__exit__(*error)

    @once
    def prepared(self) -> PreparedCase:
        """The case, converted or served from its repository, as the run's role asks for."""
        return self._prepare(self)

    @once
    def loader(self) -> Loader:
        return Loader(self, self.prepared)

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

    @property
    def arithmetic_precision(self) -> str:
        """The precision that the case computes in."""
        return precisions.arithmetic_precision(self.case, self.deployment)

    @once_sharing_machine
    def precision_cost(self) -> PrecisionCost | None:
        """The cost of the case's precision, from which limits follow; None without a framework."""
        has_framework = not self.case.model.from_repository
        return self.model_run.precision_cost(self.arithmetic_precision) if has_framework else None

    @once_sharing_machine
    def converted_answers(self) -> stages.StageAnswers:
        """The converted model's answers to the whole evaluation set, in process."""
        assert isinstance(self.prepared, ConvertedCase)
        model, oracle, batch = self.case.model, self.prepared.oracle, stages.evaluation_batch(self.deployment)
        on_progress = functools.partial(self.say, "evaluate in process")
        return stages.evaluate_in_process("converted", model, oracle, self.samples, batch, on_progress)

    @once_sharing_machine
    def conversion(self) -> schema.Conversion:
        """The comparison of the converted model, in process, with the framework's."""
        return stages.compare_conversion(
            self.case,
            self.arithmetic_precision,
            self.model_run.framework_answers,
            self.converted_answers,
            self.samples.ids,
            self.precision_cost,
            trained=self.model_run.framework_model.trained,
            on_progress=functools.partial(self.say, "compare with the framework"),
        )

    @once
    def why_no_score(self) -> str | None:
        """Why the task metric cannot be computed, or None; an InputError if an option limits that metric."""
        model, settings = self.case.model, self.settings
        if not isinstance(model, NetworkModel):
            return None
        source, has_dataset = self.model_run.source_model, model.name in settings.dataset
        reason = ledger.why_no_score(model, source, self.samples, has_dataset=has_dataset)
        settings.thresholds.check_measured(self.case, reason)
        return reason

    @once
    def answer_limits(self) -> CaseLimits:
        """How far the case's answers may be from other answers to the same samples."""
        outputs, count = self.case.model.outputs, len(self.samples)
        elements = {tensor.name: count * math.prod(map(abs, tensor.shape)) for tensor in outputs}
        return case_limits(self.case, self.arithmetic_precision, self.precision_cost, elements)

    @once
    def gate_context(self) -> GateContext:
        """What gates get: the case as it is loaded online, and its answers to samples sent alone."""
        loaded, limits = self.loader.ensure_loaded("online"), self.answer_limits
        served = self.loader.served
        self.loader.leave_gpu()  # which the limits may have used
        return GateContext(
            served,
            loaded,
            ask_one_by_one(served, limits),
            limits,
            kernels_may_change=self.case.answers_on == "cuda",
            # The accuracy step sends all samples of a converted case.
            evaluation_samples=self.samples if self.case.model.from_repository else None,
            can_share_memory=self.settings.shared_memory == "system",
        )

    @once_sharing_machine
    def expected_answers(self) -> ExpectedAnswers:
        """The answers that are expected of the case under load."""
        return self.expected_answers_to(self.loader.served.data)

    def expected_answers_to(self, data: InputData) -> ExpectedAnswers:
        """The expected answers to this load data: those of a converted model in process, else of the server
        itself, asked alone. Raises AccuracyError if these are not as it declares them."""
        prepared, outputs = self.prepared, self.case.model.outputs
        if isinstance(prepared, ConvertedCase):
            limits, batch = self.answer_limits, self.deployment.max_batch_size
            self.say("compute the answers to expect under load", f"{len(data.ids)} samples in process")
            return expect_in_process(outputs, data, prepared.oracle, batch, limits)
        self.say("ask for the answers to expect under load", f"{len(data.ids)} samples alone")
        alone = self.gate_context.answers_to(data)
        for answer, tensor in itertools.product(alone.by_sample.values(), outputs):
            row = answer.get(tensor.name)
            if (problem := why_undeclared(tensor, None if row is None else row[None])) is not None:
                what = f"an answer is not as the configuration declares it: {problem}"
                raise AccuracyError(what, where=self.case)
        # As no cost was measured, these are one limit for all outputs, which noise cannot widen.
        return alone.across_kernels

    def job(self, point: LoadPoint, expected: ExpectedAnswers, request_s: float = 0.0) -> LoadJob:
        """The load generator's job at a load point, with the case as it is loaded now."""
        job = LoadJob(self.loader.served, point, self.settings.shared_memory, request_s)
        return with_expected(job, expected)

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
        if (baseline := as_baseline(self.requested, self.suite_run)) is None:
            return None
        case, settings = baseline
        prepare = functools.partial(prepare_baseline, self.prepared)
        return self.stack.enter_context(CaseRun(case, self.model_run, "baseline", prepare, settings))
