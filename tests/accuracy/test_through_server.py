"""Evaluation through a server sends each sample once, in any order, and judges it by its own answer."""

import contextlib
import functools
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tritonclient.grpc import service_pb2
from tritonclient.utils import np_to_triton_dtype

from tests import sample_records, toy
from tests.helpers import grpc_server
from tritonproof.accuracy import stages as stages_module
from tritonproof.accuracy.answer_comparison import StageComparison
from tritonproof.accuracy.limits import CaseArithmetic
from tritonproof.accuracy.stages import Stages, evaluate_in_process, evaluate_through_server, mixed_batches
from tritonproof.base.errors import AccuracyError, ProofError
from tritonproof.client import requests
from tritonproof.client.requests import IN_FLIGHT
from tritonproof.record.correctness import Ledger
from tritonproof.reports.correctness_text import ledger_failures
from tritonproof.serve.messages import raw_content
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSpec
from tritonproof.spec import Arrays, Samples, Tensor, Tolerance

CASE = toy.case()
COUNT = 40


@dataclass
class Answer:
    """An answer before it is sent."""

    id: str
    outputs: dict[str, np.ndarray]
    cut: int = 0
    """How many bytes each output lacks at its end."""

    def response(self) -> Any:
        response = service_pb2.ModelInferResponse(id=self.id)
        for name, values in self.outputs.items():
            datatype = np_to_triton_dtype(values.dtype)
            response.outputs.add(name=name, datatype=datatype, shape=values.shape)
            content = raw_content(values, datatype)
            response.raw_output_contents.append(content[: len(content) - self.cut])
        return response


Change = Callable[[Answer], Answer | None]
"""Takes each answer, and returns it, spoilt or not, or None for no answer at all."""


@dataclass
class ToyServer:
    """Computes the toy network, and answers out of order."""

    change: Change
    sizes: list[int] = field(default_factory=list)
    rows_in_flight: int = 0
    most_rows_in_flight: int = 0
    order: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    ended: threading.Event = field(default_factory=threading.Event)
    delays_s: random.Random = field(default_factory=functools.partial(random.Random, 0))

    def infer(self, request: Any, _context: Any) -> Any:
        data = np.frombuffer(request.raw_input_contents[0], np.float32).reshape(list(request.inputs[0].shape))
        with self.lock:
            self.sizes.append(len(data))
            self.rows_in_flight += len(data)
            self.most_rows_in_flight = max(self.most_rows_in_flight, self.rows_in_flight)
            delay_s = self.delays_s.uniform(0.0, 0.01)
        self.ended.wait(delay_s)
        with self.lock:
            self.rows_in_flight -= len(data)
            self.order.append(int(request.id))
            changed = self.change(Answer(request.id, dict(toy.network({toy.INPUT: data}))))
        if changed is None:
            self.ended.wait()
            return service_pb2.ModelInferResponse()
        return changed.response()

    @contextlib.contextmanager
    def serve(self) -> Iterator[Server]:
        with grpc_server({"ModelInfer": self.infer}, IN_FLIGHT) as (address, client):
            yield Server(ServerSpec("embedded"), address, "2.51.0", None, client)
            self.ended.set()


Connect = Callable[..., tuple[ToyServer, Server]]


@pytest.fixture
def connect() -> Iterator[Connect]:
    with contextlib.ExitStack() as stack:

        def connect(change: Change = lambda answer: answer) -> tuple[ToyServer, Server]:
            toy_server = ToyServer(change)
            return toy_server, stack.enter_context(toy_server.serve())

        yield connect


@pytest.mark.parametrize("largest", [1, 2, 8, 128])
@pytest.mark.parametrize("count", [1, 7, 500])
def test_mixed_batches_cover_samples_once_and_repeat(count: int, largest: int) -> None:
    batches = list(mixed_batches(count, largest))
    assert [index for batch in batches for index in batch] == list(range(count))
    sizes = {len(batch) for batch in batches}
    assert sizes <= set(range(1, largest + 1))
    assert count < 500 or largest > 8 or sizes == set(range(1, largest + 1))
    assert list(mixed_batches(count, largest)) == batches


@pytest.mark.parametrize(("length", "answered"), [(toy.CLASSES, toy.CLASSES), (-1, toy.CLASSES), (-1, -1)])
def test_bytes_in_flight_are_limited(
    length: int, answered: int, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    row_bytes = 2 * toy.CLASSES * 4
    monkeypatch.setattr(stages_module, "IN_FLIGHT_BYTES", 6 * row_bytes + 1)
    client, server = connect()
    outputs = (Tensor(toy.OUTPUT, "FP32", (answered,)),)
    case = toy.case(toy.model(inputs=(Tensor(toy.INPUT, "FP32", (length,)),), outputs=outputs))
    evaluate_through_server(server, case, toy.samples(COUNT), 8)
    assert max(client.sizes) <= 6
    assert 2 <= client.most_rows_in_flight <= 6


@pytest.mark.parametrize("has_labels", [True, False])
def test_out_of_order_answers_match_their_samples(has_labels: bool, connect: Connect) -> None:
    client, server = connect()
    labelled = toy.samples(COUNT)
    samples = labelled if has_labels else Samples(labelled.ids, labelled.read)
    progress: list[str] = []

    stage = evaluate_through_server(server, CASE, samples, 4, progress.append)

    assert stage.decisions.tolist() == stage.kept["classes"].tolist() == labelled.labels.tolist()
    assert client.order != sorted(client.order), "the answers came in order, so nothing was tried"
    assert stage.requests == len(client.order)
    assert (sum(client.sizes), set(client.sizes)) == (COUNT, {1, 2, 3, 4})
    assert progress[-1] == f"{COUNT} of {COUNT}"


def spoilt(change: Callable[[np.ndarray], np.ndarray], only: str = "") -> Callable[[Answer], Answer]:
    def spoil(answer: Answer) -> Answer:
        if only in ("", answer.id):
            answer.outputs[toy.OUTPUT] = np.asarray(change(answer.outputs[toy.OUTPUT]))
        return answer

    return spoil


MALFORMED: dict[str, Change] = {
    "to no request": lambda _answer: Answer("9999", {toy.OUTPUT: toy.rows([0])}),
    "twice": lambda answer: Answer("0", answer.outputs),
    "without the output": lambda answer: Answer(answer.id, {}),
    "of another length": lambda answer: Answer(answer.id, {toy.OUTPUT: toy.rows([0, 1, 2, 3, 4])}),
    "cut off": lambda answer: Answer(answer.id, {toy.OUTPUT: np.array([[b"text"]], object)}, cut=2),
    "none in time": lambda answer: None if answer.id == "3" else answer,
    "FP64": spoilt(lambda values: values.astype(np.float64)),
    "INT64": spoilt(lambda values: values.argmax(axis=1)),
    "texts": spoilt(lambda values: values.astype(str).astype(object)),
    "narrower": spoilt(lambda values: values[:, :2]),
    "nothing": spoilt(lambda values: values[:, :0]),
    "an axis more": spoilt(lambda values: values[..., None]),
    "one number": spoilt(lambda values: values[0, 0]),
    "no number": spoilt(lambda values: values * np.nan, only="3"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_answer_is_an_error(name: str, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "none in time":
        monkeypatch.setattr(requests, "REQUEST_S", 0.3)
    _, server = connect(MALFORMED[name])

    with pytest.raises(ProofError) as raised:
        evaluate_through_server(server, CASE, toy.samples(COUNT), 2)
    assert isinstance(raised.value, AccuracyError) is (name not in ("to no request", "twice", "none in time"))
    output = f"output {toy.OUTPUT}"
    locations = {"of another length": output, "no number": f"{output}, first sample toy-003"}
    assert raised.value.where == locations.get(name, str(CASE))


def test_ledger_catches_swapped_rows(connect: Connect) -> None:
    _, server = connect(spoilt(lambda values: values[::-1]))
    samples = toy.samples(COUNT)
    framework, converted = (
        evaluate_in_process(name, CASE.model, toy.network, samples, 8) for name in ("framework", "converted")
    )
    last = evaluate_through_server(server, CASE, samples, 4)
    stages = Stages(framework=framework, converted=converted, served=last)
    result = toy.ledger(CASE, samples, stages)

    wrong = [
        samples.ids[batch[index]]
        for batch in (range(1), *mixed_batches(COUNT, 4, start=1))
        for index in range(len(batch))
        if (toy.rows([batch[index]]) != toy.rows([batch[-1 - index]])).any()
    ]
    assert wrong
    assert not result.passed
    assert result.scores[0].served == pytest.approx(1 - len(wrong) / COUNT)
    served = result.disagreements[1]
    assert served.agreement == pytest.approx(1 - len(wrong) / COUNT)
    assert (served.sample_ids, served.lost, served.gained) == (tuple(wrong), len(wrong), 0)


Network = Callable[[Arrays], Arrays]
SECOND, COUNTS = "PROBABILITIES", "COUNTS"
THREE = Tensor(toy.OUTPUT, "FP32", (4,)), Tensor(SECOND, "FP32", (4,)), Tensor(COUNTS, "INT64", (1,))


def three_outputs(inputs: Arrays) -> Arrays:
    """The classes come from the first output alone; no metric uses the others."""
    values = inputs[toy.INPUT]
    counts = 100 + values.argmax(axis=1, keepdims=True)
    return {toy.OUTPUT: values, SECOND: values * 0.5 + 0.1, COUNTS: counts}


def unused(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Network:
    """The same network, served with one output spoilt."""
    return lambda inputs: {**three_outputs(inputs), name: change(three_outputs(inputs)[name])}


def served_ledger(
    connect: Connect, served: Network, precision: str = "fp32", tolerance: Tolerance | None = None
) -> Ledger:
    """The ledger of a model whose server computes something other than the file in process."""
    case = toy.case(toy.model(outputs=THREE), precision, tolerance)

    def change(answer: Answer) -> Answer:
        return Answer(answer.id, dict(served({toy.INPUT: answer.outputs[toy.OUTPUT]})))

    _, server = connect(change)
    samples = toy.samples(COUNT)
    framework = evaluate_in_process("framework", case.model, three_outputs, samples, 8)
    converted = evaluate_in_process("converted", case.model, three_outputs, samples, 8)
    comparison = StageComparison("served", samples.ids, converted.outputs, CaseArithmetic(case, precision))
    last = evaluate_through_server(server, case, samples, 4, comparison=comparison)
    stages = Stages(framework=framework, converted=converted, served=last)
    return toy.ledger(case, samples, stages)


def test_equal_served_outputs_pass_and_are_recorded(connect: Connect) -> None:
    result = served_ledger(connect, three_outputs)
    assert result.passed
    kinds = {difference.output: (difference.kind, difference.largest) for difference in result.outputs}
    assert kinds == {toy.OUTPUT: ("error", 0.0), SECOND: ("error", 0.0), COUNTS: ("differing", 0.0)}


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
def test_fault_in_unused_output_is_found(
    name: str, change: Callable[[np.ndarray], np.ndarray], precision: str, connect: Connect
) -> None:
    result = served_ledger(connect, unused(name, change), precision)
    assert all(score.passed for score in result.scores)
    assert all(entry.agreement == 1 for entry in result.disagreements)
    assert not result.passed
    assert name in [entry.output for entry in result.outputs if not entry.passed]


@pytest.mark.parametrize(
    ("precision", "right", "wrong"),
    [("fp32", 2.2e-5, 5e-5), ("fp16", 2e-3, 8e-3), ("bf16", 3e-3, 1.5e-2), ("int8", 3e-3, 1.5e-2)],
)
def test_server_may_differ_by_rounding(precision: str, right: float, wrong: float, connect: Connect) -> None:
    """Each element is within the format's tolerance. In FP32, rounding adds to the mean's limit of 2e-5."""
    for off_by, passed in ((right, True), (wrong, False)):
        scaled = unused(SECOND, functools.partial(np.multiply, np.float32(1 + off_by)))
        assert served_ledger(connect, scaled, precision, Tolerance(0.5, 0.95, "chosen")).passed is passed


def test_wrong_value_of_unused_output_names_expected_and_given(connect: Connect) -> None:
    tripled = unused(SECOND, lambda values: np.where(values > 0.5, 3 * values, values))
    result = served_ledger(connect, tripled)
    spoilt = next(difference for difference in result.outputs if difference.output == SECOND)
    assert not result.passed
    assert (spoilt.expected, spoilt.actual) == pytest.approx((0.6, 1.8))


def test_wrong_text_fails_and_its_sample_is_named() -> None:
    ids = [f"row-{n}" for n in range(2000)]
    texts = np.array([[name.encode()] for name in ids], object)
    case = toy.case(toy.model(outputs=(Tensor("TEXT", "BYTES", (1,)), THREE[2])))
    right = {"TEXT": texts, COUNTS: np.zeros((2000, 1), int)}
    comparison = StageComparison("served", ids, right, CaseArithmetic(case, "fp32"))
    given = {**right, "TEXT": np.where(texts == b"row-7", b"another", texts)[::-1]}
    comparison.add(given, range(1999, -1, -1))
    result, _ = comparison.differences
    assert (result.passed, result.sample) == (False, "row-7")
    assert (result.largest_limit, result.mean_limit) == (0.0, 0.0)
    (failure,) = ledger_failures(sample_records.accuracy(outputs=(result,)))
    assert "sample row-7" in failure
    assert "given" not in failure, "the record has no field for a text"
