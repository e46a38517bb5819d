"""A way to the server, or a server, that does wrong what Triton itself never does: stand-ins that answer whatever comes."""

import dataclasses
import json
import mmap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from fixtures.errors import ProofError
from fixtures.gates import refusals, replies, served, transports
from fixtures.gates.sameness import Rows
from fixtures.gates.served import ServedModel
from fixtures.measure.answers import Closeness
from fixtures.measure.load_data import LoadData
from fixtures.measure.requests import request_for
from fixtures.serve.connection import grpc_client
from fixtures.serve.messages import raw_content
from fixtures.serve.server import Server
from fixtures.spec import LoadPoint, Tensor
from tests import simulated

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)
ALONE: Rows = {n: {"OUT": 2 * ROWS[n]} for n in range(3)}
Answer = Callable[[Any, grpc.ServicerContext], Any]


def right(request: Any, _context: grpc.ServicerContext) -> Any:
    """Twice the first input, whatever else the request says."""
    response = service_pb2.ModelInferResponse(model_name=request.model_name)
    values = np.frombuffer(request.raw_input_contents[0] if request.raw_input_contents else b"", np.float32)
    response.outputs.add(name="OUT", datatype="FP32", shape=[1, values.size])
    response.raw_output_contents.append((2 * values).tobytes())
    return response


def careful(request: Any, context: grpc.ServicerContext) -> Any:
    """The same, where the request is as the model declares it."""
    (one,) = (
        request.inputs if len(request.inputs) == 1 else (service_pb2.ModelInferRequest.InferInputTensor(),)
    )
    sound = (one.name, one.datatype, list(one.shape)) == ("IN", "FP32", [1, 4]) and len(request.outputs) == 1
    if not sound or len(request.raw_input_contents[0]) != 16:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not as declared")
    return right(request, context)


Handlers = dict[str, grpc.RpcMethodHandler]


@contextmanager
def served_by(
    answer: Answer, http_address: str | None = None, more: Handlers | None = None
) -> Iterator[ServedModel]:
    """A model on a gRPC server that answers so, and answers `more` than inferences."""
    handlers = {
        "ModelInfer": grpc.unary_unary_rpc_method_handler(
            answer,
            service_pb2.ModelInferRequest.FromString,
            service_pb2.ModelInferResponse.SerializeToString,
        ),
        "ServerLive": grpc.unary_unary_rpc_method_handler(
            lambda _request, _context: service_pb2.ServerLiveResponse(live=True),
            service_pb2.ServerLiveRequest.FromString,
            service_pb2.ServerLiveResponse.SerializeToString,
        ),
        **(more or {}),
    }
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("inference.GRPCInferenceService", handlers)]
    )
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    client = grpc_client(address)
    job = simulated.job(LoadPoint("online", 1, 1), "toy", 0.001)
    model = dataclasses.replace(
        job.model, inputs=(Tensor("IN", "FP32", (4,)),), outputs=(Tensor("OUT", "FP32", (4,)),)
    )
    try:
        one = Server("embedded", address, "2.51.0", None, client, http_address=http_address)
        data = LoadData(Path(), ["a", "b", "c"], {"IN": ROWS})
        yield ServedModel(
            dataclasses.replace(job, server=one, model=model, data=data), 4, Closeness(1e-4, 1e-4, 1.0), 0.2
        )
    finally:
        client.close()
        server.stop(None).wait()


@contextmanager
def web_server(factor: float) -> Iterator[str]:
    """An HTTP endpoint that answers with so many times the input."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            header = int(self.headers.get("Inference-Header-Content-Length", len(body)))
            values = factor * np.frombuffer(body[header:], np.float32)
            output = {"name": "OUT", "datatype": "FP32", "shape": [1, 4], "data": values.tolist()}
            content = json.dumps({"model_name": "toy", "outputs": [output]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        thread = threading.Thread(target=web.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{web.server_port}"
        web.shutdown()
        thread.join()


def test_a_way_that_gives_other_answers_is_named() -> None:
    with web_server(2.0) as address, served_by(careful, address) as model:
        found = transports.transports(model, ALONE, shared_memory=False)
        assert (found.wrong, found.tried) == ("", "gRPC, HTTP")
    with web_server(2.5) as address, served_by(careful, address) as model:
        found = transports.transports(model, ALONE, shared_memory=False)
        assert found.wrong.startswith("over HTTP ")
        assert "OUT[" in found.wrong


def test_a_way_that_refuses_is_named() -> None:
    with served_by(careful) as model:
        found = transports.transports(model, ALONE, shared_memory=True)

    assert found.wrong.startswith("over gRPC with shared memory a request was refused")


def test_a_careful_server_passes() -> None:
    with served_by(careful) as model:
        found = refusals.malformed(model, ALONE)

    assert (found.wrong, found.requests) == ("", 12)


def test_a_server_that_answers_malformed_requests_fails() -> None:
    with served_by(right) as model:
        assert "was answered, not refused" in refusals.malformed(model, ALONE).wrong
        assert "a batch of 5 was answered, and 4 is declared" in refusals.largest_batch(model).wrong


def test_a_malformed_request_that_spoils_the_next_one_is_named() -> None:
    spoilt = SimpleNamespace(now=False)

    def answer(request: Any, context: grpc.ServicerContext) -> Any:
        try:
            response = careful(request, context)
        except Exception:
            spoilt.now = any(one.name == "no_such_input" for one in request.inputs)
            raise
        if spoilt.now:
            response.raw_output_contents[0] = b"\0" * 16
        return response

    with served_by(answer) as model:
        found = refusals.malformed(model, ALONE)

    assert found.wrong == "after a request with an unknown input the next one got another answer"


def test_a_server_that_is_gone_has_refused_nothing() -> None:
    with served_by(right) as model:
        address = model.job.server.address  # it ends here
    client = grpc_client(address)
    gone = dataclasses.replace(
        model, job=dataclasses.replace(model.job, server=Server("embedded", address, "", None, client))
    )

    with pytest.raises(ProofError, match="answers no more"):
        refusals.malformed(gone, ALONE)
    client.close()


# --- requests that are refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INVALID_ARGUMENT])
def test_a_server_that_lives_has_refused_whatever_its_status_says(code: grpc.StatusCode) -> None:
    def refuse(_request: Any, context: grpc.ServicerContext) -> Any:
        context.abort(code, "not " + "very " * 200 + "now")

    with served_by(refuse) as model:
        (reply,) = replies.send(model.job, [service_pb2.ModelInferRequest(model_name="toy")])

    assert reply.response is None
    assert reply.refusal.startswith("not very very")
    assert 100 < len(reply.refusal) < 400, "a server may say much"


def test_a_refusal_without_words_is_told_by_its_status() -> None:
    def refuse(_request: Any, context: grpc.ServicerContext) -> Any:
        context.abort(grpc.StatusCode.INTERNAL, "")

    with served_by(refuse) as model:
        (reply,) = replies.send(model.job, [service_pb2.ModelInferRequest(model_name="toy")])

    assert "INTERNAL" in reply.refusal


def test_replies_come_in_the_order_of_their_requests() -> None:
    with served_by(careful) as model:
        inputs = [model.job.data.inputs([sample]) for sample in (2, 0)]
        malformed = service_pb2.ModelInferRequest(model_name="toy")
        found = replies.send(
            model.job, [request_for(model.job, inputs[0]), malformed, request_for(model.job, inputs[1])]
        )

    assert [one.refusal for one in found] == ["", "not as declared", ""]
    contents = [one.response.raw_output_contents[0] for one in found if one.response is not None]
    assert contents == [(2 * ROWS[sample]).tobytes() for sample in (2, 0)]


# --- requests in flight --------------------------------------------------------------------------------------


def test_as_many_requests_are_in_flight_as_were_asked_for() -> None:
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
        one = served.ask(model, [[0], [1], [2]])
        assert now.most == 1
        served.ask(model, [[0], [1], [2], [0], [1], [2]], 3)
        assert now.most in (2, 3), "a busy machine may not get to the third in time"
    assert [answer.samples.tolist() for answer in one] == [[0], [1], [2]]
    np.testing.assert_array_equal(one[2].outputs["OUT"], 2 * ROWS[[2]])


def test_each_of_the_gates_samples_is_asked_alone() -> None:
    with served_by(careful) as model:
        found = served.ask_alone(model)

    assert found.keys() == {0, 1, 2}
    for sample, outputs in found.items():
        np.testing.assert_array_equal(outputs["OUT"], ALONE[sample]["OUT"])


# --- shared memory -------------------------------------------------------------------------------------------


class Memory:
    """Regions of shared memory that a server was told of, and an answer that takes its tensors from there."""

    def __init__(self, factor: int = 2) -> None:
        self.regions: dict[str, mmap.mmap] = {}
        self.factor = factor

    @property
    def handlers(self) -> Handlers:
        def register(request: Any, _context: grpc.ServicerContext) -> Any:
            with Path(f"/dev/shm{request.key}").open("r+b") as file:
                self.regions[request.name] = mmap.mmap(file.fileno(), request.byte_size)
            return service_pb2.SystemSharedMemoryRegisterResponse()

        def unregister(request: Any, _context: grpc.ServicerContext) -> Any:
            self.regions.pop(request.name).close()
            return service_pb2.SystemSharedMemoryUnregisterResponse()

        def handler(name: str, answer: Answer) -> grpc.RpcMethodHandler:
            return grpc.unary_unary_rpc_method_handler(
                answer,
                getattr(service_pb2, f"{name}Request").FromString,
                getattr(service_pb2, f"{name}Response").SerializeToString,
            )

        names = {"SystemSharedMemoryRegister": register, "SystemSharedMemoryUnregister": unregister}
        return {name: handler(name, answer) for name, answer in names.items()}

    def place(self, tensor: Any) -> tuple[mmap.mmap, int, int] | None:
        """The region, begin and length of a tensor; None of one in the message."""
        if "shared_memory_region" not in tensor.parameters:
            return None
        one = tensor.parameters
        begin = one["shared_memory_offset"].int64_param
        region = self.regions[one["shared_memory_region"].string_param]
        return region, begin, one["shared_memory_byte_size"].int64_param

    def answer(self, request: Any, _context: grpc.ServicerContext) -> Any:
        """So many times IN plus BIAS, and how many elements that are as a text, which lies in the message always."""
        raw, values = list(request.raw_input_contents), {}
        for one in request.inputs:
            place = self.place(one)
            content = place[0][place[1] : place[1] + place[2]] if place else raw.pop(0)
            dtype = np.float32 if one.datatype == "FP32" else np.int64
            values[one.name] = np.frombuffer(content, dtype).reshape(one.shape)
        out = (self.factor * values["IN"] + values["BIAS"]).astype(np.float32)
        texts = np.array([b"text of %d" % value for value in values["BIAS"].flat], object)
        texts = texts.reshape(values["BIAS"].shape)
        response = service_pb2.ModelInferResponse(model_name=request.model_name)
        for one in request.outputs:
            content = {"OUT": out.tobytes(), "TEXT": raw_content(texts, "BYTES"), "SAME": out.tobytes()}[
                one.name
            ]
            shape = texts.shape if one.name == "TEXT" else out.shape
            response.outputs.add(
                name=one.name, datatype="BYTES" if one.name == "TEXT" else "FP32", shape=shape
            )
            if place := self.place(one):
                assert len(content) <= place[2], "there is room"
                place[0][place[1] : place[1] + len(content)] = content
                content = b""
            response.raw_output_contents.append(content)
        return response


BIASES = np.array([[3], [5], [8]])
IN_MEMORY: Rows = {
    n: {
        "OUT": 2 * ROWS[n] + BIASES[n],
        "TEXT": np.array([b"text of %d" % BIASES[n, 0]], object),
        "SAME": 2 * ROWS[n] + BIASES[n],
    }
    for n in range(3)
}


@contextmanager
def with_memory(memory: Memory, *, has_batch_axis: bool = True) -> Iterator[ServedModel]:
    """A model of two inputs and three outputs on a server with shared memory."""
    with served_by(memory.answer, more=memory.handlers) as one:
        outputs = Tensor("OUT", "FP32", (4,)), Tensor("TEXT", "BYTES", (1,)), Tensor("SAME", "FP32", (4,))
        inputs = (
            Tensor("IN", "FP32", (4,)),
            Tensor("MORE", "FP32", (4,), optional=True),
            Tensor("BIAS", "INT64", (1,)),
        )
        model = dataclasses.replace(one.job.model, inputs=inputs, outputs=outputs)
        data = LoadData(Path(), ["a", "b", "c"], {"IN": ROWS, "BIAS": BIASES})
        job = dataclasses.replace(one.job, model=model, data=data, has_batch_axis=has_batch_axis)
        yield dataclasses.replace(one, job=job)


@pytest.mark.parametrize("has_batch_axis", [True, False])
def test_answers_in_shared_memory_are_those_in_messages(has_batch_axis: bool) -> None:
    memory = Memory()
    with with_memory(memory, has_batch_axis=has_batch_axis) as model:
        found = transports.transports(model, IN_MEMORY, shared_memory=True)

    assert (found.wrong, found.tried, found.requests) == ("", "gRPC, gRPC with shared memory", 6)
    assert found.same is not None
    assert (found.same.answers, found.same.passed) == (6, True)
    assert memory.regions == {}, "none is left"


def test_an_answer_that_is_another_in_shared_memory_is_found() -> None:
    memory = Memory()

    def answer(request: Any, context: grpc.ServicerContext) -> Any:
        memory.factor = 3 if memory.regions else 2
        return Memory.answer(memory, request, context)

    with with_memory(memory) as model, served_by(answer, more=memory.handlers) as other:
        job = dataclasses.replace(model.job, server=other.job.server)
        found = transports.transports(dataclasses.replace(model, job=job), IN_MEMORY, shared_memory=True)

    assert found.wrong.startswith(
        "over gRPC with shared memory 3 of 3 answers differ, the first to sample a: OUT["
    )
    assert found.same is not None
    assert not found.same.passed


def test_four_samples_are_sent_in_each_way_and_fewer_where_there_are() -> None:
    with served_by(right) as model:
        data = dataclasses.replace(
            model.job.data, ids=list("abcdefgh"), rows={"IN": np.tile(ROWS, (3, 1))[:8]}
        )
        many = dataclasses.replace(model, job=dataclasses.replace(model.job, data=data))
        rows = {n: {"OUT": 2 * data.rows["IN"][n]} for n in range(8)}
        assert transports.transports(many, rows, shared_memory=False).requests == 4
        assert transports.transports(many, {7: rows[7]}, shared_memory=False).requests == 1


def test_of_several_ways_that_are_wrong_the_first_is_told() -> None:
    with web_server(2.5) as address, served_by(careful, address) as model:
        wrong: Rows = {n: {"OUT": 3 * ROWS[n] + 1} for n in range(3)}
        found = transports.transports(model, wrong, shared_memory=False)

    assert found.wrong.startswith("over gRPC 3 of 3 answers differ")


def test_a_server_that_ends_at_a_request_has_refused_nothing() -> None:
    with served_by(right) as model:
        address = model.job.server.address  # it ends here
    client = grpc_client(address)
    gone = dataclasses.replace(
        model, job=dataclasses.replace(model.job, server=Server("embedded", address, "", None, client))
    )

    with pytest.raises(ProofError, match=r"(?s)answers no more, at a request over gRPC.*toy"):
        transports.transports(gone, ALONE, shared_memory=False)
    client.close()
