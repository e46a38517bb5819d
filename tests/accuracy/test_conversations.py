"""Conversations keep a model's limit of concurrent sequences, and undeclared answers are errors."""

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from fixtures.accuracy.conversations import compare_conversations
from fixtures.errors import AccuracyError
from fixtures.models import all_models
from fixtures.serve.messages import Answers, Message
from fixtures.serve.server import Server
from fixtures.spec import Model, Samples, Tensor
from fixtures.user_models.repository_model import sequences_at_once

MODEL = dataclasses.replace(
    all_models()[0], outputs=(Tensor("OUT", "FP32", (1,)),), batched=True, exchange="sequence"
)
SAMPLES = Samples(["one", "two"], lambda indices: {"IN": np.array(indices, np.float32)[:, None]})


@pytest.mark.parametrize(
    ("config", "at_once"),
    [
        ("max_batch_size: 0 sequence_batching { }", 1),
        ("max_batch_size: 4 sequence_batching { direct { } }", 4),
        ("instance_group [ { count: 3 } ] sequence_batching { }", 3),
        ("sequence_batching { oldest { max_candidate_sequences: 8 } } instance_group [ { count: 2 } ]", 16),
    ],
)
def test_concurrent_sequence_limit_follows_configuration(config: str, at_once: int) -> None:
    assert sequences_at_once(text_format.Parse(config, ModelConfig())) == at_once


@pytest.mark.parametrize("at_once", [1, 2])
def test_sequences_overlap_only_if_model_allows(at_once: int) -> None:
    most = 0

    def send(_server: Server, _model: Model, messages: Sequence[Message]) -> list[Answers]:
        nonlocal most
        most = max(most, len({message.sequence for message in messages}))
        return [[{"OUT": message.rows["IN"]}] for message in messages]

    comparison = compare_conversations(cast(Any, None), MODEL, SAMPLES, at_once, send)

    assert (comparison.passed, comparison.alone, most) == (True, at_once == 1, at_once)


@pytest.mark.parametrize(
    "wrong", [np.zeros((1, 1)), np.zeros((1, 2), np.float32), np.full((1, 1), np.nan, np.float32)]
)
def test_undeclared_conversation_answer_is_an_error(wrong: np.ndarray) -> None:
    def send(_server: Server, _model: Model, messages: Sequence[Message]) -> list[Answers]:
        return [[{"OUT": wrong}] for _message in messages]

    with pytest.raises(AccuracyError):
        compare_conversations(cast(Any, None), MODEL, SAMPLES, 1, send)
