"""The last stage: the answers to the evaluation data through the server, with many requests in flight."""

from collections.abc import Iterable, Iterator

import numpy as np

from tritonproof.accuracy.outputs import why_undeclared
from tritonproof.accuracy.stages import StageAnswers, StageComparison, answers_at, keep_outputs
from tritonproof.base.errors import AccuracyError, ProofError
from tritonproof.client.requests import IN_FLIGHT, IN_FLIGHT_BYTES, send_messages
from tritonproof.serve.messages import content_size_bytes, infer_message, response_outputs
from tritonproof.serve.server import Server
from tritonproof.spec import Arrays, Case, OnProgress, Samples


def evaluate_through_server(
    server: Server,
    case: Case,
    samples: Samples,
    max_batch_size: int,
    on_progress: OnProgress = lambda _text: None,
    comparison: StageComparison | None = None,
) -> StageAnswers:
    """Send all rows through the server once, the first alone, then in mixed batch sizes, many in flight,
    and compare all outputs with the same file's in process. Raises ProofError if one fails or is late."""
    model, name, parts, done = case.model, server.name_of(case), dict[int, Arrays](), 0
    answer_bytes = sum(tensor.row_bytes for tensor in model.outputs)  # at least: a dimension may be open

    def take(indices: range, answer: bytes) -> None:
        nonlocal done, answer_bytes
        outputs = _outputs(case, indices, answer)
        answer_bytes = max(answer_bytes, content_size_bytes(outputs) // len(indices))
        parts[indices.start] = keep_outputs("served", model, outputs, samples, indices)
        if comparison is not None:
            comparison.add(outputs, indices)
        done += len(indices)
        on_progress(f"{done:,} of {len(samples):,}")

    def request(indices: range) -> tuple[range, bytes, int]:
        inputs = samples.read(indices)
        size = content_size_bytes(inputs) + len(indices) * answer_bytes
        return indices, infer_message(name, model, inputs, str(indices.start)), size

    def send(batches: Iterable[range]) -> None:
        send_messages(server, map(request, batches), take, IN_FLIGHT, where=case, max_bytes=IN_FLIGHT_BYTES)

    send([range(1)])  # alone: its answer shows how many rows fit
    most_rows = max(1, IN_FLIGHT_BYTES // (content_size_bytes(samples.read([0])) + answer_bytes))
    send(mixed_batches(len(samples), min(max_batch_size, most_rows), start=1))
    in_order = [parts[start] for start in sorted(parts)]
    differences = () if comparison is None else comparison.differences
    return answers_at("served", model, in_order, requests=len(parts), differences=differences)


def mixed_batches(count: int, max_batch_size: int, start: int = 0) -> Iterator[range]:
    """Consecutive ranges from `start` to `count`, of seeded random sizes from 1 to `max_batch_size`. Their
    logarithm is uniform, so that small and large batches meet in the server's batcher."""
    generator = np.random.default_rng(0)
    while start < count:
        size = int(np.exp(generator.uniform(0, np.log(max_batch_size + 1))))
        stop = min(start + max(1, min(size, max_batch_size)), count)
        yield range(start, stop)
        start = stop


def _outputs(case: Case, indices: range, answer: bytes) -> Arrays:
    """An answer's outputs. Raises ProofError if it is another request's, AccuracyError if not as declared."""
    from tritonclient.grpc import service_pb2

    response = service_pb2.ModelInferResponse.FromString(answer)
    if response.id != str(indices.start):
        raise ProofError(f"Triton gave the answer to the request {response.id!r}", where=case)
    outputs = response_outputs(response, batched=case.model.batched)
    for tensor in case.model.outputs:
        if (problem := why_undeclared(tensor, outputs.get(tensor.name))) is not None:
            raise AccuracyError(f"an answer is not as the model's outputs are: {problem}", where=case)
    return outputs
