"""The evaluation data through a server: each sample is sent once and judged by its own answer, whatever the order."""

import dataclasses
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tritonclient.utils import deserialize_bytes_tensor

from fixtures.errors import AccuracyError, ProofError
from fixtures.prove import through_server
from fixtures.prove.accuracy import accuracy_ledger, score_each_sample
from fixtures.prove.all_outputs import RunningDifferences, add, output_differences
from fixtures.prove.stages import evaluate_in_process
from fixtures.prove.through_server import evaluate_through_server, mixed_batches
from fixtures.serve.server import Server
from fixtures.spec import Arrays, Samples, Tensor, Tolerance
from reports.record.schema import Accuracy, OutputDifference, within_limits
from reports.words.rightness import ledger_failures
from tests import toy

CASE = toy.case()
COUNT = 40

# --- a server that answers as it likes ------------------------------------------------------------------------


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
        self.most_rows_in_flight = 0
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
            rows = sum(len(one.as_numpy(toy.OUTPUT)) for _, one in self._waiting)  # type: ignore[arg-type, misc]
            self.most_rows_in_flight = max(self.most_rows_in_flight, rows)

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


# --- mixed batches --------------------------------------------------------------------------------------------


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


# --- every output, whether a metric uses it or not ------------------------------------------------------------

SECOND, COUNTS = "PROBABILITIES", "COUNTS"


def three_outputs(inputs: Arrays) -> Arrays:
    """The classes come from the first output alone; the others are what a metric leaves out."""
    values = inputs[toy.INPUT]
    return {toy.OUTPUT: values, SECOND: values * 0.5 + 0.1, COUNTS: values.argmax(axis=1, keepdims=True)}


def unused(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Arrays], Arrays]:
    """The same network, served with one output spoilt."""
    return lambda inputs: {**three_outputs(inputs), name: change(three_outputs(inputs)[name])}


def served_ledger(
    connect: Connect,
    served: Callable[[Arrays], Arrays],
    precision: str = "fp32",
    tolerance: Tolerance | None = None,
) -> Accuracy:
    """The ledger of a model whose server computes something else than the same file does in process."""
    outputs = tuple(Tensor(name, dtype, shape) for name, dtype, shape in THREE)
    case = toy.case(toy.model(outputs=outputs), precision, tolerance)

    def change(answer: Answer) -> Answer:
        sent = answer.as_numpy(toy.OUTPUT)
        assert sent is not None
        return Answer(answer.id, served({toy.INPUT: sent}))

    _, server = connect(change)
    samples = toy.samples(COUNT)
    framework = evaluate_in_process("framework", case.model, three_outputs, samples, 8)
    converted = evaluate_in_process("converted", case.model, three_outputs, samples, 8, with_outputs=True)
    last = evaluate_through_server(server, case, samples, 4, converted=converted)
    stages = (framework, converted, last)
    return accuracy_ledger(case, samples, stages, score_each_sample(case, samples, stages))


THREE = [(toy.OUTPUT, "FP32", (4,)), (SECOND, "FP32", (4,)), (COUNTS, "INT64", (1,))]


def test_outputs_that_are_equal_in_process_and_served_pass_and_stand_in_the_ledger(connect: Connect) -> None:
    result = served_ledger(connect, three_outputs)

    assert result.passed
    assert [(one.output, one.kind, one.largest) for one in result.outputs] == [
        (toy.OUTPUT, "error", 0.0),
        (SECOND, "error", 0.0),
        (COUNTS, "differing", 0.0),
    ]


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param(SECOND, np.zeros_like, id="zeroed"),
        pytest.param(SECOND, lambda values: values * np.float32(1.05), id="scaled"),
        pytest.param(toy.OUTPUT, lambda values: values * np.float32(1.05), id="scaled logits"),
        pytest.param(COUNTS, lambda values: values + 1, id="integers moved"),
    ],
)
def test_a_fault_in_an_output_that_decides_nothing_is_found(
    name: str, change: Callable[[np.ndarray], np.ndarray], precision: str, connect: Connect
) -> None:
    if name == COUNTS:  # rows whose integers differ leave nothing else to compare
        with pytest.raises(
            ProofError, match="integer outputs differ from those in process on all 40 samples"
        ):
            served_ledger(connect, unused(name, change), precision)
        return

    result = served_ledger(connect, unused(name, change), precision)

    assert all(score.passed for score in result.scores)
    assert all(one.agreement == 1 for one in result.disagreements)
    assert not result.passed
    (failure,) = ledger_failures(result)
    assert f"the served output {name} is not what the same file gives in process" in failure


@pytest.mark.parametrize(
    ("precision", "off_by", "passed"),
    [
        pytest.param("fp32", 1e-6, True, id="fp32 in another order"),
        pytest.param("fp32", 5e-5, False, id="fp32 off by far more than its rounding"),
        pytest.param("fp16", 2e-3, True, id="fp16 by other kernels"),
        pytest.param("fp16", 8e-3, False, id="fp16 off by several times what it costs"),
        pytest.param("bf16", 3e-3, True, id="bf16 by other kernels"),
        pytest.param("bf16", 1.5e-2, False, id="bf16 off by more than it costs"),
        pytest.param("int8", 3e-3, True, id="int8 by other kernels"),
        pytest.param("int8", 1.5e-2, False, id="int8 off by a step in every other element"),
    ],
)
def test_a_server_may_differ_by_what_other_kernels_do(
    precision: str, off_by: float, passed: bool, connect: Connect
) -> None:
    """Element by element all of these are within the tolerance of the format."""
    scaled = unused(SECOND, lambda values: values * np.float32(1 + off_by))

    result = served_ledger(connect, scaled, precision, Tolerance(0.5, 0.95, "chosen"))

    assert result.passed is passed, ledger_failures(result)


def test_random_weights_let_an_error_grow() -> None:
    expected = {SECOND: np.ones((4, 4), np.float32)}
    found = RunningDifferences(expected, ["a", "b", "c", "d"], "served")
    add(found, {SECOND: expected[SECOND] * np.float32(1.015)}, range(4))
    case = toy.case(precision="bf16", tolerance=Tolerance(0.5, 0.95, "chosen"))

    trained, random_ones = (output_differences(found, case, None, trained=it)[0] for it in (True, False))

    assert not within_limits(trained)
    assert within_limits(random_ones)


def test_a_wrong_value_of_an_unused_output_is_named_with_what_was_expected_and_given(
    connect: Connect,
) -> None:
    samples = toy.samples(COUNT)
    wrong_class = samples.labels[7]

    def tripled(inputs: Arrays) -> Arrays:
        outputs = dict(three_outputs(inputs))
        at_fault = (inputs[toy.INPUT] == 1) & (np.arange(toy.CLASSES) == wrong_class)
        outputs[SECOND] = outputs[SECOND] * np.where(at_fault, 3, 1).astype(np.float32)
        return outputs

    result = served_ledger(connect, tripled)

    spoilt = next(one for one in result.outputs if one.output == SECOND)
    assert not result.passed
    assert samples.labels[samples.ids.index(spoilt.sample)] == wrong_class
    assert (spoilt.expected, spoilt.given) == pytest.approx((0.6, 1.8))


def test_an_output_of_another_shape_that_no_metric_uses_is_an_error(connect: Connect) -> None:
    with pytest.raises(AccuracyError, match=rf"{SECOND} is of shape \[2\], and declared \[4\]"):
        served_ledger(connect, unused(SECOND, lambda values: values[:, :2]))


def test_other_integers_in_two_rows_are_near_ties_and_their_other_outputs_are_left_out(
    connect: Connect,
) -> None:
    calls = iter([True, True])

    def near_tie(inputs: Arrays) -> Arrays:
        outputs = dict(three_outputs(inputs))
        if len(inputs[toy.INPUT]) == 1 and next(calls, False):
            outputs |= {COUNTS: outputs[COUNTS] + 1, SECOND: outputs[SECOND] + 100}
        return outputs

    result = served_ledger(connect, near_tie)

    assert result.passed, ledger_failures(result)
    assert next(one for one in result.outputs if one.output == COUNTS).mean == pytest.approx(2 / COUNT)


def test_a_few_voxels_of_every_mask_are_more_than_near_ties() -> None:
    """Two of 24 masks would be a twelfth of all voxels; two voxels are none."""
    masks = np.random.default_rng(0).integers(0, 4, (24, 10_000))
    other = masks.copy()
    other[:, :400] = (other[:, :400] + 1) % 4
    tied = masks.copy()
    tied[[3, 7], 5] += 1
    case = toy.case(precision="fp16")

    def compared(served: np.ndarray) -> OutputDifference:
        found = RunningDifferences({"masks": masks}, [str(row) for row in range(24)], "served")
        add(found, {"masks": served}, range(24))
        (result,) = output_differences(found, case, None)
        return result

    assert within_limits(compared(masks))
    assert within_limits(compared(tied))
    assert not within_limits(compared(other))
