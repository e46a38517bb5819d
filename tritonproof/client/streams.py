"""Sends requests to decoupled models and to models of sequences, whose answers come through a stream."""

import queue
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tritonproof.base.errors import ProofError
from tritonproof.serve.connection import REQUEST_S, HangsError, grpc_client
from tritonproof.serve.messages import inputs_of, read_output
from tritonproof.serve.server import Server
from tritonproof.spec import Arrays, Model

StreamedAnswers = list[dict[str, np.ndarray]]
"""The answers to one request, in order of arrival: outputs by name, in their shape on the wire."""


@dataclass(frozen=True)
class StreamedRequest:
    """A request to a decoupled model, or of a sequence, which goes through a stream."""

    rows: Arrays
    """The inputs, [1, ...] each."""
    sequence: int = 1
    """The number of the request's sequence, for a model of sequences."""
    is_first: bool = True
    is_last: bool = True


def sequence_of(inputs: Sequence[Arrays], number: int) -> list[StreamedRequest]:
    """The requests of a sequence of this number, the first and the last marked as such."""
    last = len(inputs) - 1
    return [StreamedRequest(rows, number, index == 0, index == last) for index, rows in enumerate(inputs)]


def converse(server: Server, model: Model, requests: Sequence[StreamedRequest]) -> list[StreamedAnswers]:
    """Send requests to a decoupled model, or of a sequence, each after the last answer to the one before.
    Returns all answers to each request. Raises ProofError if a request fails."""
    client = grpc_client(server.address, server.spec.access)
    received: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()
    try:
        client.start_stream(lambda result, error: received.put((result, error)))
        answers = []
        for request in requests:
            options: dict[str, Any] = {"enable_empty_final_response": True}
            if model.exchange == "sequence":
                options |= {"sequence_id": request.sequence}
                options |= {"sequence_start": request.is_first, "sequence_end": request.is_last}
            client.async_stream_infer(model.name, inputs_of(model, request.rows), **options)
            answers.append(list(_streamed_answers(server, model.name, received)))
        return answers
    finally:
        client.stop_stream(cancel_requests=True)
        client.close()


def _streamed_answers(
    server: Server, name: str, received: "queue.SimpleQueue[tuple[Any, Exception | None]]"
) -> Iterator[dict[str, np.ndarray]]:
    """The answers to one request, up to the answer that is marked as the last."""
    while True:
        try:
            result, error = server.wait_for(lambda: received.get(timeout=REQUEST_S))
            problem = "" if error is None else f"a request failed: {error}"
        except queue.Empty:
            problem = f"a request was not answered to its end within {REQUEST_S:.0f} s"
        except HangsError as hangs:
            problem = f"a request was not answered to its end: {hangs.what}"
        if problem:
            raise ProofError(f"{problem}{server.log_tail()}", where=name)
        response = result.get_response()
        if response.outputs:
            read = {output.name: read_output(result, output.name) for output in response.outputs}
            yield {output: values for output, values in read.items() if values is not None}
        if response.parameters["triton_final_response"].bool_param:
            return
