"""The served model is right, as far as this can be checked without labels. A model of sequences, or with any
number of answers, has a conversation in place of the other tests."""

import pytest

from fixtures.recorder import Recorder
from tritonproof.base.errors import AccuracyError
from tritonproof.reports.correctness_text import conversation_failure, conversation_text, gate_text
from tritonproof.run.case_run import CaseRun
from tritonproof.run.proving import prove_conversation, reproduce, run_gate


def prove_gate(run: CaseRun, recorder: Recorder, gate_name: str) -> None:
    """Record what a gate such as "batches" finds. Raises AccuracyError if something is wrong."""
    gate_result, mismatch = run_gate(run, gate_name)
    recorder.record(gates=(gate_result,))
    recorder.show(gate_text(gate_result))
    shown = reproduce(run, gate_result, mismatch)
    if gate_result.fault:
        raise run.accuracy_error(gate_result.fault, where=shown or None)


@pytest.mark.step("gates")
def test_same_answer_again(run: CaseRun, recorder: Recorder) -> None:
    """A request that is sent again, after others, gets the same answer."""
    prove_gate(run, recorder, "repeated")


@pytest.mark.step("gates")
def test_same_answer_in_flight(run: CaseRun, recorder: Recorder) -> None:
    """A request gets the same answer alone and with up to 64 in flight."""
    prove_gate(run, recorder, "in-flight")


@pytest.mark.step("gates")
def test_same_answer_in_batches(run: CaseRun, recorder: Recorder) -> None:
    """A sample gets the same answer alone and in batches of all sizes, at any position, beside any others."""
    prove_gate(run, recorder, "batches")


@pytest.mark.step("gates")
def test_same_answer_over_every_way(run: CaseRun, recorder: Recorder) -> None:
    """A request gets the same answer over gRPC and HTTP, with and without shared memory."""
    prove_gate(run, recorder, "transports")


@pytest.mark.step("gates")
def test_declared_output(run: CaseRun, recorder: Recorder) -> None:
    """Answers have the outputs, types and shapes that are declared, and finite numbers."""
    prove_gate(run, recorder, "declared")


@pytest.mark.step("gates")
def test_largest_batch(run: CaseRun, recorder: Recorder) -> None:
    """Batches of the declared sizes are answered, and a batch with one row more is refused."""
    prove_gate(run, recorder, "largest-batch")


@pytest.mark.step("recorded")
def test_recorded_answers(run: CaseRun, recorder: Recorder) -> None:
    """The answers are those that --record-answers recorded."""
    prove_gate(run, recorder, "recorded")


@pytest.mark.step("reload")
def test_same_answer_after_a_reload(run: CaseRun, recorder: Recorder) -> None:
    """A request gets the same answer after the model was loaded again."""
    prove_gate(run, recorder, "reload")


@pytest.mark.step("conversation")
def test_conversation(run: CaseRun, recorder: Recorder) -> None:
    """The same messages get the same answers again, also in turns with another sequence's messages."""
    conversation = prove_conversation(run)
    recorder.record(conversation=conversation)
    recorder.show(conversation_text(conversation))
    if failure := conversation_failure(conversation):
        raise AccuracyError(failure)
