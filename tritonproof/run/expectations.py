"""What a case's answers are compared with, and within which limits."""

import functools
import math
from typing import TYPE_CHECKING

from tritonproof.accuracy.answer_comparison import AnswerCheck
from tritonproof.accuracy.conversion import compare_conversion
from tritonproof.accuracy.ledger import missing_options
from tritonproof.accuracy.limits import MIN_NOISE, AnswerLimits, limits_per_answer
from tritonproof.accuracy.precision_cost import PrecisionCost
from tritonproof.accuracy.precisions import tolerance_of
from tritonproof.accuracy.stages import StageAnswers, evaluate_in_process, evaluation_batch
from tritonproof.client.input_data import InputData
from tritonproof.gates.context import AnswersFolder, GateContext, ask_one_by_one
from tritonproof.measure.verifying import make_answer_check
from tritonproof.record import schema
from tritonproof.run.once import once, once_sharing_machine

if TYPE_CHECKING:
    from tritonproof.run.case_run import CaseRun


class Expectations:
    """The expected answers to a run's case, and their limits. Each value is computed once."""

    def __init__(self, run: "CaseRun") -> None:
        self.run, self.hold_machine = run, run.hold_machine

    @property
    def arithmetic_precision(self) -> str:
        """The precision that the case computes in: tf32 for FP32 whose products a GPU computes in TF32."""
        return "tf32" if self.run.deployment.tf32 else self.run.case.precision

    @once_sharing_machine
    def precision_cost(self) -> PrecisionCost | None:
        """The cost of the case's precision, from which limits follow; None without a framework."""
        is_known = not self.run.case.model.from_repository
        return self.run.model_run.precision_cost(self.arithmetic_precision) if is_known else None

    @once_sharing_machine
    def converted_answers(self) -> StageAnswers:
        """The converted model's answers to the whole evaluation set, in process."""
        run, say = self.run, functools.partial(self.run.say, "evaluate in process")
        oracle, batch = run.prepared.oracle.answer, evaluation_batch(run.deployment)
        return evaluate_in_process(
            "converted", run.case.model, oracle, run.samples, batch, say, with_outputs=True
        )

    @once_sharing_machine
    def conversion(self) -> schema.Conversion:
        """The comparison of the converted model, in process, with the framework's."""
        run = self.run
        return compare_conversion(
            run.case,
            self.arithmetic_precision,
            run.model_run.framework_answers,
            self.converted_answers,
            run.samples.ids,
            self.precision_cost,
            trained=run.model_run.framework_model.trained,
            on_progress=functools.partial(run.say, "compare with the framework"),
        )

    @once
    def why_no_score(self) -> str | None:
        """Why the model's task metric cannot be computed, in a sentence; None if it can. Raises InputError if
        it cannot and an option sets a limit for it."""
        run, model = self.run, self.run.case.model
        has_dataset = model.name in run.settings.dataset
        reason = missing_options(model, run.model_run.cpu_model, run.samples, has_dataset=has_dataset)
        run.settings.thresholds.check_measured(run.case, reason)
        return reason

    @once
    def answer_limits(self) -> AnswerLimits:
        """The limits of two answers to one sample if other kernels may compute them."""
        outputs, count = self.run.case.model.outputs, len(self.run.samples)
        elements = {tensor.name: count * math.prod(map(abs, tensor.shape)) for tensor in outputs}
        return limits_per_answer(self.run.case, self.arithmetic_precision, self.precision_cost, elements)

    @once
    def gate_context(self) -> GateContext:
        """What gates get: the case as it is loaded online, and its answers to samples sent alone."""
        loader, case = self.run.loader, self.run.case
        loaded, limits = loader.ensure_loaded("online"), self.answer_limits
        tolerance, served = tolerance_of(case, self.arithmetic_precision), loader.served
        min_noise = max(MIN_NOISE, tolerance.max_relative_error if tolerance.is_given else 0.0)
        loader.leave_gpu()  # which the limits may have used
        singles = ask_one_by_one(served, limits, min_noise)
        return GateContext(
            served,
            loaded,
            singles,
            limits,
            min_noise,
            kernels_may_change=case.answers_on == "cuda",
            remaining_data=self.run.prepared.remaining_data,
            can_share_memory=self.run.settings.shared_memory == "system",
            answers_folder=self.answers_folder,
        )

    @property
    def answers_folder(self) -> AnswersFolder | None:
        """The folder of the answers that other runs recorded, or this one records; None if none is given."""
        run, name = self.run, str(self.run.requested)
        if run.settings.answers is None:
            return None
        run_id = run.suite_run.run_id if run.settings.record_answers else None
        on_wait = run.progress.waits(f"{name}: wait for answers that another run records")
        return AnswersFolder(run.settings.answers, name, run_id, on_wait)

    @once_sharing_machine
    def answer_check(self) -> AnswerCheck:
        """The check of the case's answers under load."""
        return self.check_of(self.run.loader.served.data)

    def check_of(self, data: InputData) -> AnswerCheck:
        """The check of the case's answers to this load data."""
        run, limits, oracle = self.run, self.answer_limits, self.run.prepared.oracle
        run.say("compute the answers to expect under load", f"{len(data.ids)} samples {oracle.expected_from}")
        return make_answer_check(run.case, data, oracle, run.deployment.max_batch_size, limits)
