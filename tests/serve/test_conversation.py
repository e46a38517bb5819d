"""Sequences, and models that give any number of answers, on a real Triton and on one that forgets."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from fixtures.errors import ProofError
from fixtures.given.as_found import declared
from fixtures.given.linked import link_repository
from fixtures.given.repository import models_in
from fixtures.prove.same_conversation import compare_conversations
from fixtures.serve.choice import Choice
from fixtures.serve.conversation import Answers, Message, converse
from fixtures.serve.found_samples import sized
from fixtures.serve.launch import serve
from fixtures.serve.server import Server
from fixtures.spec import Model, Samples
from tests.repositories import COUNTING_DOWN, IN_PARTS, SUMMING, config, write_model

_SEQUENCE = """
backend: "python"
sequence_batching { direct {}
  control_input [
    { name: "START" control [{ kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] }] },
    { name: "CORRID" control [{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 }] } ] }
"""
ONE_FLAG = """        both = pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START | pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END
        if any(one.flags() == both for one in requests):
            raise pb_utils.TritonModelException("a request is the first or the last")
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
    iterative = 'backend: "python" sequence_batching { iterative_sequence: true }'
    several = f"{iterative} model_transaction_policy {{ decoupled: true }}"
    write_model(root, "down", COUNTING_DOWN, config("INT32", "3", batch=0, more=several))
    picky = SUMMING.replace("        return [self.answer", ONE_FLAG + "        return [self.answer")
    write_model(root, "picky", picky, config("INT32", "3", more=_SEQUENCE))
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


def test_a_sequence_of_one_request_is_asked_as_one(models: tuple[Server, dict[str, Model]]) -> None:
    server, by_name = models

    assert sized(server, by_name["down"], None).samples
    found = compare_conversations(server, by_name["down"], SAMPLES)

    assert found.passed
    assert found.answers > found.requests


def test_a_model_for_which_no_request_is_the_first_and_the_last_is_asked_with_two(
    models: tuple[Server, dict[str, Model]],
) -> None:
    server, by_name = models

    assert sized(server, by_name["picky"], None).samples
    with pytest.raises(ProofError, match="the first or the last"):
        converse(server, by_name["picky"], [Message(SAMPLES.load([0]))])


def test_answers_that_go_missing_the_second_time_are_found(models: tuple[Server, dict[str, Model]]) -> None:
    server, by_name = models
    asked: list[int] = []

    def forget(_server: Server, _model: Model, messages: Sequence[Message]) -> list[Answers]:
        asked.append(len(messages))
        return [[{"OUT": np.zeros(1)}] * (2 - len(asked) // 2) for _ in messages]

    found = compare_conversations(server, by_name["parts"], SAMPLES, forget)

    assert not found.passed
    assert "request 1 got 2 answers, and 1" in found.difference
