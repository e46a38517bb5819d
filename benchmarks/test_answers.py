"""The served model is right, as far as this can be checked without labels. A model of sequences, or with any
number of answers, has a conversation in place of the other tests."""

from collections.abc import Callable

import pytest

from fixtures.recorder import Recorder
from fixtures.steps import STEPS
from tritonproof.accuracy.answer_comparison import AnswerFinding
from tritonproof.record.schema import GateResult
from tritonproof.reports.correctness_text import gate_text
from tritonproof.reports.phrases import sentence
from tritonproof.run.case_run import CaseRun
from tritonproof.run.proving import prove_conversation, prove_recorded, reproduce, run_gate


def gate_test(
    name: str, prove: Callable[[CaseRun], AnswerFinding[GateResult]] | None = None
) -> Callable[[CaseRun, Recorder], None]:
    """The test of a gate, by `prove` if its check takes more than a `GateContext`. It asserts what the gate
    demands, as its docstring says."""

    @pytest.mark.step(name)
    def test(run: CaseRun, recorder: Recorder) -> None:
        finding = run_gate(run, name) if prove is None else prove(run)
        recorder.record(gates=(finding.result,))
        recorder.report.show(gate_text(finding.result))
        shown = reproduce(run, finding)
        if finding.result.fault:
            raise run.accuracy.error(finding.result.fault, where=shown or None)

    test.__doc__ = sentence(STEPS[name].demand)
    return test


test_in_flight = gate_test("in-flight")
test_batches = gate_test("batches")
test_transport = gate_test("transport")
test_declared = gate_test("declared")
test_largest_batch = gate_test("largest-batch")
test_repeated = gate_test("repeated")
test_reload = gate_test("reload")
test_recorded = gate_test("recorded", prove_recorded)
test_conversation = gate_test("conversation", prove_conversation)
