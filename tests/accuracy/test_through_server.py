"""The evaluation data through a server: each sample is sent once and judged by its own answer, whatever the order."""

import dataclasses
import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tritonclient.utils import deserialize_bytes_tensor

from fixtures.accuracy import through_server
from fixtures.accuracy.ledger import accuracy_ledger, score_each_sample
from fixtures.accuracy.stages import evaluate_in_process
from fixtures.accuracy.through_server import evaluate_through_server, mixed_batches
from fixtures.errors import AccuracyError, ProofError
from fixtures.spec import Arrays, Samples
from tests import toy
from tests.accuracy.answering_client import COUNT, Answer, Connect

CASE = toy.case()


# --- answers --------------------------------------------------------------------------------------------------


def test_answers_in_any_order_meet_their_own_samples(connect: Connect) -> None:
    client, server = connect()
    samples = toy.samples(COUNT)

    stage = evaluate_through_server(server, CASE, samples, 4)

    assert stage.decisions.tolist() == samples.labels.tolist()
    assert stage.kept["classes"].tolist() == samples.labels.tolist()
    assert client.order != sorted(client.order), "the answers came in order, so nothing was tried"
    assert stage.requests == len(client.order)


def test_each_sample_is_sent_once_in_batches_up_to_the_largest(connect: Connect) -> None:
    client, server = connect()

    evaluate_through_server(server, CASE, toy.samples(COUNT), 4)

    assert sum(client.sizes) == COUNT
    assert set(client.sizes) == {1, 2, 3, 4}


def test_samples_without_labels_are_decided(connect: Connect) -> None:
    _, server = connect()
    labelled = toy.samples(COUNT)

    stage = evaluate_through_server(server, CASE, Samples(labelled.ids, labelled.load), 4)

    assert stage.decisions.tolist() == labelled.labels.tolist()


def test_no_more_bytes_are_in_flight_than_allowed(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    row_bytes = 2 * toy.CLASSES * 4
    monkeypatch.setattr(through_server, "IN_FLIGHT_BYTES", 6 * row_bytes + 1)
    client, server = connect()

    evaluate_through_server(server, CASE, toy.samples(COUNT), 8)

    assert max(client.sizes) <= 6
    assert 2 <= client.most_rows_in_flight <= 6


def test_no_more_requests_are_in_flight_than_allowed(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(through_server, "IN_FLIGHT", 5)
    client, server = connect()

    evaluate_through_server(server, CASE, toy.samples(COUNT), 1)

    assert client.most_in_flight == 5


def test_progress_reaches_the_last_sample(connect: Connect) -> None:
    _, server = connect()
    said: list[str] = []

    evaluate_through_server(server, CASE, toy.samples(COUNT), 4, said.append)

    assert said[-1] == f"{COUNT} of {COUNT}"


def test_an_answer_to_no_request_is_an_error(connect: Connect) -> None:
    _, server = connect(lambda _answer: Answer("9999", {toy.OUTPUT: toy.rows([0])}))

    with pytest.raises(ProofError, match="answered a request nobody sent, '9999'"):
        evaluate_through_server(server, CASE, toy.samples(COUNT), 4)


def test_the_same_answer_twice_is_an_error(connect: Connect) -> None:
    first: list[str] = []

    def repeat(answer: Answer) -> Answer:
        first.append(answer.id)
        answer.id = first[0]
        return answer

    _, server = connect(repeat)

    with pytest.raises(ProofError, match="answered a request nobody sent"):
        evaluate_through_server(server, CASE, toy.samples(COUNT), 1)


def test_a_failed_request_is_an_error_with_the_log(connect: Connect) -> None:
    _, server = connect(lambda answer: RuntimeError("the model fell over") if answer.id == "7" else answer)

    with pytest.raises(ProofError, match=r"a request failed: the model fell over[^$]*the last words"):
        evaluate_through_server(server, CASE, toy.samples(COUNT), 2)


def test_the_first_failure_is_the_one_reported(connect: Connect) -> None:
    failed: list[str] = []
    may_fail, several_failed = threading.Event(), threading.Event()

    def fail(answer: Answer) -> Exception:
        may_fail.wait(timeout=60)
        failed.append(answer.id)
        if len(failed) > 2:  # those before are reported, as all come from one thread
            several_failed.set()
        return RuntimeError(f"failure of {answer.id}.")

    def load_until_several_failed(indices: Sequence[int]) -> Arrays:
        if indices[0] == 4:
            may_fail.set()
            several_failed.wait(timeout=60)
        return toy.samples(COUNT).load(indices)

    _, server = connect(fail)
    samples = dataclasses.replace(toy.samples(COUNT), load=load_until_several_failed)

    with pytest.raises(ProofError) as caught:
        evaluate_through_server(server, CASE, samples, 1)

    assert f"a request failed: failure of {failed[0]}." in str(caught.value)


def test_an_answer_without_an_output_is_an_error(connect: Connect) -> None:
    _, server = connect(lambda answer: Answer(answer.id, {}))

    with pytest.raises(ProofError, match=f"the answer lacks the output {toy.OUTPUT}"):
        evaluate_through_server(server, CASE, toy.samples(COUNT), 2)


def test_an_unanswered_request_is_an_error(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(through_server, "REQUEST_S", 0.3)
    _, server = connect(lambda answer: None if answer.id == "3" else answer)

    with pytest.raises(ProofError, match="left requests unanswered"):
        evaluate_through_server(server, CASE, toy.samples(COUNT), 2)


def test_an_answer_of_another_length_is_an_error(connect: Connect) -> None:
    _, server = connect(lambda answer: Answer(answer.id, {toy.OUTPUT: toy.rows([0, 1, 2])}))

    with pytest.raises(ProofError, match="the served outputs are 3 results for 1 samples"):
        evaluate_through_server(server, CASE, toy.samples(COUNT), 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda values: values.astype(np.float64), "FP64, and declared FP32"),
        (lambda values: values.argmax(axis=1), "INT64, and declared FP32"),
        (lambda values: values.astype(str).astype(object), "BYTES, and declared FP32"),
        (lambda values: values[:, :2], r"of shape \[2\], and declared \[4\]"),
        (lambda values: values[:, :0], r"of shape \[0\], and declared \[4\]"),
        (lambda values: values[..., None], r"of shape \[4, 1\], and declared \[4\]"),
        (lambda values: values[0, 0], "is one number, and declared"),
    ],
)
def test_an_answer_of_another_type_or_shape_is_scored_by_nobody(
    connect: Connect, change: Callable[[np.ndarray], np.ndarray], said: str
) -> None:
    def spoil(answer: Answer) -> Answer:
        values = answer.as_numpy(toy.OUTPUT)
        assert values is not None
        return Answer(answer.id, {toy.OUTPUT: np.asarray(change(values))})

    _, server = connect(spoil)

    with pytest.raises(AccuracyError, match=said):
        evaluate_through_server(server, CASE, toy.samples(COUNT), 2)


def test_an_answer_that_cannot_be_read_is_an_error_at_once(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Cut(Answer):
        """Texts of which the last is longer than what is there."""

        def as_numpy(self, _name: str) -> np.ndarray:
            return np.asarray(deserialize_bytes_tensor(b"\x04\x00\x00\x00text\x09\x00"))

    monkeypatch.setattr(through_server, "REQUEST_S", 5.0)
    _, server = connect(lambda answer: Cut(answer.id, {}))

    with pytest.raises(ProofError, match=f"output {toy.OUTPUT} cannot be read"):
        evaluate_through_server(server, CASE, toy.samples(COUNT), 2)


def test_a_server_that_swaps_rows_is_caught_by_the_ledger(connect: Connect) -> None:
    def swap(answer: Answer) -> Answer:
        values = answer.as_numpy(toy.OUTPUT)
        assert values is not None
        return Answer(answer.id, {toy.OUTPUT: values[::-1]})

    _, server = connect(swap)
    samples = toy.samples(COUNT)
    framework = evaluate_in_process("framework", CASE.model, toy.network, samples, 8)
    converted = evaluate_in_process("converted", CASE.model, toy.network, samples, 8)

    last = evaluate_through_server(server, CASE, samples, 4)
    stages = (framework, converted, last)
    result = accuracy_ledger(CASE, samples, stages, score_each_sample(CASE, samples, stages))

    wrong = [
        samples.ids[batch[place]]
        for batch in mixed_batches(COUNT, 4)
        for place in range(len(batch))
        if (toy.rows([batch[place]]) != toy.rows([batch[-1 - place]])).any()
    ]
    assert wrong
    assert not result.passed
    assert result.scores[0].served == pytest.approx(1 - len(wrong) / COUNT)
    assert result.disagreements[1].agreement == pytest.approx(1 - len(wrong) / COUNT)
    assert result.disagreements[1].samples == tuple(wrong)
    assert (result.disagreements[1].lost, result.disagreements[1].gained) == (len(wrong), 0)


def test_a_served_value_that_is_no_number_names_its_sample(connect: Connect) -> None:
    def spoil(answer: Answer) -> Answer:
        values = answer.as_numpy(toy.OUTPUT)
        assert values is not None
        return Answer(answer.id, {toy.OUTPUT: values * np.nan if answer.id == "3" else values})

    _, server = connect(spoil)

    with pytest.raises(ProofError) as caught:
        evaluate_through_server(server, CASE, toy.samples(8), 1)

    assert "the served outputs hold NaN or infinity for 1 of 1 samples" in str(caught.value)
    assert f"output {toy.OUTPUT}, first sample toy-003" in str(caught.value)
