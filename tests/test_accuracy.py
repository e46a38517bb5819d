"""Parity and the ledger: every sample is judged once, by its own answer, and nothing wrong passes unnoticed."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures import accuracy
from fixtures.accuracy import Stage, compare_conversion, in_process, ledger, mixed_batches, served
from fixtures.errors import ProofError
from fixtures.server import Server
from fixtures.spec import Arrays, Samples, Tolerance
from tests import toy

CASE = toy.case()
TOLERANCE = Tolerance(0.01, 0.95, "chosen")
COUNT = 40


# --- a server that answers as it likes ---------------------------------------------------------------------


class Answer:
    """What tritonclient hands to a callback."""

    def __init__(self, request_id: str, outputs: Arrays) -> None:
        self.id, self._outputs = request_id, outputs

    def get_response(self) -> "Answer":
        return self

    def as_numpy(self, name: str) -> np.ndarray | None:
        return self._outputs.get(name)


class Client:
    """Answers requests in random order from a thread of its own; `change` may spoil what it answers.

    `change` takes the answer, or returns None for no answer at all, or an exception.
    """

    def __init__(self, change: Callable[[Answer], Answer | Exception | None] = lambda answer: answer) -> None:
        self._change = change
        self._waiting: list[tuple[Callable[..., None], Answer]] = []
        self._lock = threading.Lock()
        self._is_open = True
        self.sizes: list[int] = []
        self.most_in_flight = 0
        self.order: list[int] = []
        threading.Thread(target=self._answer, daemon=True).start()

    def async_infer(
        self, _name: str, inputs: list[Any], callback: Callable[..., None], **options: Any
    ) -> None:
        data = np.frombuffer(inputs[0]._get_content(), np.float32).reshape(inputs[0].shape())
        answer = Answer(options["request_id"], toy.network({toy.INPUT: data}))
        with self._lock:
            self.sizes.append(len(data))
            self._waiting.append((callback, answer))
            self.most_in_flight = max(self.most_in_flight, len(self._waiting))

    def close(self) -> None:
        self._is_open = False

    def _answer(self) -> None:
        generator = random.Random(0)
        while self._is_open:
            time.sleep(0.001)
            with self._lock:
                if not self._waiting:
                    continue
                callback, answer = self._waiting.pop(generator.randrange(len(self._waiting)))
            self.order.append(int(answer.id))
            changed = self._change(answer)
            if isinstance(changed, Exception):
                callback(None, changed)
            elif changed is not None:
                callback(changed, None)


Connect = Callable[..., tuple[Client, Server]]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    """A server whose client spoils its answers by a function."""
    clients: list[Client] = []
    log = tmp_path / "server.log"
    log.write_text("began\nthe last words\n")

    def connect(
        change: Callable[[Answer], Answer | Exception | None] = lambda answer: answer,
    ) -> tuple[Client, Server]:
        clients.append(Client(change))
        return clients[-1], Server("embedded", "127.0.0.1:1", "2.51.0", log, clients[-1])

    yield connect
    for client in clients:
        client.close()


# --- mixed batches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [1, 2, 8, 128])
@pytest.mark.parametrize("count", [1, 7, 500])
def test_mixed_batches_cover_every_sample_once(count: int, largest: int) -> None:
    batches = list(mixed_batches(count, largest))

    assert [index for batch in batches for index in batch] == list(range(count))
    assert {len(batch) for batch in batches} <= set(range(1, largest + 1))


def test_mixed_batches_are_of_all_sizes() -> None:
    sizes = [len(batch) for batch in mixed_batches(500, 8)]

    assert set(sizes) == set(range(1, 9))


def test_mixed_batches_are_the_same_each_time() -> None:
    assert list(mixed_batches(500, 8)) == list(mixed_batches(500, 8))


def test_the_last_batch_may_be_partial() -> None:
    whole = [len(batch) for batch in mixed_batches(500, 8)]
    first = next(i for i, size in enumerate(whole) if size > 1)

    assert len(list(mixed_batches(sum(whole[:first]) + 1, 8))[-1]) == 1


# --- the served stage --------------------------------------------------------------------------------------


def test_answers_in_any_order_meet_their_own_samples(connect: Connect) -> None:
    client, server = connect()
    samples = toy.samples(COUNT)

    stage = served(server, CASE, samples, 4)

    assert stage.decisions.tolist() == samples.labels.tolist()  # type: ignore[union-attr]
    assert stage.scores is not None
    assert stage.scores.tolist() == [1.0] * COUNT
    assert client.order != sorted(client.order), "the answers came in order, so nothing was tried"
    assert stage.requests == len(client.order)


def test_each_sample_is_sent_once_in_batches_up_to_the_largest(connect: Connect) -> None:
    client, server = connect()

    served(server, CASE, toy.samples(COUNT), 4)

    assert sum(client.sizes) == COUNT
    assert set(client.sizes) == {1, 2, 3, 4}


def test_samples_without_labels_are_decided_but_not_scored(connect: Connect) -> None:
    _, server = connect()
    labelled = toy.samples(COUNT)

    stage = served(server, CASE, Samples(labelled.ids, labelled.load), 4)

    assert stage.scores is None
    assert stage.decisions.tolist() == labelled.labels.tolist()  # type: ignore[union-attr]


def test_no_more_requests_are_in_flight_than_allowed(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accuracy, "IN_FLIGHT", 5)
    client, server = connect()

    served(server, CASE, toy.samples(COUNT), 1)

    assert client.most_in_flight == 5


def test_progress_reaches_the_last_sample(connect: Connect) -> None:
    _, server = connect()
    said: list[str] = []

    served(server, CASE, toy.samples(COUNT), 4, said.append)

    assert said[-1] == f"{COUNT} of {COUNT}"


def test_an_answer_to_no_request_is_an_error(connect: Connect) -> None:
    _, server = connect(lambda _answer: Answer("9999", {toy.OUTPUT: toy.rows([0])}))

    with pytest.raises(ProofError, match="answered a request nobody sent, '9999'"):
        served(server, CASE, toy.samples(COUNT), 4)


def test_the_same_answer_twice_is_an_error(connect: Connect) -> None:
    first: list[str] = []

    def repeat(answer: Answer) -> Answer:
        first.append(answer.id)
        answer.id = first[0]
        return answer

    _, server = connect(repeat)

    with pytest.raises(ProofError, match="answered a request nobody sent"):
        served(server, CASE, toy.samples(COUNT), 1)


def test_a_failed_request_is_an_error_with_the_log(connect: Connect) -> None:
    _, server = connect(lambda answer: RuntimeError("the model fell over") if answer.id == "7" else answer)

    with pytest.raises(ProofError, match=r"a request failed: the model fell over[^$]*the last words"):
        served(server, CASE, toy.samples(COUNT), 2)


def test_the_first_failure_is_the_one_reported(connect: Connect) -> None:
    _, server = connect()
    replies = accuracy._Replies(CASE, server)

    for number in range(3):
        replies.put(str(number), None, RuntimeError(f"failure {number}"))

    with pytest.raises(ProofError, match="a request failed: failure 0"):
        replies.take(wait=True)


def test_an_answer_without_an_output_is_an_error(connect: Connect) -> None:
    _, server = connect(lambda answer: Answer(answer.id, {}))

    with pytest.raises(ProofError, match=f"the answer lacks the output {toy.OUTPUT}"):
        served(server, CASE, toy.samples(COUNT), 2)


def test_an_unanswered_request_is_an_error_in_time(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "_REQUEST_S", 0.3)
    _, server = connect(lambda answer: None if answer.id == "3" else answer)
    began = time.monotonic()

    with pytest.raises(ProofError, match="left requests unanswered"):
        served(server, CASE, toy.samples(COUNT), 2)

    assert time.monotonic() - began < 30


def test_an_answer_of_another_length_is_an_error(connect: Connect) -> None:
    _, server = connect(lambda answer: Answer(answer.id, {toy.OUTPUT: toy.rows([0, 1, 2])}))

    with pytest.raises(ProofError, match="the served outputs are 3 results for 1 samples"):
        served(server, CASE, toy.samples(COUNT), 1)


def test_a_server_that_swaps_rows_is_caught_by_the_ledger(connect: Connect) -> None:
    def swap(answer: Answer) -> Answer:
        values = answer.as_numpy(toy.OUTPUT)
        assert values is not None
        return Answer(answer.id, {toy.OUTPUT: values[::-1]})

    _, server = connect(swap)
    samples = toy.samples(COUNT)
    framework = in_process("framework", CASE.model, toy.network, samples, 8)
    converted = in_process("converted", CASE.model, toy.network, samples, 8)

    last = served(server, CASE, samples, 4)
    result = ledger(CASE, samples, (framework, converted, last))

    wrong = [
        samples.ids[batch[place]]
        for batch in mixed_batches(COUNT, 4)
        for place in range(len(batch))
        if (toy.rows([batch[place]]) != toy.rows([batch[-1 - place]])).any()
    ]
    assert wrong
    assert not result.passed
    assert result.served == pytest.approx(1 - len(wrong) / COUNT)
    assert result.disagreements[1].samples == tuple(wrong)
    assert (result.disagreements[1].lost, result.disagreements[1].gained) == (len(wrong), 0)


# --- not a number ------------------------------------------------------------------------------------------


def spoilt(value: float) -> Callable[[Arrays], Arrays]:
    """The model, with one value of the last sample replaced."""

    def run(inputs: Arrays) -> Arrays:
        outputs = toy.network(inputs)
        outputs[toy.OUTPUT][-1, 2] = value
        return outputs

    return run


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("stage", ["framework", "converted"])
def test_a_value_that_is_no_number_names_stage_output_and_sample(stage: str, value: float) -> None:
    with pytest.raises(ProofError) as caught:
        in_process(stage, toy.model(), spoilt(value), toy.samples(8), 8)

    assert f"the {stage} outputs hold NaN or infinity for 1 of 8 samples" in str(caught.value)
    assert f"output {toy.OUTPUT}, first sample toy-007" in str(caught.value)


def test_a_served_value_that_is_no_number_names_its_sample(connect: Connect) -> None:
    def spoil(answer: Answer) -> Answer:
        values = answer.as_numpy(toy.OUTPUT)
        assert values is not None
        return Answer(answer.id, {toy.OUTPUT: values * np.nan if answer.id == "3" else values})

    _, server = connect(spoil)

    with pytest.raises(ProofError) as caught:
        served(server, CASE, toy.samples(8), 1)

    assert "the served outputs hold NaN or infinity for 1 of 1 samples" in str(caught.value)
    assert f"output {toy.OUTPUT}, first sample toy-003" in str(caught.value)


@pytest.mark.parametrize("stage", ["framework", "converted"])
def test_parity_of_a_value_that_is_no_number_is_an_error(stage: str) -> None:
    good, bad = toy.network, spoilt(np.nan)
    weights = toy.weights(network=bad if stage == "framework" else good)

    with pytest.raises(ProofError, match=rf"the {stage} outputs hold NaN[^$]*first sample toy-007"):
        compare_conversion(
            toy.model(), weights, bad if stage == "converted" else good, toy.samples(8), TOLERANCE
        )


# --- stages in process -------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 7, 40, 64])
def test_every_sample_counts_whatever_the_batch(batch: int) -> None:
    samples = toy.samples(COUNT)

    stage = in_process("framework", toy.model(), toy.network, samples, batch)

    assert stage.decisions.tolist() == samples.labels.tolist()  # type: ignore[union-attr]
    assert stage.scores is not None
    assert len(stage.scores) == COUNT


def test_a_model_that_drops_a_sample_is_an_error() -> None:
    with pytest.raises(ProofError, match="the converted outputs are 7 results for 8 samples"):
        in_process(
            "converted",
            toy.model(),
            lambda inputs: {toy.OUTPUT: inputs[toy.INPUT][1:]},
            toy.samples(COUNT),
            8,
        )


# --- conversion --------------------------------------------------------------------------------------------


def changed(error: float, wrong: int) -> Callable[[Arrays], Arrays]:
    """A conversion that adds `error` everywhere and decides the first `wrong` samples otherwise."""

    def run(inputs: Arrays) -> Arrays:
        values = inputs[toy.INPUT] + error
        values[:wrong] = np.roll(values[:wrong], 1, axis=1)
        return {toy.OUTPUT: values.astype(np.float32)}

    return run


def test_an_equal_conversion_passes() -> None:
    result = compare_conversion(toy.model(), toy.weights(), toy.network, toy.samples(100), TOLERANCE)

    assert (result.samples, result.relative_error, result.agreement, result.passed) == (64, 0.0, 1.0, True)
    assert (result.relative_error_limit, result.agreement_limit) == (0.01, 0.95)


@pytest.mark.parametrize(("error", "passed"), [(0.009, True), (0.011, False)])
def test_the_error_has_a_limit(error: float, passed: bool) -> None:
    result = compare_conversion(toy.model(), toy.weights(), changed(error, 0), toy.samples(COUNT), TOLERANCE)

    assert result.relative_error == pytest.approx(error, rel=1e-3)
    assert result.passed is passed


@pytest.mark.parametrize(("wrong", "passed"), [(2, True), (3, False)])
def test_the_agreement_has_a_limit(wrong: int, passed: bool) -> None:
    tolerance = Tolerance(10, 0.95, "chosen")

    result = compare_conversion(toy.model(), toy.weights(), changed(0, wrong), toy.samples(COUNT), tolerance)

    assert result.agreement == pytest.approx(1 - wrong / COUNT)
    assert result.passed is passed


def test_the_decisions_of_random_weights_have_no_limit() -> None:
    tolerance = Tolerance(10, 0.95, "chosen")

    result = compare_conversion(
        toy.model(), toy.weights(trained=False), changed(0, COUNT), toy.samples(COUNT), tolerance
    )

    assert result.agreement_limit is None
    assert result.agreement == 0.0
    assert result.passed


def test_the_error_is_relative_to_the_largest_value() -> None:
    weights = toy.weights(network=lambda inputs: {toy.OUTPUT: inputs[toy.INPUT] * 50})

    result = compare_conversion(
        toy.model(),
        weights,
        lambda inputs: {toy.OUTPUT: inputs[toy.INPUT] * 50 + 1},
        toy.samples(8),
        TOLERANCE,
    )

    assert result.relative_error == pytest.approx(1 / 50)


@pytest.mark.parametrize(
    ("converted", "found"),
    [
        pytest.param(lambda _inputs: {}, "missing", id="no output"),
        pytest.param(
            lambda inputs: {toy.OUTPUT: inputs[toy.INPUT][:, :1]}, r"of shape \(8, 1\)", id="broadcasts"
        ),
    ],
)
def test_an_output_of_another_shape_is_an_error(converted: Callable[[Arrays], Arrays], found: str) -> None:
    with pytest.raises(ProofError, match=f"a converted output is {found}"):
        compare_conversion(toy.model(), toy.weights(), converted, toy.samples(8), TOLERANCE)


# --- the ledger --------------------------------------------------------------------------------------------


def stage(name: str, right: int, count: int = 100) -> Stage:
    """A stage that decides the first `right` samples rightly."""
    scores = (np.arange(count) < right).astype(float)
    return Stage(name, scores.astype(int), scores, requests=9)


def stages(framework: int, converted: int, last: int) -> tuple[Stage, Stage, Stage]:
    """Three stages by how many samples of 100 each gets right."""
    return stage("framework", framework), stage("converted", converted), stage("served", last)


def test_the_ledger_holds_the_score_of_each_stage() -> None:
    result = ledger(toy.case(), toy.samples(100), stages(98, 97, 96))

    assert (result.framework, result.converted, result.served) == (0.98, 0.97, 0.96)
    assert (result.metric, result.samples, result.requests) == ("top-1", 100, 9)


def test_the_ledger_names_what_neighbours_decide_differently() -> None:
    samples = toy.samples(100)

    first, second = ledger(toy.case(), samples, stages(95, 93, 96)).disagreements

    assert (first.between, first.count, first.lost, first.gained) == (("framework", "converted"), 2, 2, 0)
    assert first.samples == ("toy-093", "toy-094")
    assert (second.between, second.count, second.lost, second.gained) == (("converted", "served"), 3, 0, 3)


def test_two_wrong_answers_that_differ_are_neither_lost_nor_gained() -> None:
    nothing = np.zeros(3)
    one = Stage("framework", np.array([1, 1, 1]), nothing)
    other = Stage("converted", np.array([1, 2, 1]), nothing)

    (first, _) = ledger(toy.case(), toy.samples(3), (one, other, other)).disagreements

    assert (first.count, first.lost, first.gained) == (1, 0, 0)


def test_a_decision_of_many_parts_counts_once_per_sample() -> None:
    masks = np.zeros((2, 5, 5))
    one = Stage("framework", masks.copy(), np.ones(2))
    masks[1, 2:4, 3] = 1
    other = Stage("converted", masks, np.ones(2))

    (first, _) = ledger(toy.case(), toy.samples(2), (one, other, other)).disagreements

    assert (first.count, first.samples) == (1, ("toy-001",))


@pytest.mark.parametrize(
    ("precision", "framework", "last", "passed"),
    [
        pytest.param("fp32", 100, 100, True, id="equal"),
        pytest.param("fp32", 100, 99, False, id="fp32 below 99.9 % of the framework"),
        pytest.param("int8", 100, 99, True, id="int8 at 99 % of the framework"),
        pytest.param("int8", 100, 98, False, id="int8 below 99 % of the framework"),
        pytest.param("fp32", 90, 90, True, id="at the model's own floor"),
        pytest.param("fp32", 89, 89, False, id="below the model's own floor"),
        pytest.param("fp32", 91, 95, True, id="better than the framework"),
    ],
)
def test_the_ledger_passes_if_every_floor_is_reached(
    precision: str, framework: int, last: int, passed: bool
) -> None:
    result = ledger(toy.case(precision=precision), toy.samples(100), stages(framework, framework, last))

    assert result.passed is passed
    assert result.passed is all(result.served >= floor.value for floor in result.floors)
    assert [floor.source for floor in result.floors] == [
        "chosen",
        f"{accuracy.RELATIVE_FLOORS[precision]:.1%} of the framework's score on the same samples",
    ]
