"""How right the answers of a case must be: beside the framework's, by labels, and beside other answers."""

import functools
import math

from tritonproof.accuracy import ledger, stages
from tritonproof.accuracy.limits import CaseArithmetic, CaseLimits
from tritonproof.accuracy.precisions import arithmetic_precision
from tritonproof.base.errors import AccuracyError
from tritonproof.record.schema import Conversion
from tritonproof.run.loader import Loader
from tritonproof.run.once import once, once_sharing_machine


class CaseAccuracy:
    """What a prepared case's answers are compared with, and how far they may differ, found when asked for."""

    def __init__(self, loader: Loader) -> None:
        self.loader, prepared, scope = loader, loader.prepared, loader.scope
        self.is_converted = prepared.open_in_process is not None
        self.prepared, self.model_run, self.say = prepared, scope.model_run, scope.say
        self.case, self.samples, self.settings = prepared.case, prepared.samples, scope.settings
        self.hold_machine = scope.model_run.hold_machine

    def error(self, what: str, *, where: object = None) -> AccuracyError:
        """The error for wrong answers; on made-up inputs, it says, even a right model may be unstable."""
        fix = None
        if self.samples.are_synthetic:
            name = self.case.model.name
            fix = f"its inputs are made up; see whether it holds with real ones: --samples {name}=DIR"
        return AccuracyError(what, where=where, fix=fix)

    @once_sharing_machine
    def arithmetic(self) -> CaseArithmetic:
        """How the case computes, with the cost of its precision, which this measures in the framework."""
        precision = arithmetic_precision(self.case, self.prepared.deployment)
        cost = self.model_run.precision_cost(precision) if self.is_converted else None
        return CaseArithmetic(self.case, precision, cost)

    @once_sharing_machine
    def converted_answers(self) -> stages.StageAnswers:
        """The converted model's answers to the whole evaluation set, in process."""
        infer, batch = self.loader.infer_in_process, self.model_run.batch
        say = functools.partial(self.say, "evaluate in process")
        return stages.evaluate_in_process("converted", self.case.model, infer, self.samples, batch, say)

    @once_sharing_machine
    def conversion(self) -> Conversion | None:
        """The comparison of the converted model, in process, with the framework's; None of --repository."""
        if not self.is_converted:
            return None
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
        """Why the task metric cannot be computed, or None; an InputError if an option limits that metric."""
        if not self.is_converted:
            return None
        model, settings = self.case.network_model, self.settings
        framework_model, has_dataset = self.model_run.framework_model_on_cpu, model.name in settings.dataset
        reason = ledger.why_no_score(model, framework_model, self.samples, has_dataset=has_dataset)
        settings.thresholds.check_measured(self.case, reason)
        return reason

    @once
    def answer_limits(self) -> CaseLimits:
        """How far the case's answers may be from other answers to the same samples."""
        outputs, count = self.case.model.outputs, len(self.samples)
        elements = {tensor.name: count * math.prod(map(abs, tensor.shape)) for tensor in outputs}
        return self.arithmetic.case_limits(elements)
