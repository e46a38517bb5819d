"""Sends inference requests without waiting for the answer to each."""

import contextlib
import functools
import queue
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tritonproof.base.errors import ProofError
from tritonproof.serve.connection import REQUEST_S, HangsError, error_text, grpc_channel
from tritonproof.serve.server import Server

IN_FLIGHT = 64
"""The most requests that are sent without an answer; the published scripts allow 128."""
IN_FLIGHT_BYTES = 1 << 28
"""The most bytes of tensors in flight; volumes of 50 MB go out a few at a time."""
_Key = TypeVar("_Key")
_SOON_S = 1.0
"""Seconds after which an answer is late."""


@dataclass
class RequestsInFlight(Generic[_Key]):
    """Requests on a channel of their own, each with a key by which the sender recognises its answer."""

    server: Server
    start: Callable[[bytes], Any]
    """Sends a serialized ModelInferRequest, and returns gRPC's call."""
    where: object
    fix: str | None
    count: int = 0
    done: "queue.SimpleQueue[tuple[_Key, Any]]" = field(default_factory=queue.SimpleQueue)
    """The key and gRPC's call of each answered request; gRPC's threads put them here."""

    def send(self, key: _Key, message: bytes) -> None:
        """Send a serialized ModelInferRequest without waiting for its answer."""
        call = self.start(message)
        call.add_done_callback(lambda done: self.done.put((key, done)))
        self.count += 1

    def next_answer(self) -> tuple[_Key, bytes]:
        """Wait for an answer; returns its request's key and the serialized ModelInferResponse. Raises
        ProofError if a request fails or the server hangs."""
        import grpc

        try:
            try:
                key, call = self.done.get(timeout=_SOON_S)
            except queue.Empty:  # watching for a hanging server takes a thread, so only for a late answer
                key, call = self.server.wait_for(self.done.get)
            answer = bytes(call.result())
        except (grpc.RpcError, HangsError) as error:
            reason = f"{error_text(error, REQUEST_S)}{self.server.log_tail()}"
            raise ProofError(f"a request failed: {reason}", where=self.where, fix=self.fix) from error
        self.count -= 1
        return key, answer


@contextlib.contextmanager
def requests_in_flight(
    server: Server, *, where: object, fix: str | None = None
) -> Iterator[RequestsInFlight[Any]]:
    """Send requests to a server during a block; its end cancels the rest. Errors have `where` and `fix`."""
    with grpc_channel(server.address, server.spec.access) as channel:
        start = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer").future
        # The headers of all requests are read from the user's file once.
        start = functools.partial(start, timeout=REQUEST_S, metadata=server.spec.access.metadata)
        yield RequestsInFlight(server, start, where, fix)
