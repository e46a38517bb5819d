"""The served model is right, as far as this can be checked without labels."""

from collections.abc import Callable

import pytest

ProveGate = Callable[[str], None]


@pytest.mark.stage("answers")
def test_same_answer_again(prove_gate: ProveGate) -> None:
    """A request that is sent again, after others, gets the same answer."""
    prove_gate("repeated")


@pytest.mark.stage("answers")
def test_same_answer_in_flight(prove_gate: ProveGate) -> None:
    """A request gets the same answer alone and with up to 64 in flight."""
    prove_gate("in-flight")


@pytest.mark.stage("answers")
def test_same_answer_in_batches(prove_gate: ProveGate) -> None:
    """A sample gets the same answer alone and in batches of every size, at any place, beside any others."""
    prove_gate("batches")


@pytest.mark.stage("answers")
def test_same_answer_over_every_way(prove_gate: ProveGate) -> None:
    """A request gets the same answer over gRPC and HTTP, with and without shared memory."""
    prove_gate("transports")


@pytest.mark.stage("answers")
def test_declared_output(prove_gate: ProveGate) -> None:
    """Answers have the outputs, types and shapes that are declared, and finite numbers."""
    prove_gate("declared")


@pytest.mark.stage("answers")
def test_largest_batch(prove_gate: ProveGate) -> None:
    """Batches of the declared sizes are answered, and a batch with one row more is refused."""
    prove_gate("largest-batch")


@pytest.mark.stage("answers")
def test_malformed_request(prove_gate: ProveGate) -> None:
    """A malformed request is refused, and the next request gets its right answer."""
    prove_gate("malformed")


@pytest.mark.stage("answers")
def test_recorded_answers(prove_gate: ProveGate, recorded_answers: object) -> None:
    """The answers are those that --record-answers recorded."""
    del recorded_answers  # a parameter, so that the test is left out if there are none
    prove_gate("recorded")


@pytest.mark.stage("reload")
def test_same_answer_after_a_reload(prove_gate: ProveGate) -> None:
    """A request gets the same answer after the model was loaded again."""
    prove_gate("reloaded")
