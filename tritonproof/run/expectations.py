"""What a case's answers are compared with, and within which limits."""

import contextlib
import functools
import math
from dataclasses import dataclass

from tritonproof.accuracy import ledger, precisions
from tritonproof.accuracy.answer_comparison import AnswerCheck
from tritonproof.accuracy.limits import MIN_NOISE, AnswerLimits, limits_per_answer
from tritonproof.accuracy.precision_cost import PrecisionCost
from tritonproof.accuracy.stages import (
    StageAnswers,
    compare_conversion,
    evaluate_in_process,
    evaluation_batch,
)
from tritonproof.client.input_data import InputData
from tritonproof.gates.context import AnswersFolder, GateContext, ask_one_by_one
from tritonproof.measure.verifying import make_answer_check
from tritonproof.record import schema
from tritonproof.run.loader import Loader
from tritonproof.run.once import once, once_sharing_machine
from tritonproof.run.prepared_case import CaseScope, PreparedCase


@dataclass(eq=False)
class Expectations:
    """The expected answers to a prepared case, and their limits. Each value is computed once."""

    loader: Loader

    @property
    def scope(self) -> CaseScope:
        return self.loader.scope

    @property
    def prepared(self) -> PreparedCase:
        return self.loader.prepared

    def hold_machine(self, *, exclusive: bool) -> contextlib.AbstractContextManager[None]:
        return self.scope.hold_machine(exclusive=exclusive)

    @property
    def arithmetic_precision(self) -> str:
        """The precision that the case computes in."""
        return precisions.arithmetic_precision(self.prepared.case, self.prepared.deployment)

    @once_sharing_machine
    def precision_cost(self) -> PrecisionCost | None:
        """The cost of the case's precision, from which limits follow; None without a framework."""
        is_known = not self.prepared.case.model.from_repository
        return self.scope.model_run.precision_cost(self.arithmetic_precision) if is_known else None

    @once_sharing_machine
    def converted_answers(self) -> StageAnswers:
        """The converted model's answers to the whole evaluation set, in process."""
        prepared, say = self.prepared, functools.partial(self.scope.say, "evaluate in process")
        model, oracle, batch = prepared.case.model, prepared.oracle, evaluation_batch(prepared.deployment)
        samples = prepared.samples
        return evaluate_in_process("converted", model, oracle, samples, batch, say)

    @once_sharing_machine
    def conversion(self) -> schema.Conversion:
        """The comparison of the converted model, in process, with the framework's."""
        model_run = self.scope.model_run
        return compare_conversion(
            self.prepared.case,
            self.arithmetic_precision,
            model_run.framework_answers,
            self.converted_answers,
            self.prepared.samples.ids,
            self.precision_cost,
            trained=model_run.framework_model.trained,
            on_progress=functools.partial(self.scope.say, "compare with the framework"),
        )

    @once
    def why_no_score(self) -> str | None:
        """Why the task metric cannot be computed, or None; an InputError if an option limits that metric."""
        if self.prepared.case.model.from_repository:
            return None
        case, samples, settings = self.prepared.case, self.prepared.samples, self.scope.settings
        has_dataset, source = case.model.name in settings.dataset, self.scope.model_run.source_model
        reason = ledger.why_no_score(case.model, source, samples, has_dataset=has_dataset)
        settings.thresholds.check_measured(case, reason)
        return reason

    @once
    def answer_limits(self) -> AnswerLimits:
        """The limits of two answers to one sample if other kernels may compute them."""
        outputs, count = self.prepared.case.model.outputs, len(self.prepared.samples)
        elements = {tensor.name: count * math.prod(map(abs, tensor.shape)) for tensor in outputs}
        return limits_per_answer(self.prepared.case, self.arithmetic_precision, self.precision_cost, elements)

    @once
    def gate_context(self) -> GateContext:
        """What gates get: the case as it is loaded online, and its answers to samples sent alone."""
        loader, case = self.loader, self.prepared.case
        loaded, limits = loader.ensure_loaded("online"), self.answer_limits
        tolerance, served = precisions.tolerance_of(case, self.arithmetic_precision), loader.served
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
            # The accuracy step sends all samples of a converted case.
            unsent=self.prepared.samples if case.model.from_repository else None,
            can_share_memory=self.scope.settings.shared_memory == "system",
            answers_folder=self.answers_folder,
        )

    @property
    def answers_folder(self) -> AnswersFolder | None:
        """The folder of the answers that other runs recorded, or this one records; None if none is given."""
        settings, name = self.scope.settings, str(self.scope.requested)
        if settings.answers is None:
            return None
        on_wait = self.scope.progress.waits(f"{name}: wait for answers that another run records")
        run_id = self.scope.suite_run.identity.id if settings.record_answers else None
        return AnswersFolder(settings.answers, name, run_id, on_wait)

    @once_sharing_machine
    def answer_check(self) -> AnswerCheck:
        """The check of the case's answers under load."""
        return self.check_of(self.loader.served.data)

    def check_of(self, data: InputData) -> AnswerCheck:
        """The check of the case's answers to this load data."""
        case, limits, oracle = self.prepared.case, self.answer_limits, self.prepared.oracle
        samples = f"{len(data.ids)} samples {'alone' if case.model.from_repository else 'in process'}"
        self.scope.say("compute the answers to expect under load", samples)
        return make_answer_check(case, data, oracle, self.prepared.deployment.max_batch_size, limits)
