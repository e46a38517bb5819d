"""Servers of a model with answers that a test chooses, over gRPC, HTTP and shared memory."""

import dataclasses
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2
from tritonclient.utils import triton_to_np_dtype

from tests.client.memory_server import Seen, location, region_calls
from tests.gates import made_up_model
from tests.gates.made_up_model import CASE_LIMITS
from tests.helpers import grpc_server
from tritonproof.client.input_data import InputData
from tritonproof.client.requests import ServedModel
from tritonproof.gates.context import SingleAnswers, make_single_answers
from tritonproof.serve.messages import raw_content
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSpec
from tritonproof.spec import Tensor

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)
IDS = ["a", "b", "c"]
SINGLES: SingleAnswers = make_single_answers(IDS, {n: {"OUT": 2 * ROWS[n]} for n in range(3)}, CASE_LIMITS)
RpcHandler = Callable[[Any, grpc.ServicerContext], Any]


def right(request: Any, _context: grpc.ServicerContext) -> Any:
    """Twice the first input, whatever else the request says."""
    response = service_pb2.ModelInferResponse(model_name=request.model_name)
    values = np.frombuffer(request.raw_input_contents[0] if request.raw_input_contents else b"", np.float32)
    response.outputs.add(name="OUT", datatype="FP32", shape=[1, values.size])
    response.raw_output_contents.append((2 * values).tobytes())
    return response


def careful(request: Any, context: grpc.ServicerContext) -> Any:
    """The same, but refuses a request that the model does not declare."""
    tensors = [(data.name, data.datatype, list(data.shape)) for data in request.inputs]
    is_right = tensors == [("IN", "FP32", [1, 4])] and len(request.outputs) == 1
    if not is_right or len(request.raw_input_contents[0]) != 16:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not as declared")
    return right(request, context)


@contextmanager
def served_by(
    answer: RpcHandler, http_address: str | None = None, more: Mapping[str, RpcHandler] | None = None
) -> Iterator[ServedModel]:
    """A model on a gRPC server with this answer to inferences, and `more` to other calls."""
    live = service_pb2.ServerLiveResponse(live=True)
    answers = {"ModelInfer": answer, "ServerLive": lambda _request, _context: live, **(more or {})}
    with grpc_server(answers) as (address, client):
        server = Server(ServerSpec("embedded"), address, "2.51.0", None, client, http_address=http_address)
        yield made_up_model.served_model(server=server, data=InputData(IDS, {"IN": ROWS}))


@contextmanager
def web_server(factor: float) -> Iterator[str]:
    """An HTTP endpoint that answers `factor` times the input."""

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


class Memory:
    """A model whose tensors are in regions of shared memory that are registered with its server."""

    def __init__(self) -> None:
        self.seen = Seen()
        self.factor = 2

    def answer(self, request: Any, _context: grpc.ServicerContext) -> Any:
        """`factor` times IN, plus BIAS; and each BIAS as a text, always in the message."""
        raw, values = list(request.raw_input_contents), dict[str, Any]()
        for tensor in request.inputs:
            if "shared_memory_region" in tensor.parameters:
                region, begin, size = location(tensor, self.seen.regions)
                content = self.seen.regions[region][begin : begin + size]
            else:
                content = raw.pop(0)
            dtype = np.float32 if tensor.datatype == "FP32" else np.int64
            values[tensor.name] = np.frombuffer(content, dtype).reshape(tensor.shape)
        out = (self.factor * values["IN"] + values["BIAS"]).astype(np.float32)
        texts = np.array([b"text of %d" % value for value in values["BIAS"].flat], object)
        texts = texts.reshape(values["BIAS"].shape)
        response = service_pb2.ModelInferResponse(model_name=request.model_name)
        outputs = {"OUT": ("FP32", out), "TEXT": ("BYTES", texts), "SAME": ("FP32", out)}
        for tensor in request.outputs:
            datatype, array = outputs[tensor.name]
            content = raw_content(array.astype(triton_to_np_dtype(datatype)), datatype)
            response.outputs.add(name=tensor.name, datatype=datatype, shape=array.shape)
            if "shared_memory_region" in tensor.parameters:
                region, begin, size = location(tensor, self.seen.regions)
                assert len(content) <= size, "there is room"
                self.seen.regions[region][begin : begin + len(content)] = content
                content = b""
            response.raw_output_contents.append(content)
        return response


BIASES = np.array([[3], [5], [8]])
_OUT = (2 * ROWS + BIASES).astype(np.float32)
_TEXT = np.array([[b"text of 3"], [b"text of 5"], [b"text of 8"]], object)
_ALONE = {n: {"OUT": _OUT[n], "TEXT": _TEXT[n], "SAME": _OUT[n]} for n in range(3)}
IN_MEMORY = make_single_answers(IDS, _ALONE, CASE_LIMITS)


@contextmanager
def with_memory(memory: Memory, *, batched: bool = True) -> Iterator[ServedModel]:
    """A model of two inputs and three outputs on a server with shared memory."""
    with served_by(memory.answer, more=region_calls(memory.seen)) as served:
        outputs = Tensor("OUT", "FP32", (4,)), Tensor("TEXT", "BYTES", (1,)), Tensor("SAME", "FP32", (4,))
        more = Tensor("MORE", "FP32", (4,), optional=True)
        inputs = Tensor("IN", "FP32", (4,)), more, Tensor("BIAS", "INT64", (1,))
        model = dataclasses.replace(
            served.model, inputs=inputs, outputs=outputs, batch_axis="open" if batched else "none"
        )
        data = InputData(IDS, {"IN": ROWS, "BIAS": BIASES})
        yield dataclasses.replace(served, model=model, data=data)
