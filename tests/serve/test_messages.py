"""Tensors of every Triton type have the computed size and round trip; conversations with a real Triton are compared."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tritonclient import grpc, http
from tritonclient.grpc import service_pb2
from tritonclient.utils import triton_to_np_dtype

from tests.helpers import present
from tests.toy import samples_of
from tests.user_models.repositories import COUNTING_DOWN, IN_PARTS, SUMMING, config, write_model
from tritonproof.base.errors import ProofError
from tritonproof.client.streams import StreamedRequest, converse
from tritonproof.gates.conversations import compare_conversations
from tritonproof.run.repository_case import send_first_request
from tritonproof.safe_io.arrays import values_of
from tritonproof.serve.launch import serve
from tritonproof.serve.loading import load_folder
from tritonproof.serve.messages import raw_content, read_output
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSetup, ServerSpec
from tritonproof.spec import Model, Tensor
from tritonproof.user_models.model_from_config import as_model
from tritonproof.user_models.model_repository import entries_in, link_repository

TYPES = (
    *("BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"),
    *("FP16", "BF16", "FP32", "FP64"),
)
"""Triton's types whose elements have a fixed size. Source: tritonclient.utils.triton_to_np_dtype, 2.51."""


@pytest.mark.parametrize("datatype", TYPES)
def test_tensor_types_have_computed_size_and_round_trip(datatype: str) -> None:
    values = np.array([[0, 1, 1], [1, 0, 1]]).astype(triton_to_np_dtype(datatype))
    content = raw_content(values, datatype)
    assert len(content) == 2 * Tensor("X", datatype, (3,)).row_bytes
    np.testing.assert_array_equal(present(values_of(content, datatype, (2, 3))), values)


def test_string_size_is_at_least_its_length_prefix() -> None:
    texts = np.array([[b"", b"four"]], object)
    assert len(raw_content(texts, "BYTES")) == Tensor("X", "BYTES", (2,)).row_bytes + len(b"four")


@pytest.mark.parametrize("datatype", ["BYTES", "INT64", "BF16"])
def test_output_without_elements_keeps_its_type(datatype: str) -> None:
    output: dict[str, Any] = {"name": "X", "datatype": datatype, "shape": [1, 0]}
    body = json.dumps({"outputs": [{**output, "parameters": {"binary_data_size": 0}}]}).encode()
    response = service_pb2.ModelInferResponse()
    response.outputs.add(**output)
    results = http.InferResult.from_response_body(body, header_length=len(body)), grpc.InferResult(response)
    read = [present(read_output(result, "X")) for result in results]
    expected = np.empty((1, 0), triton_to_np_dtype(datatype))
    assert [(values.dtype, values.shape) for values in read] == 2 * [(expected.dtype, expected.shape)]


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
SAMPLES = samples_of({"IN": np.arange(6, dtype=np.int32)[:, None] + np.array([1, 2, 3], np.int32)})
Models = tuple[Server, dict[str, Model]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    """A Triton with models that answer in parts, sum up each sequence, or leak sums between sequences."""
    root = tmp_path_factory.mktemp("repository")
    decoupled = "model_transaction_policy { decoupled: true }"
    iterative = "sequence_batching { iterative_sequence: true }"
    for name, code, policy in (("parts", IN_PARTS, ""), ("down", COUNTING_DOWN, iterative)):
        more = f'backend: "python" {policy} {decoupled}'
        write_model(root, name, code, config("INT32", "3", batch=0, more=more, answer="1"))
    picky = SUMMING.replace("        return [self.answer", ONE_FLAG + "        return [self.answer")
    leaks = SUMMING.replace("key = ", "key = 0 and ")
    for name, code in (("sums", SUMMING), ("picky", picky), ("leaks", leaks)):
        write_model(root, name, code, config("INT32", "3", more=_SEQUENCE))
    found = entries_in(root, "--repository")
    linked = link_repository(found, tmp_path_factory.mktemp("linked"))
    log = tmp_path_factory.mktemp("logs") / "log"
    with serve(ServerSpec("embedded"), ServerSetup(linked, log, "cpu")) as server:
        for entry in found:
            load_folder(server, Path(entry.name))
        yield server, {entry.name: as_model(entry) for entry in found}


def test_all_answers_to_a_request_are_compared(models: Models) -> None:
    server, by_name = models
    parts, down = (compare_conversations(server, by_name[name], SAMPLES) for name in ("parts", "down"))
    assert (parts.fault, parts.tried) == ("", "192 answers to 64 requests, sent again")
    assert down.fault == "", "a sequence of one request may have several answers"
    assert int(down.tried.partition(" ")[0]) > 16


def test_sequence_is_independent_of_another_sequence(models: Models) -> None:
    server, by_name = models
    sums, leaks = (compare_conversations(server, by_name[name], SAMPLES) for name in ("sums", "leaks"))
    assert (sums.fault, sums.requests) == ("", 5 * 16)
    assert sums.tried.startswith("16 answers to a sequence of 16 requests")
    assert "beside another sequence" in leaks.fault


def test_sequence_start_and_end_are_separate_requests_if_needed(models: Models) -> None:
    server, by_name = models
    for name in ("down", "picky"):
        assert send_first_request(server, by_name[name], None).samples
    with pytest.raises(ProofError, match="the first or the last"):
        converse(server, by_name["picky"], [StreamedRequest(SAMPLES.read([0]))])
