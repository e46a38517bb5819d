"""A way to the server, or a server, that does wrong what Triton itself never does: stand-ins that answer whatever comes."""

import dataclasses
import json
import threading
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
from fixtures.gates import refusals, transports
from fixtures.gates.sameness import Rows
from fixtures.gates.served import ServedModel
from fixtures.measure.answers import Closeness
from fixtures.measure.load_data import LoadData
from fixtures.serve.connection import grpc_client
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


@contextmanager
def served_by(answer: Answer, http_address: str | None = None) -> Iterator[ServedModel]:
    """A model on a gRPC server that answers so."""
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
