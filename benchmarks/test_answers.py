"""The served model is right, as far as this can be checked without labels. A model of sequences, or with any
number of answers, has a conversation in place of the other tests."""

import pytest

from fixtures.recorder import Recorder
from tritonproof.accuracy.answer_comparison import AnswerFinding
from tritonproof.record.correctness import GateResult
from tritonproof.reports.correctness_text import gate_text
from tritonproof.run.case_run import CaseRun
from tritonproof.run.proving import prove_conversation, prove_recorded, reproduce, run_gate


def record_finding(run: CaseRun, recorder: Recorder, finding: AnswerFinding[GateResult]) -> None:
    """Record what a gate has found. Raises AccuracyError if something is wrong."""
    recorder.record(gates=(finding.result,))
    recorder.report.show(gate_text(finding.result))
    shown = reproduce(run, finding)
    if finding.result.fault:
        raise run.accuracy_error(finding.result.fault, where=shown or None)


@pytest.mark.step("repeated")
def test_repeated(run: CaseRun, recorder: Recorder) -> None:
    """A request that is sent again, after others, gets the same answer."""
    record_finding(run, recorder, run_gate(run, "repeated"))


@pytest.mark.step("in-flight")
def test_in_flight(run: CaseRun, recorder: Recorder) -> None:
    """A request gets the same answer alone and with up to 64 in flight."""
    record_finding(run, recorder, run_gate(run, "in-flight"))


@pytest.mark.step("batches")
def test_batches(run: CaseRun, recorder: Recorder) -> None:
    """A sample gets the same answer alone and in batches of many sizes, at any position, beside others."""
    record_finding(run, recorder, run_gate(run, "batches"))


@pytest.mark.step("transport")
def test_transport(run: CaseRun, recorder: Recorder) -> None:
    """A request gets the same answer over gRPC and HTTP, with and without shared memory."""
    record_finding(run, recorder, run_gate(run, "transport"))


@pytest.mark.step("declared")
def test_declared(run: CaseRun, recorder: Recorder) -> None:
    """Answers have the outputs, types and shapes that are declared, and finite numbers."""
    record_finding(run, recorder, run_gate(run, "declared"))


@pytest.mark.step("largest-batch")
def test_largest_batch(run: CaseRun, recorder: Recorder) -> None:
    """Batches of the declared sizes are answered, and a batch with one row more is refused."""
    record_finding(run, recorder, run_gate(run, "largest-batch"))


@pytest.mark.step("recorded")
def test_recorded(run: CaseRun, recorder: Recorder) -> None:
    """The answers are those that --record-answers recorded."""
    record_finding(run, recorder, prove_recorded(run))


@pytest.mark.step("reload")
def test_reload(run: CaseRun, recorder: Recorder) -> None:
    """A request gets the same answer after the model was loaded again."""
    record_finding(run, recorder, run_gate(run, "reload"))


@pytest.mark.step("conversation")
def test_conversation(run: CaseRun, recorder: Recorder) -> None:
    """The same requests get the same answers again, also in turns with those of another sequence."""
    record_finding(run, recorder, prove_conversation(run))
