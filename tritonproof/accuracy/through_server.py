"""The last stage: the answers to the evaluation data through the server, many requests in flight."""

import functools
import queue
from collections.abc import Iterator
from typing import Any

import numpy as np

from tritonproof.accuracy.stages import StageAnswers, StageComparison, answers_at, keep_outputs
from tritonproof.base.errors import AccuracyError, ProofError
from tritonproof.serve.connection import REQUEST_S, HangsError, error_text
from tritonproof.serve.messages import inputs_of, read_output, undeclared
from tritonproof.serve.server import Server
from tritonproof.spec import Arrays, Case, OnProgress, Samples

IN_FLIGHT = 64
"""The most requests outstanding at once; the published scripts allow 128."""
IN_FLIGHT_BYTES = 1 << 28
"""The most bytes that all outstanding requests' tensors take; volumes of 50 MB go out a few at a time."""

_Replies = queue.SimpleQueue[tuple[range, Arrays | Exception]]
"""From tritonclient's threads to the evaluating one: a request's samples, and its outputs or the error."""


def evaluate_through_server(
    server: Server,
    case: Case,
    samples: Samples,
    max_batch_size: int,
    on_progress: OnProgress = lambda _text: None,
    comparison: StageComparison | None = None,
) -> StageAnswers:
    """Send all samples through the server once, in mixed batch sizes and with many requests in flight. Every
    output enters the `comparison` with that of the same file in process. Raises ProofError on the first
    request that fails or gets no answer in time."""
    replies: _Replies = queue.SimpleQueue()
    tensors = (*case.model.inputs, *case.model.outputs)
    most_rows = max(1, IN_FLIGHT_BYTES // sum(tensor.row_bytes for tensor in tensors))
    parts: dict[int, Arrays] = {}
    batches = list(mixed_batches(len(samples), min(max_batch_size, most_rows)))
    sent = set[range]()
    done = 0

    def take(wait: bool) -> None:
        nonlocal done
        while wait or not replies.empty():
            wait = False
            indices, outputs = _next(replies, case, server)
            sent.remove(indices)
            for tensor in case.model.outputs:
                if (problem := undeclared(tensor, outputs.get(tensor.name))) is not None:
                    raise AccuracyError(f"an answer is not as the model's outputs are: {problem}", where=case)
            parts[indices[0]] = keep_outputs("served", case.model, outputs, samples, indices)
            if comparison is not None:
                comparison.add(outputs, indices)
            done += len(indices)
            on_progress(f"{done:,} of {len(samples):,}")

    for indices in batches:
        while len(sent) >= IN_FLIGHT or sum(map(len, sent)) + len(indices) > most_rows:
            take(wait=True)
        sent.add(indices)
        _send(server, case, samples.read(indices), indices, replies)
        take(wait=False)
    while sent:
        take(wait=True)
    in_order = [parts[start] for start in sorted(parts)]
    return answers_at("served", case.model, in_order, requests=len(batches), comparison=comparison)


def mixed_batches(count: int, max_batch_size: int) -> Iterator[range]:
    """Consecutive ranges that cover `count` samples, of seeded sizes from 1 to `max_batch_size`, drawn by
    their logarithm, so that small and large ones meet in the server's batcher."""
    generator = np.random.default_rng(0)
    start = 0
    while start < count:
        size = int(np.exp(generator.uniform(0, np.log(max_batch_size + 1))))
        stop = min(start + max(1, min(size, max_batch_size)), count)
        yield range(start, stop)
        start = stop


def _next(replies: _Replies, case: Case, server: Server) -> tuple[range, Arrays]:
    """The next answer, with its samples. Raises ProofError if the request failed, or none comes in time."""
    try:
        wait = functools.partial(replies.get, timeout=REQUEST_S)
        indices, answer = server.wait_for(wait) if replies.empty() else replies.get()
        if not isinstance(answer, Exception):
            return indices, answer
        problem = f"a request failed: {error_text(answer, REQUEST_S)}"
    except queue.Empty:
        problem = f"requests are left unanswered: Triton gave no answer for {REQUEST_S:.0f} s"
    except HangsError as error:
        problem = f"requests are left unanswered: {error.what}"
    raise ProofError(f"{problem}{server.log_tail()}", where=str(case))


def _send(server: Server, case: Case, arrays: Arrays, indices: range, replies: _Replies) -> None:
    from tritonclient.grpc import InferRequestedOutput

    names, request_id = [tensor.name for tensor in case.model.outputs], str(indices.start)

    def receive(result: Any, error: Exception | None) -> None:
        try:
            if error is not None:
                raise error
            if (answered := result.get_response().id) != request_id:
                raise ProofError(f"Triton gave the answer to the request {answered!r}")
            outputs = {name: values for name in names if (values := read_output(result, name)) is not None}
            if not case.model.batched:
                outputs = {name: values[None] for name, values in outputs.items()}
            replies.put((indices, outputs))
        except Exception as problem:  # noqa: BLE001 - the thread that waits raises it
            replies.put((indices, problem))

    server.client.async_infer(
        server.name_of(case),
        inputs_of(case.model, arrays),
        receive,
        outputs=[InferRequestedOutput(name) for name in names],
        request_id=request_id,
        client_timeout=REQUEST_S,
    )
