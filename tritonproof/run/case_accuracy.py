"""How right the answers of a case must be: beside the framework's, by labels, and beside other answers."""

import functools
import math
from dataclasses import dataclass

from tritonproof.accuracy import ledger, stages
from tritonproof.accuracy.limits import CaseArithmetic, CaseLimits
from tritonproof.accuracy.precisions import arithmetic_precision
from tritonproof.base.errors import AccuracyError
from tritonproof.record.correctness import Conversion
from tritonproof.run.loader import Loader
from tritonproof.run.once import once


@dataclass(eq=False)
class CaseAccuracy:
    """What a prepared case's answers are compared with, and how far they may differ, found when asked for."""

    loader: Loader

    def error(self, what: str, *, where: object = None) -> AccuracyError:
        """The error for wrong answers; on made-up inputs, it says, even a right model may be unstable."""
        prepared, fix = self.loader.prepared, None
        if prepared.samples.are_synthetic:
            name = prepared.case.model.name
            fix = f"its inputs are made up; see whether it holds with real ones: --samples {name}=DIR"
        return AccuracyError(what, where=where, fix=fix)

    @once
    def arithmetic(self) -> CaseArithmetic:
        """How the case computes, with the cost of its precision, which this measures in the framework."""
        prepared, model_run = self.loader.prepared, self.loader.scope.model_run
        precision = arithmetic_precision(prepared.case, prepared.deployment)
        cost = None if prepared.open_in_process is None else model_run.precision_cost(precision)
        return CaseArithmetic(prepared.case, precision, cost)

    @once
    def converted_answers(self) -> stages.StageAnswers:
        """The converted model's answers to the whole evaluation set, in process."""
        prepared, scope = self.loader.prepared, self.loader.scope
        model, samples, batch = prepared.case.model, prepared.samples, scope.model_run.batch
        say = functools.partial(scope.say, "evaluate in process")
        with scope.model_run.hold_machine(exclusive=False):
            infer = self.loader.infer_in_process
            return stages.evaluate_in_process("converted", model, infer, samples, batch, say)

    @once
    def conversion(self) -> Conversion | None:
        """The comparison of the converted model, in process, with the framework's; None of --repository."""
        prepared, scope, model_run = self.loader.prepared, self.loader.scope, self.loader.scope.model_run
        if prepared.open_in_process is None:
            return None
        with model_run.hold_machine(exclusive=False):
            return stages.compare_conversion(
                model_run.framework_answers,
                self.converted_answers,
                prepared.samples.ids,
                self.arithmetic,
                trained=model_run.framework_model_on_target.trained,
                on_progress=functools.partial(scope.say, "compare with the framework"),
            )

    @once
    def why_no_score(self) -> str | None:
        """Why the task metric cannot be computed, or None; an InputError if an option limits that metric."""
        prepared, scope = self.loader.prepared, self.loader.scope
        if prepared.open_in_process is None:
            return None
        model, settings = prepared.case.network_model, scope.settings
        framework_model, has_dataset = scope.model_run.framework_model_on_cpu, model.name in settings.dataset
        reason = ledger.why_no_score(model, framework_model, prepared.samples, has_dataset=has_dataset)
        settings.thresholds.check_measured(prepared.case, reason)
        return reason

    @once
    def answer_limits(self) -> CaseLimits:
        """How far the case's answers may be from other answers to the same samples."""
        outputs, count = self.loader.prepared.case.model.outputs, len(self.loader.prepared.samples)
        elements = {tensor.name: count * math.prod(map(abs, tensor.shape)) for tensor in outputs}
        return self.arithmetic.case_limits(elements)
