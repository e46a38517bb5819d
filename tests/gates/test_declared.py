"""Answers with one fault each fail against the declaration, as does a batch size that is not as declared; and
replies of a server to refused requests and to concurrent ones."""

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from tests import toy
from tests.gates.answering_servers import ROWS as SENT
from tests.gates.answering_servers import careful, right, served_by
from tests.gates.made_up_model import (
    CASE_LIMITS,
    ROWS,
    AnswerRule,
    MadeUpModel,
    gate_context,
    served_model,
    singles,
)
from tritonproof.base.errors import ProofError
from tritonproof.client import requests
from tritonproof.client.input_data import MAX_SAMPLES
from tritonproof.client.requests import ServedModel
from tritonproof.gates.context import GateContext, make_single_answers
from tritonproof.gates.declared import declared_gate, largest_batch_gate
from tritonproof.record.correctness import GateResult
from tritonproof.serve.messages import infer_message
from tritonproof.spec import Arrays, Tensor

Change = Callable[[Any], None]
"""Changes an answer before the gate sees it."""


def answer_to(request: Any, *, batched: bool = True) -> Any:
    """Twice the input and its number of elements, as the model below declares."""
    values = np.frombuffer(b"".join(request.raw_input_contents[:1]), np.float32)
    values = values[: values.size // 4 * 4].reshape(-1, 4)
    rows = [len(values)] if batched else []
    response = service_pb2.ModelInferResponse(model_name="toy")
    response.outputs.add(name="OUT", datatype="FP32", shape=[*rows, 4])
    response.raw_output_contents.append((2 * values).tobytes())
    response.outputs.add(name="COUNT", datatype="INT64", shape=[*rows, 1])
    response.raw_output_contents.append(np.full(len(values), 4).tobytes())
    return response


@dataclass(frozen=True)
class ReplyingModel(MadeUpModel):
    """A model that replies by a rule, and keeps the requests."""

    reply: Callable[[int, Any], Any] = lambda _number, request: answer_to(request)
    """From the number of a request and the request, the reply."""
    received: list[Any] = field(default_factory=list)

    def responses(self, sample_indices: Iterable[Any]) -> list[Any]:
        inputs = [self.data.inputs(samples) for samples in sample_indices]
        messages = [infer_message(self.name, self.model, rows) for rows in inputs]
        self.received[:] = map(service_pb2.ModelInferRequest.FromString, messages)
        return [self.reply(number, request) for number, request in enumerate(self.received)]


def replying(served: ServedModel, reply: Callable[[int, Any], Any], **more: Any) -> ReplyingModel:
    return ReplyingModel(served.server, served.name, served.model, served.data, reply=reply, **more)


def given_alone(count: int = 8) -> dict[int, Arrays]:
    """The right answers to `count` samples, each sent alone."""
    return {n: {**outputs, "COUNT": np.array([4])} for n, outputs in singles(count).by_sample.items()}


def model(
    shape: tuple[int, ...] = (4,),
    rows: Mapping[int, Arrays] | None = None,
    count: int = 8,
    batched: bool = True,
    rule: AnswerRule | None = None,
    **changes: Any,
) -> GateContext:
    """What the gate gets of a model of two outputs, the first of this shape, if `rows` were given alone."""
    served = served_model(count, batched=batched, rule=rule)
    outputs = (Tensor("OUT", "FP32", shape), Tensor("COUNT", "INT64", (1,)))
    served = dataclasses.replace(served, model=dataclasses.replace(served.model, outputs=outputs))
    alone = make_single_answers(served.data.ids, rows or given_alone(count), CASE_LIMITS)
    return gate_context(served, alone, **changes)


def gate(
    change: Change = lambda _response: None, to: int = 0, context: GateContext | None = None
) -> tuple[GateResult, list[Any]]:
    """The gate's result, and the requests, if the answer to request `to` changes."""
    context = context or model()
    rule = context.served.rule if isinstance(context.served, MadeUpModel) else None

    def reply(number: int, request: Any) -> Any:
        answer = answer_to(request, batched=context.served.model.batched)
        if number == to:
            change(answer)
        return answer

    served = replying(context.served, reply, rule=rule)
    return declared_gate(dataclasses.replace(context, served=served)).result, served.received


def test_samples_are_sent_alone_and_in_a_pair() -> None:
    result, sent = gate()
    assert (result.fault, result.requests) == ("", 5)
    assert [list(request.inputs[0].shape) for request in sent] == [[1, 4]] * 4 + [[2, 4]]
    assert sent[4].raw_input_contents[0] == ROWS[[0, 7]].tobytes(), "the first and the last sample"
    for changed, count in ((model(largest=1), 4), (model(batched=False), 4), (model(count=2), 3)):
        result, sent = gate(context=changed)
        assert (result.fault, len(sent)) == ("", count)


def of_first(change: Change) -> Change:
    return lambda response: change(response.outputs[0])


def content(change: Callable[[bytes], bytes]) -> Change:
    def changed(response: Any) -> None:
        response.raw_output_contents[0] = change(response.raw_output_contents[0])

    return changed


def retyped(datatype: str) -> Change:
    return of_first(lambda output: setattr(output, "datatype", datatype))


NO_NUMBERS = np.array([np.inf, np.nan], np.float32).tobytes()
MORE_AXES = of_first(lambda output: output.shape.append(1))
TYPES = ("BF16", "FP16", "FP64", "INT32", "UINT8", "BYTES")
FAULTS: dict[str, tuple[Change, str]] = {
    "lacks an output": (lambda response: setattr(response.outputs[1], "name", "OTHER"), "COUNT"),
    **{name: (retyped(name), "OUT") for name in TYPES},
    "another shape": (of_first(lambda output: output.shape.__setitem__(-1, 2)), "OUT"),
    "other rows": (of_first(lambda output: output.shape.__setitem__(0, 3)), "OUT"),
    "another rank": (MORE_AXES, "OUT"),
    "an axis too few": (of_first(lambda output: output.shape.pop(0)), "OUT"),
    "too few bytes": (content(lambda values: values[:-4]), "OUT"),
    "no number": (content(lambda values: NO_NUMBERS + values[8:]), "OUT"),
}


@pytest.mark.parametrize(("change", "output"), FAULTS.values(), ids=FAULTS)
def test_undeclared_answer_is_found(change: Change, output: str) -> None:
    assert output in gate(change)[0].fault


@pytest.mark.parametrize(("to", "named"), [(0, "row-0"), (3, "row-3"), (4, "2 samples")])
def test_undeclared_answer_is_named_by_its_request(to: int, named: str) -> None:
    assert named in gate(MORE_AXES, to)[0].fault


def test_dynamic_dimension_accepts_any_length() -> None:
    assert gate(context=model((-1,)))[0].fault == ""
    assert gate(MORE_AXES, context=model((-1,)))[0].fault
    assert gate(context=model((5,)))[0].fault


@pytest.mark.parametrize("wrong", [None, 6, 70, 130])
def test_every_answer_must_be_finite(wrong: int | None) -> None:
    """This includes the answers given alone, of the first eight samples, and samples that no other gate sends."""

    def outputs_of(sample: int) -> dict[str, np.ndarray]:
        return {"OUT": np.full(4, np.nan if sample == wrong else 1.0), "COUNT": np.array([4])}

    evaluation_samples = toy.samples_of({"IN": np.zeros((MAX_SAMPLES + 70, 4), np.float32)})
    asked = iter(range(MAX_SAMPLES, len(evaluation_samples)))

    def rule(samples: np.ndarray, _in_flight: int) -> Arrays:
        (number,) = (next(asked) for _ in samples)
        return {name: values[None] for name, values in outputs_of(number).items()}

    rows = {n: outputs_of(n) for n in range(8)}
    result, _ = gate(context=model(rows=rows, rule=rule, evaluation_samples=evaluation_samples))
    assert result.requests == 5 + 70
    assert (f"row-{wrong}" in result.fault, bool(result.fault)) == (wrong is not None, wrong is not None)


def test_answer_given_alone_must_have_every_output() -> None:
    lacking = model(rows={**given_alone(), 7: {"OUT": np.ones(4)}})
    assert "COUNT" in gate(context=lacking)[0].fault


def size_gate(sizes: Iterable[int], served: ServedModel, **changes: Any) -> tuple[GateResult, list[Any]]:
    """The result for a model that takes batches of these sizes alone, and the requests that it receives."""

    def reply(_number: int, request: Any) -> Any:
        is_taken = request.inputs[0].shape[0] in sizes
        return answer_to(request) if is_taken else "not this size"

    model = replying(served, reply)
    return largest_batch_gate(gate_context(model, **changes)).result, model.received


def test_batches_of_every_size_and_one_more_are_sent_if_any_is_allowed() -> None:
    result, received = size_gate((1, 2, 3, 4), served_model(count=3))
    assert (result.fault, result.requests) == ("", 5)
    contents = {request.inputs[0].shape[0]: request.raw_input_contents[0] for request in received}
    assert contents.keys() == {1, 2, 3, 4, 5}
    assert contents[4] == ROWS[[0, 1, 2, 0]].tobytes()
    assert contents[5] == ROWS[[0, 1, 2, 0, 1]].tobytes()
    assert received[-1].inputs[0].shape[0] == 5
    result, _ = size_gate(range(1, 1026), served_model(), largest=10**9)
    assert (result.fault, "is not sent" in result.tried) == ("", True), "a configuration may allow any number"
    for preferred, refused in (((), 2047), ((1500,), 1499)):
        result, _ = size_gate(range(1, 1026), served_model(), largest=2048, preferred=preferred)
        assert f"a batch of {refused}, of 2048" in result.fault
    result, received = size_gate((), served_model(batched=False))
    assert (result.fault, result.requests, received) == ("", 0, [])


@pytest.mark.parametrize(
    ("largest", "sizes", "wrong"),
    [
        (4, (1, 2, 3), 4),
        (4, (1, 3, 4), 2),
        (4, (1, 2, 3, 4, 5), 5),
        (1, (1,), None),
        (1, (1, 2), 2),
    ],
)
def test_undeclared_batch_sizes_fail(largest: int, sizes: tuple[int, ...], wrong: int | None) -> None:
    text = size_gate(sizes, served_model(), largest=largest)[0].fault
    assert (f"a batch of {wrong}" in text, bool(text)) == (wrong is not None, wrong is not None)


@pytest.mark.parametrize(
    ("code", "words", "said"),
    [
        (grpc.StatusCode.UNAVAILABLE, "not " + "very " * 200 + "now", "not very very"),
        (grpc.StatusCode.INTERNAL, "", "INTERNAL"),
    ],
)
def test_refusal_of_live_server_counts_with_any_status(code: grpc.StatusCode, words: str, said: str) -> None:
    with served_by(lambda _request, call: call.abort(code, words)) as model:
        (reply,) = model.responses([[0]])
        for in_flight, where in ((1, "alone"), (2, "b001-c002")):
            with pytest.raises(ProofError, match=f"where: {model.name}, {where}\n"):
                model.ask([[0], [1]], in_flight)
    assert isinstance(reply, str)
    assert said in reply
    assert len(reply) < 400, "a server may say much"


def test_replies_keep_request_order() -> None:
    with served_by(careful) as model:
        replies = model.responses([[2], [0, 1], [0]])
    assert replies.pop(1) == "not as declared"
    contents = [reply.raw_output_contents[0] for reply in replies]
    assert contents == [(2 * SENT[sample]).tobytes() for sample in (2, 0)]


def test_requested_number_of_requests_is_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them get an answer, however large."""
    monkeypatch.setattr(requests, "_MAX_BYTES", 1)
    now = SimpleNamespace(count=0, most=0)
    lock = threading.Lock()

    def slow(request: Any, context: grpc.ServicerContext) -> Any:
        with lock:
            now.count += 1
            now.most = max(now.most, now.count)
        time.sleep(0.02)
        with lock:
            now.count -= 1
        return right(request, context)

    with served_by(slow) as model:
        answers = model.ask([[0], [1], [2]])
        assert now.most == 1
        assert len(model.ask([[0], [1], [2], [0], [1], [2]], 3)) == 6
        assert now.most in (2, 3), "a busy machine may not get to the third in time"
    assert [answer.sample_indices.tolist() for answer in answers] == [[0], [1], [2]]
    np.testing.assert_array_equal(answers[2].outputs["OUT"], 2 * SENT[[2]])
