"""A run of a case: each value that proving and measuring it needs, found when first asked for and kept for
the length of a block. Other modules have functions that take a run, such as `measure_point`."""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from tritonproof.accuracy import ledger, stages
from tritonproof.accuracy.answer_comparison import AnswerFinding, ExpectedAnswers
from tritonproof.accuracy.limits import CaseArithmetic, CaseLimits
from tritonproof.accuracy.outputs import why_undeclared
from tritonproof.accuracy.precisions import arithmetic_precision
from tritonproof.base.errors import AccuracyError, ProofError
from tritonproof.build.builds import CaseBuild
from tritonproof.client.input_data import InputData
from tritonproof.gates.context import GateContext, ask_one_by_one
from tritonproof.host import machine
from tritonproof.measure.passes import LoadJob
from tritonproof.measure.verifying import expect_in_process, with_expected
from tritonproof.record import correctness, setup, speed
from tritonproof.run.loader import Loader
from tritonproof.run.model_run import ModelRun
from tritonproof.run.once import forget_all, is_made, once
from tritonproof.run.prepared_case import CaseScope, PreparedCase, Role
from tritonproof.serve.described_model import DescribedModel
from tritonproof.serve.server import Server
from tritonproof.settings.case_settings import load_points
from tritonproof.settings.settings import Settings
from tritonproof.spec import Case, Samples


class MeasuredPoint(NamedTuple):
    """A load point as it was measured, with the latency of every request that counts."""

    result: speed.PointResult
    latencies_s: Sequence[float]


class BaselineResult(NamedTuple):
    """What comparing a case with its baseline finds: in the answers, and in all else."""

    finding: AnswerFinding[correctness.GateResult]
    comparison: speed.BaselineComparison


def _ended(scope: CaseScope) -> NoReturn:
    raise RuntimeError(f"{scope.label}: the block of this run has ended")


class CaseRun(CaseScope, contextlib.AbstractContextManager["CaseRun"]):
    """A case for the duration of a block, `with run_of_case(case, model_run) as run`. Steps ask it for the
    case, prepared and loaded, for its accuracy, and for what load needs. The end of the block frees all."""

    def __init__(
        self,
        requested: Case,
        model_run: ModelRun,
        settings: Settings,
        prepare: Callable[[CaseScope], PreparedCase],
        find_baseline: Callable[["CaseRun"], "CaseRun | None"] = lambda _run: None,
        role: Role = "",
    ) -> None:
        """`prepare` is called when a step first needs the prepared case. It completes the case: only a server
        tells what inputs a model of --repository has."""
        super().__init__(requested, model_run, settings, role)
        self._prepare, self._find_baseline = prepare, find_baseline
        # What steps have found, for later steps and when they are asked again.
        self.measured: dict[speed.LoadPoint, MeasuredPoint | ProofError] = {}
        self.baseline_result: BaselineResult | None = None

    def __exit__(self, *error: Any) -> None:
        if is_made(self, "loader"):  # someone may keep it
            forget_all(self.loader)
        forget_all(self)
        self._prepare = _ended
        self.stack.__exit__(*error)

    @once
    def prepared(self) -> PreparedCase:
        """The prepared case: converted, or served from its repository, as the run's role demands."""
        return self._prepare(self)

    @once
    def loader(self) -> Loader:
        return Loader(self.prepared, self)

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
    def deployment(self) -> setup.Deployment:
        return self.prepared.deployment

    @property
    def described(self) -> DescribedModel | None:
        """What the server says of a model of --repository; None for a converted case."""
        return self.prepared.described

    @property
    def machine(self) -> setup.Machine:
        return machine.stamp(self.requested.target.device, is_client=self.settings.triton.is_remote)

    def check_running(self) -> None:
        """Raise ProofError if the case's server, once it was started, has ended by itself."""
        if is_made(self, "prepared") and is_made(self.prepared, "server"):
            self.server.check_running()

    # --- its accuracy ---------------------------------------------------------------------------------------

    @once
    def arithmetic(self) -> CaseArithmetic:
        """How the case computes, with the cost of its precision, which this measures in the framework."""
        precision = arithmetic_precision(self.case, self.deployment)
        cost = self.model_run.precision_cost(precision) if self.described is None else None
        return CaseArithmetic(self.case, precision, cost)

    @once
    def converted_answers(self) -> stages.StageAnswers:
        """The converted model's answers to the whole evaluation set, in process."""
        model, samples, batch = self.case.model, self.samples, self.model_run.batch
        say = functools.partial(self.say, "evaluate in process")
        with self.model_run.hold_machine(exclusive=False):
            infer = self.loader.infer_in_process
            return stages.evaluate_in_process("converted", model, infer, samples, batch, say)

    @once
    def conversion(self) -> correctness.Conversion | None:
        """The converted model, in process, compared with the framework's; None for a --repository model."""
        if self.described is not None:
            return None
        with self.model_run.hold_machine(exclusive=False):
            return stages.compare_conversion(
                self.model_run.framework_answers,
                self.converted_answers,
                self.samples.ids,
                self.arithmetic,
                trained=self.model_run.framework_model_on_target.trained,
                on_progress=functools.partial(self.say, "compare with the framework"),
            )

    @once
    def why_no_score(self) -> str | None:
        """Why the task metric cannot be computed, or None. Raises InputError if an option limits it."""
        if self.described is not None:
            return None
        model, framework_model = self.case.network_model, self.model_run.framework_model_on_cpu
        has_dataset = model.name in self.settings.dataset
        reason = ledger.why_no_score(model, framework_model, self.samples, has_dataset=has_dataset)
        self.settings.thresholds.check_measured(self.case, reason)
        return reason

    @once
    def answer_limits(self) -> CaseLimits:
        """How far the case's answers may be from other answers to the same samples."""
        count = len(self.samples)
        elements = {
            tensor.name: count * math.prod(map(abs, tensor.shape)) for tensor in self.case.model.outputs
        }
        return self.arithmetic.case_limits(elements)

    def accuracy_error(self, what: str, *, where: object = None) -> AccuracyError:
        """The error for wrong answers; for made-up inputs it says that even a right model may be unstable."""
        fix = None
        if self.samples.are_synthetic:
            name = self.case.model.name
            fix = f"its inputs are made up; see whether it holds with real ones: --samples {name}=DIR"
        return AccuracyError(what, where=where, fix=fix)

    # --- what load needs ------------------------------------------------------------------------------------

    @once
    def gate_context(self) -> GateContext:
        """What gates get: the case as it is loaded online, and its answers to samples sent alone."""
        loaded, limits = self.loader.ensure_loaded("online"), self.answer_limits
        served = self.loader.served
        self.loader.leave_gpu()  # `answer_limits` may have used its memory
        return GateContext(
            served,
            loaded,
            ask_one_by_one(served, limits),
            limits,
            kernels_may_change=self.case.answers_on == "cuda",
            # The accuracy step sends all samples of a converted case.
            evaluation_samples=None if self.described is None else self.samples,
            can_share_memory=self.settings.shared_memory == "system",
        )

    @once
    def expected_answers(self) -> ExpectedAnswers:
        """The answers that are expected of the case under load."""
        with self.model_run.hold_machine(exclusive=False):
            return self.expected_answers_to(self.loader.served.data)

    def expected_answers_to(self, data: InputData) -> ExpectedAnswers:
        """The expected answers to this load data: the converted model's in process or, for a --repository
        model, the server's own to samples alone. Raises AccuracyError if the server's are not as declared."""
        outputs = self.case.model.outputs
        if self.described is None:
            infer, limits = self.loader.infer_in_process, self.answer_limits
            self.say("compute the answers to expect under load", f"{len(data.ids)} samples in process")
            return expect_in_process(outputs, data, infer, self.deployment.max_batch_size, limits)
        self.say("ask for the answers to expect under load", f"{len(data.ids)} samples alone")
        alone = self.gate_context.answers_to(data)
        for answer, tensor in itertools.product(alone.by_sample.values(), outputs):
            row = answer.get(tensor.name)
            if (problem := why_undeclared(tensor, None if row is None else row[None])) is not None:
                what = f"an answer is not as the configuration declares it: {problem}"
                raise AccuracyError(what, where=self.case)
        # As no cost was measured, all outputs share one limit, which noise cannot widen.
        return alone.across_kernels

    def job(self, point: speed.LoadPoint, expected: ExpectedAnswers, request_s: float = 0.0) -> LoadJob:
        """The load generator's job at a load point, with the case as it is loaded now."""
        job = LoadJob(self.loader.served, point, self.settings.shared_memory, request_s)
        return with_expected(job, expected)

    def points(self, scenario: setup.Scenario) -> list[speed.LoadPoint]:
        """The load points of a scenario, which are measured together."""
        if (selected := self.model_run.suite_run.selected_points) is None:
            points = load_points(self.case, scenario, self.settings)
        else:
            points = [point for point in selected.get(str(self.requested), ()) if point.scenario == scenario]
        # For a model of --repository only the server knows the largest batch.
        return [point for point in points if point.batch <= self.deployment.max_batch_size]

    @once
    def baseline(self) -> "CaseRun | None":
        """The run of the baseline on its own server; None without a baseline, or if it lacks the model."""
        baseline = self._find_baseline(self)
        return None if baseline is None else self.stack.enter_context(baseline)
