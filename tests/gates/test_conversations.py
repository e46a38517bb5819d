"""Conversations keep a model's limit of concurrent sequences; undeclared answers and small faults are found."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tests import toy
from tritonproof.base.errors import AccuracyError
from tritonproof.client.streams import StreamedAnswers, StreamedRequest
from tritonproof.gates import conversations
from tritonproof.gates.conversations import compare_conversations
from tritonproof.record.correctness import GateResult
from tritonproof.serve.server import Server
from tritonproof.spec import Exchange, Model, Samples, Tensor
from tritonproof.user_models.model_from_config import sequences_at_once
from tritonproof.user_models.onnx_model import user_tolerance

MODEL = toy.model(outputs=(Tensor("OUT", "FP32", (1,)),), exchange="sequence")
SAMPLES = toy.samples_of({"IN": np.arange(2, dtype=np.float32)[:, None]})
Answering = Callable[[int, StreamedRequest], StreamedAnswers]
"""The answers to a request, by its number since the start."""


def result_of(
    answering: Answering, model: Model = MODEL, samples: Samples = SAMPLES, at_once: int = 1
) -> GateResult:
    """The gate's result for a model that answers in this way."""
    numbers = itertools.count()

    def send(_server: Server, _model: Model, requests: Sequence[StreamedRequest]) -> list[StreamedAnswers]:
        return [answering(next(numbers), request) for request in requests]

    return compare_conversations(cast(Any, None), model, samples, at_once, send)


@pytest.mark.parametrize(
    ("config", "at_once"),
    [
        ("max_batch_size: 0 sequence_batching { }", 1),
        ("max_batch_size: 4 sequence_batching { direct { } }", 4),
        ("instance_group [ { count: 3 } ] sequence_batching { }", 3),
        ("instance_group [ { count: 2 gpus: [ 0, 1 ] } ] sequence_batching { }", 4),
        ("sequence_batching { oldest { max_candidate_sequences: 8 } } instance_group [ { count: 2 } ]", 16),
    ],
)
def test_concurrent_sequence_limit_follows_configuration(config: str, at_once: int) -> None:
    assert sequences_at_once(text_format.Parse(config, ModelConfig())) == at_once


@pytest.mark.parametrize("at_once", [1, 2])
def test_sequences_overlap_only_if_model_allows(at_once: int) -> None:
    most = 0

    def send(_server: Server, _model: Model, requests: Sequence[StreamedRequest]) -> list[StreamedAnswers]:
        nonlocal most
        most = max(most, len({request.sequence for request in requests}))
        return [[{"OUT": request.rows["IN"]}] for request in requests]

    gate = compare_conversations(cast(Any, None), MODEL, SAMPLES, at_once, send)
    assert (gate.fault, gate.has_compared, "alone" in gate.tried, most) == ("", True, at_once == 1, at_once)


@pytest.mark.parametrize(
    "wrong", [np.zeros((1, 1)), np.zeros((1, 2), np.float32), np.full((1, 1), np.nan, np.float32)]
)
def test_undeclared_conversation_answer_is_an_error(wrong: np.ndarray) -> None:
    with pytest.raises(AccuracyError):
        result_of(lambda *_request: [{"OUT": wrong}])


@pytest.mark.parametrize(("count", "named"), [(1, False), (0, True)])
def test_output_that_all_answers_lack_is_a_fault(count: int, named: bool) -> None:
    def answers(number: int, request: StreamedRequest) -> StreamedAnswers:
        names = ("OUT", "MORE") if number % 16 < count else ("OUT",)
        return [dict.fromkeys(names, request.rows["IN"])]

    model = dataclasses.replace(MODEL, outputs=(*MODEL.outputs, Tensor("MORE", "FP32", (1,))))
    assert ("MORE" in result_of(answers, model).fault) == named


def test_two_servers_without_answers_are_no_match(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "converse", lambda _server, _model, requests: [[] for _ in requests])
    nothing: Any = None
    gate = conversations.compare_server_conversations(nothing, nothing, MODEL, SAMPLES, "old")
    assert (gate.fault, gate.has_compared) == ("no request got any answer", True)


# --- simulated models ---------------------------------------------------------------------------------------

SIX = toy.samples_of({"IN": np.arange(6, dtype=np.float32)[:, None] + np.array([1, 2, 3], np.float32)})


def parts(_number: int, request: StreamedRequest) -> StreamedAnswers:
    """Each number of the request as a separate part."""
    return [{"OUT": np.array([value], np.float32)} for value in request.rows["IN"].reshape(-1)]


def of_parts(count: int) -> Answering:
    """So many parts in one of 50 requests."""
    return lambda number, request: (2 * parts(number, request))[: count if number % 50 == 49 else 3]


def off(number: int, request: StreamedRequest) -> StreamedAnswers:
    """The answer is off by a thousandth in one of 30 requests."""
    factor = np.float32(1.001 if number % 30 == 29 else 1)
    return [{"OUT": factor * part["OUT"]} for part in parts(number, request)]


class Summing:
    """Sums up each sequence, but starts from a share of an earlier sum: of the same sequence or of any."""

    def __init__(self, share: float, *, of_any: bool = False) -> None:
        self._share, self._of_any = share, of_any
        self._sums: dict[int, np.ndarray] = {}

    def __call__(self, _number: int, request: StreamedRequest) -> StreamedAnswers:
        key = 0 if self._of_any else request.sequence
        previous = self._sums.get(key, np.zeros((1, 3)))
        own = self._sums.get(request.sequence, previous)
        before = self._share * previous if request.is_first else own
        self._sums[request.sequence] = self._sums[key] = before + request.rows["IN"]
        return [{"OUT": self._sums[request.sequence].astype(np.float32)}]


@pytest.mark.parametrize(
    ("exchange", "right", "fault"),
    [
        pytest.param("decoupled", parts, of_parts(2), id="a part is missing"),
        pytest.param("decoupled", parts, of_parts(4), id="a part too many"),
        pytest.param("decoupled", parts, off, id="a wrong part"),
        pytest.param("sequence", Summing(0.0), Summing(0.001), id="a leak from the last of its number"),
        pytest.param("sequence", Summing(0.0), Summing(0.001, of_any=True), id="a leak from any sequence"),
    ],
)
def test_occasional_or_small_fault_of_a_conversation_is_found(
    exchange: Exchange, right: Answering, fault: Answering
) -> None:
    is_sequence = exchange == "sequence"
    outputs = (Tensor("OUT", "FP32", (3 if is_sequence else 1,)),)
    model = dataclasses.replace(
        MODEL, exchange=exchange, batch_axis="open" if is_sequence else "none", outputs=outputs
    )
    tolerant = dataclasses.replace(model, tolerances={"": user_tolerance(0.05, 1.0)})

    def passes(answering: Answering, model: Model = model) -> bool:
        return not result_of(answering, model, SIX, 2).fault

    assert passes(right)
    assert not passes(fault)
    assert passes(fault, tolerant) is (is_sequence or fault is off), "but other numbers of parts"
