"""Evaluation through a server sends each sample once and judges it by its own answer, in any order."""

from collections.abc import Callable

import numpy as np
import pytest
from tritonclient.utils import deserialize_bytes_tensor

from fixtures.accuracy import through_server
from fixtures.accuracy.ledger import accuracy_ledger, score_each_sample
from fixtures.accuracy.stages import evaluate_in_process
from fixtures.accuracy.through_server import evaluate_through_server, mixed_batches
from fixtures.errors import AccuracyError, ProofError
from fixtures.spec import Samples
from tests import toy
from tests.accuracy.conftest import COUNT, Answer, Connect

CASE = toy.case()


@pytest.mark.parametrize("largest", [1, 2, 8, 128])
@pytest.mark.parametrize("count", [1, 7, 500])
def test_mixed_batches_cover_samples_once_and_repeat(count: int, largest: int) -> None:
    batches = list(mixed_batches(count, largest))

    assert [index for batch in batches for index in batch] == list(range(count))
    sizes = {len(batch) for batch in batches}
    assert sizes <= set(range(1, largest + 1))
    assert count < 500 or largest > 8 or sizes == set(range(1, largest + 1))
    assert list(mixed_batches(count, largest)) == batches


def test_bytes_in_flight_are_limited(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    row_bytes = 2 * toy.CLASSES * 4
    monkeypatch.setattr(through_server, "IN_FLIGHT_BYTES", 6 * row_bytes + 1)
    client, server = connect()

    evaluate_through_server(server, CASE, toy.samples(COUNT), 8)

    assert max(client.sizes) <= 6
    assert 2 <= client.most_rows_in_flight <= 6


@pytest.mark.parametrize("has_labels", [True, False])
def test_out_of_order_answers_match_their_samples(has_labels: bool, connect: Connect) -> None:
    client, server = connect()
    labelled = toy.samples(COUNT)
    samples = labelled if has_labels else Samples(labelled.ids, labelled.load)
    progress: list[str] = []

    stage = evaluate_through_server(server, CASE, samples, 4, progress.append)

    assert stage.decisions.tolist() == stage.kept["classes"].tolist() == labelled.labels.tolist()
    assert client.order != sorted(client.order), "the answers came in order, so nothing was tried"
    assert stage.requests == len(client.order)
    assert (sum(client.sizes), set(client.sizes)) == (COUNT, {1, 2, 3, 4})
    assert progress[-1] == f"{COUNT} of {COUNT}"


class Cut(Answer):
    """Texts, the last of which claims more bytes than there are."""

    def as_numpy(self, _name: str) -> np.ndarray:
        return np.asarray(deserialize_bytes_tensor(b"\x04\x00\x00\x00text\x09\x00"))


def repeating() -> Callable[[Answer], Answer]:
    """Answers the first request again and again."""
    first: list[str] = []

    def change(answer: Answer) -> Answer:
        first.append(answer.id)
        answer.id = first[0]
        return answer

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda _answer: Answer("9999", {toy.OUTPUT: toy.rows([0])}),
        repeating(),
        lambda answer: Answer(answer.id, {}),
        lambda answer: Answer(answer.id, {toy.OUTPUT: toy.rows([0, 1, 2, 3, 4])}),
        lambda answer: Cut(answer.id, {}),
        lambda answer: None if answer.id == "3" else answer,
    ],
    ids=["to no request", "twice", "without the output", "of another length", "cut off", "none in time"],
)
def test_malformed_answer_is_an_error(
    change: Callable[[Answer], Answer | None], connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(through_server, "REQUEST_S", 0.3)
    _, server = connect(change)

    with pytest.raises(ProofError):
        evaluate_through_server(server, CASE, toy.samples(COUNT), 2)


def spoilt(change: Callable[[np.ndarray], np.ndarray], only: str = "") -> Callable[[Answer], Answer]:
    def spoil(answer: Answer) -> Answer:
        values = answer.as_numpy(toy.OUTPUT)
        assert values is not None
        return (
            Answer(answer.id, {toy.OUTPUT: np.asarray(change(values))}) if only in ("", answer.id) else answer
        )

    return spoil


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values.astype(np.float64),
        lambda values: values.argmax(axis=1),
        lambda values: values.astype(str).astype(object),
        lambda values: values[:, :2],
        lambda values: values[:, :0],
        lambda values: values[..., None],
        lambda values: values[0, 0],
    ],
    ids=["FP64", "INT64", "texts", "narrower", "nothing", "an axis more", "one number"],
)
def test_answer_of_wrong_type_or_shape_is_an_error(
    connect: Connect, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    _, server = connect(spoilt(change))

    with pytest.raises(AccuracyError, check=lambda error: error.where == str(CASE)):
        evaluate_through_server(server, CASE, toy.samples(COUNT), 2)


def test_nonfinite_served_value_names_its_sample(connect: Connect) -> None:
    _, server = connect(spoilt(lambda values: values * np.nan, only="3"))

    with pytest.raises(AccuracyError, check=lambda error: "toy-003" in error.where):
        evaluate_through_server(server, CASE, toy.samples(8), 1)


def test_ledger_catches_swapped_rows(connect: Connect) -> None:
    _, server = connect(spoilt(lambda values: values[::-1]))
    samples = toy.samples(COUNT)
    framework, converted = (
        evaluate_in_process(name, CASE.model, toy.network, samples, 8) for name in ("framework", "converted")
    )

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
    served = result.disagreements[1]
    assert served.agreement == pytest.approx(1 - len(wrong) / COUNT)
    assert (served.samples, served.lost, served.gained) == (tuple(wrong), len(wrong), 0)
