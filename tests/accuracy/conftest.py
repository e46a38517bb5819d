"""A server that computes the toy network itself, answers in random order, and may spoil its answers."""

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import np_to_triton_dtype

from tests import toy
from tritonproof.serve.connection import grpc_client
from tritonproof.serve.in_flight import IN_FLIGHT
from tritonproof.serve.messages import raw_content
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSpec

COUNT = 40


@dataclass
class Answer:
    """An answer before it is sent."""

    id: str
    outputs: dict[str, np.ndarray]
    cut: int = 0
    """How many bytes each output lacks at its end."""

    def response(self) -> Any:
        response = service_pb2.ModelInferResponse(id=self.id)
        for name, values in self.outputs.items():
            datatype = np_to_triton_dtype(values.dtype)
            response.outputs.add(name=name, datatype=datatype, shape=values.shape)
            content = raw_content(values, datatype)
            response.raw_output_contents.append(content[: len(content) - self.cut])
        return response


Change = Callable[[Answer], Answer | None]
"""Takes each answer, and returns it, spoilt or not, or None for no answer at all."""


@dataclass
class ToyServer(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Answers requests in random order."""

    change: Change
    sizes: list[int] = field(default_factory=list)
    most_rows_in_flight: int = 0
    order: list[int] = field(default_factory=list)
    _waiting: list[tuple[int, threading.Event]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ended: threading.Event = field(default_factory=threading.Event)

    def ModelInfer(self, request: Any, _context: Any) -> Any:  # noqa: N802
        data = np.frombuffer(request.raw_input_contents[0], np.float32).reshape(list(request.inputs[0].shape))
        turn = threading.Event()
        with self._lock:
            self.sizes.append(len(data))
            self._waiting.append((len(data), turn))
            rows = sum(size for size, _ in self._waiting)
            self.most_rows_in_flight = max(self.most_rows_in_flight, rows)
        while not (turn.wait(0.05) or self._ended.is_set()):
            pass
        with self._lock:
            self.order.append(int(request.id))
            changed = self.change(Answer(request.id, dict(toy.network({toy.INPUT: data}))))
        if changed is None:
            self._ended.wait()
            return service_pb2.ModelInferResponse()
        return changed.response()

    def take_turns(self) -> None:
        generator = random.Random(0)
        while not self._ended.wait(0.001):
            with self._lock:
                if self._waiting:
                    self._waiting.pop(generator.randrange(len(self._waiting)))[1].set()

    @contextlib.contextmanager
    def serve(self) -> Iterator[Server]:
        server = grpc.server(ThreadPoolExecutor(IN_FLIGHT))
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(self, server)
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        threading.Thread(target=self.take_turns, daemon=True).start()
        with contextlib.closing(grpc_client(address)) as client:
            yield Server(ServerSpec("embedded"), address, "2.51.0", None, client)
        self._ended.set()
        server.stop(0).wait()


Connect = Callable[..., tuple[ToyServer, Server]]


@pytest.fixture
def connect() -> Iterator[Connect]:
    with contextlib.ExitStack() as stack:

        def connect(change: Change = lambda answer: answer) -> tuple[ToyServer, Server]:
            toy_server = ToyServer(change)
            return toy_server, stack.enter_context(toy_server.serve())

        yield connect
