"""Sequences, and models that give any number of answers, on a real Triton and on one that forgets."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from fixtures.given.as_found import declared
from fixtures.given.linked import link_repository
from fixtures.given.repository import models_in
from fixtures.prove.same_conversation import compare_conversations
from fixtures.serve.choice import Choice
from fixtures.serve.conversation import Answers, Message
from fixtures.serve.launch import serve
from fixtures.serve.server import Server
from fixtures.spec import Model, Samples
from tests.repositories import IN_PARTS, SUMMING, config, write_model

_SEQUENCE = """
backend: "python"
sequence_batching { direct {}
  control_input [
    { name: "START" control [{ kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] }] },
    { name: "CORRID" control [{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 }] } ] }
"""
SAMPLES = Samples(
    [f"sample-{number}" for number in range(6)],
    lambda indices: {"IN": np.array(indices, np.int32)[:, None] + np.array([1, 2, 3], np.int32)},
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, dict[str, Model]]]:
    """A Triton with a model that answers in parts, one that sums up by sequence, and one that sums up whatever comes."""
    root = tmp_path_factory.mktemp("repository")
    in_parts = 'backend: "python" model_transaction_policy { decoupled: true }'
    parts = config("INT32", "3", batch=0, more=in_parts)
    write_model(root, "parts", IN_PARTS, parts)
    write_model(root, "sums", SUMMING, config("INT32", "3", more=_SEQUENCE))
    write_model(
        root, "leaks", SUMMING.replace("key = ", "key = 0 and "), config("INT32", "3", more=_SEQUENCE)
    )
    found = models_in(root, "--repository")
    linked = link_repository(found, tmp_path_factory.mktemp("linked"))
    with serve(Choice("embedded"), linked, tmp_path_factory.mktemp("logs") / "log", device="cpu") as server:
        for one in found:
            server.load_as_found(Path(one.name))
        yield server, {one.name: declared(one) for one in found}


def test_all_answers_to_a_request_are_compared(models: tuple[Server, dict[str, Model]]) -> None:
    server, by_name = models

    found = compare_conversations(server, by_name["parts"], SAMPLES)

    assert found.passed
    assert found.answers == 3 * found.requests


def test_a_sequence_gets_the_same_answers_beside_another(models: tuple[Server, dict[str, Model]]) -> None:
    server, by_name = models

    sums, leaks = (compare_conversations(server, by_name[name], SAMPLES) for name in ("sums", "leaks"))

    assert (sums.kind, sums.answers, sums.passed) == ("sequence", sums.requests, True)
    assert not leaks.passed
    assert "beside another sequence" in leaks.difference


def test_answers_that_go_missing_the_second_time_are_found(models: tuple[Server, dict[str, Model]]) -> None:
    server, by_name = models
    asked: list[int] = []

    def forget(_server: Server, _model: Model, messages: Sequence[Message]) -> list[Answers]:
        asked.append(len(messages))
        return [[{"OUT": np.zeros(1)}] * (2 - len(asked) // 2) for _ in messages]

    found = compare_conversations(server, by_name["parts"], SAMPLES, say=forget)

    assert not found.passed
    assert "request 1 got 2 answers, and 1" in found.difference
