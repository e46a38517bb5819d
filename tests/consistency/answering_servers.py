"""Servers of a model that answer as a test has it: over gRPC and over HTTP."""

import dataclasses
import json
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2

from fixtures.accuracy.compare_answers import Closeness
from fixtures.consistency.repeat_bounds import Alone, alone_of
from fixtures.consistency.served import ServedModel
from fixtures.measure.load_data import LoadData
from fixtures.serve.connection import grpc_client
from fixtures.serve.server import Server
from fixtures.spec import LoadPoint, Tensor
from tests import toy

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)
IDS = ["a", "b", "c"]
NEAR = Closeness(1e-4, 1e-4, 1.0)
ALONE: Alone = alone_of(IDS, {n: {"OUT": 2 * ROWS[n]} for n in range(3)}, NEAR)
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
    job = toy.job(LoadPoint("online", 1, 1), "toy", 0.001)
    model = dataclasses.replace(
        job.model, inputs=(Tensor("IN", "FP32", (4,)),), outputs=(Tensor("OUT", "FP32", (4,)),)
    )
    try:
        one = Server("embedded", address, "2.51.0", None, client, http_address=http_address)
        data = LoadData(Path(), IDS, {"IN": ROWS})
        yield ServedModel(dataclasses.replace(job, server=one, model=model, data=data), 4, NEAR)
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
