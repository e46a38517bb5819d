"""Sends requests to a served model, with tensors in messages or in memory shared with a server here."""

import contextlib
import functools
import itertools
import math
import queue
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tritonproof.base.errors import NotAvailableError, ProofError
from tritonproof.client.input_data import InputData
from tritonproof.client.shared_memory import cuda_region, shared_region, tensor_slices
from tritonproof.record.setup import ConfigVariant
from tritonproof.serve.connection import (
    MAX_REFUSAL_CHARS,
    REQUEST_S,
    HangsError,
    client_error_type,
    error_text,
    grpc_channel,
)
from tritonproof.serve.messages import infer_message, inputs_of, response_outputs
from tritonproof.serve.server import Server
from tritonproof.spec import Arrays, Model

_NOT_WRITTEN = 0xFF
"""The byte that fills an answer's slot before its request is sent: NaN in every floating-point type, -1 in
integers. So what a server does not write is not right, and nothing of an earlier answer."""
_MAX_BYTES = 256 << 20
"""The bytes of answers after which no more requests are sent, if they are sent for a given time."""
_IF_ONE_FAILS = (
    "the server's words, and the end of its log, tell why; where one of its processes was killed for want of "
    "memory, use fewer instances (--deployment instances=1)"
)

SharedMemory = Literal["system", "cuda", "none"]
RawAnswer = tuple[bytes, ...]
"""What is kept of an answer until it is read: the message, and with shared memory the content of its slot."""


@dataclass(frozen=True)
class ServedModel:
    """A model as a server serves it, with the samples for its requests."""

    server: Server
    name: str
    """The name under which the server has loaded the model."""
    model: Model
    data: InputData

    def ask(self, sample_indices: Iterable[Sequence[int] | np.ndarray], in_flight: int = 1) -> "list[Answer]":
        """The answers to requests for samples, `in_flight` at a time. Raises ProofError if one fails."""
        batches = [np.asarray(samples, int) for samples in sample_indices]
        rows = max(map(len, batches), default=1)
        where = f"{self.name}, {'alone' if rows == in_flight == 1 else f'b{rows:03d}-c{in_flight:03d}'}"
        return ask_samples(self, batches, in_flight, where)

    def responses(self, sample_indices: Iterable[Sequence[int] | np.ndarray]) -> list[Any]:
        """Send requests for samples one by one; returns each ModelInferResponse, or as a text the server's
        reason for a refusal. Raises ProofError if the server is gone or late, which is no refusal."""
        from tritonclient.grpc import InferRequestedOutput

        server, responses = self.server, []
        outputs = [InferRequestedOutput(tensor.name) for tensor in self.model.outputs]
        infer = functools.partial(server.client.infer, self.name, outputs=outputs, client_timeout=REQUEST_S)
        for samples in sample_indices:
            inputs = inputs_of(self.model, self.data.inputs(samples))
            try:
                responses.append(server.wait_for(functools.partial(infer, inputs)).get_response())
            except client_error_type() as error:
                refusal = error.message() or str(error.status())  # type: ignore[attr-defined]
                if not server.is_live():
                    what = f"Triton ended, or answers no more, at a request: {refusal}"
                    raise ProofError(f"{what}{server.log_tail()}", where=self.name) from error
                responses.append(refusal[:MAX_REFUSAL_CHARS])
        return responses


@dataclass(frozen=True)
class LoadedAs:
    """How a case is loaded at the moment."""

    variant: ConfigVariant
    backend: str
    first_answer: Arrays | None = None
    """The answer to the first request, the first sample alone, [1, ...] each; None if another was first."""
    joins_requests: bool = True
    loading_s: float = 0.0
    first_request_s: float = 0.0
    by_own_config: bool = True
    """False while a search has varied the configuration of a repository's model."""


@dataclass(frozen=True)
class Answer:
    """The server's answer to one request, or some rows of it."""

    sample_indices: np.ndarray
    """The index of each row's sample, [batch]: in the data that was sent, or in the expected answers."""
    outputs: Arrays
    """The outputs, [batch, ...] each. An output with another number of rows counts as missing."""

    def __post_init__(self) -> None:
        arrays, count = self.outputs.items(), len(self.sample_indices)
        whole = {name: array for name, array in arrays if array.ndim and len(array) == count}
        object.__setattr__(self, "outputs", whole)


def single_answer(sample: int, row: Arrays) -> Answer:
    """The answer to a request of one sample, from outputs without the batch axis."""
    return Answer(np.array([sample]), {name: values[None] for name, values in row.items()})


@dataclass(frozen=True)
class PreparedRequests:
    """Prepared requests, numbered from 0, and slots for as many answers as there are requests in flight."""

    count: int
    message: Callable[[int, int], bytes]
    """`message(number, slot)`: the serialized request, whose answer overwrites what `slot` holds."""
    keep: Callable[[int, bytes], RawAnswer]
    """`keep(slot, message)`: what `read` needs of the answer in `slot`, which is then free."""
    read: Callable[[RawAnswer], Arrays]
    """The outputs of a kept answer by name, without any that does not fit its slice."""


def ask_samples(
    served: ServedModel,
    batches: Sequence[np.ndarray],
    concurrency: int,
    where: str,
    seconds: float | None = None,
    shared_memory: SharedMemory = "none",
) -> list[Answer]:
    """The answers to requests for `batches`, lists of samples' indices of one size, each sent once, or all
    repeatedly for `seconds`, `concurrency` at a time. This takes little CPU: requests are made before and
    answers read afterwards. Raises ProofError, with `where`, if a request fails or tensors have no room."""
    with prepared_requests(served, batches, concurrency, shared_memory) as requests:
        answers = closed_loop(served.server, requests, concurrency, where, seconds)
        return [Answer(batches[number], requests.read(raw)) for number, raw in answers]


def closed_loop(
    server: Server, requests: PreparedRequests, concurrency: int, where: str, seconds: float | None = None
) -> list[tuple[int, RawAnswer]]:
    """Each answer with its request's number, as they arrive. Each request is sent once, or all repeatedly for
    `seconds`, `concurrency` in flight. Raises ProofError, with `where`, if one fails."""
    one_round = range(requests.count)
    numbers = iter(one_round) if seconds is None else itertools.cycle(one_round)
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    most_bytes = math.inf if seconds is None else _MAX_BYTES
    answers: list[tuple[int, RawAnswer]] = []
    size = 0
    with requests_in_flight(server, where=where, fix=_IF_ONE_FAILS) as in_flight:
        for slot in range(concurrency):
            if (number := next(numbers, None)) is not None:
                in_flight.send((number, slot), requests.message(number, slot))
        while in_flight.count:
            (number, slot), message = in_flight.next_answer()
            answers.append((number, requests.keep(slot, message)))
            size += sum(map(len, answers[-1][1]))
            further = next(numbers, None) if time.monotonic() < deadline and size < most_bytes else None
            if further is not None:
                in_flight.send((further, slot), requests.message(further, slot))
    return answers


@contextlib.contextmanager
def prepared_requests(
    served: ServedModel, batches: Sequence[np.ndarray], concurrency: int, shared_memory: SharedMemory
) -> Iterator[PreparedRequests]:
    """Requests for `batches`, lists of samples' indices of one size, at most `concurrency` at a time, with
    tensors in this kind of shared memory, for the length of the block.

    If a tensor has no fixed size in bytes, messages carry the tensors instead. Raises ProofError if the
    tensors have no room or the server refuses the memory, and NotAvailableError for such a model under load
    in CUDA shared memory, where nothing could verify its answers.
    """
    name, model, data = served.name, served.model, served.data
    tensors = (*model.inputs, *model.outputs)
    # A slot needs a known number of bytes, of a type that NumPy has, unlike BF16.
    has_fixed_sizes = (
        model.batched
        and all(tensor.name in data.arrays for tensor in model.inputs)
        and all(tensor.has_fixed_size and tensor.dtype != "BF16" for tensor in tensors)
    )
    if shared_memory != "none" and has_fixed_sizes:
        with _in_shared_memory(served, batches, concurrency, shared_memory) as requests:
            yield requests
    elif shared_memory == "cuda":
        what = "answers cannot be verified in CUDA shared memory: the model's tensors have no fixed size"
        raise NotAvailableError(what, fix="leave --shared-memory cuda out")
    else:
        messages = [infer_message(name, model, data.inputs(samples)) for samples in batches]
        yield in_messages(messages, batched=model.batched)


def in_messages(messages: Sequence[bytes], *, batched: bool = True) -> PreparedRequests:
    """Requests whose messages carry the tensors, as do those of their answers."""

    def read(raw: RawAnswer) -> Arrays:
        from tritonclient.grpc import service_pb2

        return response_outputs(service_pb2.ModelInferResponse.FromString(raw[0]), batched=batched)

    count, keep = len(messages), lambda _slot, answer: (answer,)
    return PreparedRequests(count, lambda number, _slot: messages[number], keep, read)


@contextlib.contextmanager
def _in_shared_memory(
    served: ServedModel, batches: Sequence[np.ndarray], slots: int, shared_memory: SharedMemory
) -> Iterator[PreparedRequests]:
    """Requests with the inputs of all in one region of shared memory, followed by the slots of answers."""
    from tritonclient.grpc import service_pb2
    from tritonclient.utils import triton_to_np_dtype

    name, model, rows, batch = served.name, served.model, served.data.arrays, len(batches[0])
    input_sizes = {tensor: values[0].nbytes * batch for tensor, values in rows.items()}
    output_sizes = {tensor.name: tensor.row_bytes * batch for tensor in model.outputs}
    _, request_bytes = tensor_slices(input_sizes)
    outputs, slot_bytes = tensor_slices(output_sizes)
    first_slot = request_bytes * len(batches)
    starts = [first_slot + slot_bytes * slot for slot in range(slots)]
    not_written = bytes([_NOT_WRITTEN]) * slot_bytes
    region_of: Any = cuda_region if shared_memory == "cuda" else shared_region
    with contextlib.ExitStack() as stack:
        try:
            size = first_slot + slot_bytes * slots
            region, memory = stack.enter_context(region_of(served.server, size, where=name))
        except client_error_type() as error:
            what = f"the server does not take shared memory: {error}{served.server.log_tail()}"
            fix = "another --shared-memory, if the server is on another host or was started without it"
            raise ProofError(what, where=name, fix=fix) from error
        input_messages, output_messages = [], []
        for number, samples in enumerate(batches):
            request = service_pb2.ModelInferRequest(model_name=name)
            slices, _ = tensor_slices(input_sizes, request_bytes * number)
            for tensor in model.inputs:
                values = np.ascontiguousarray(rows[tensor.name][samples])
                memory[slices[tensor.name]] = values.reshape(-1).view(np.uint8).data
                entry = request.inputs.add(name=tensor.name, datatype=tensor.dtype, shape=values.shape)
                _point_to(entry, region, slices[tensor.name])
            input_messages.append(bytes(request.SerializeToString()))
        for start in starts:
            request = service_pb2.ModelInferRequest()
            for output, slice_ in tensor_slices(output_sizes, start)[0].items():
                _point_to(request.outputs.add(name=output), region, slice_)
            output_messages.append(bytes(request.SerializeToString()))

        def message(number: int, slot: int) -> bytes:
            # Two protobuf messages, one after the other, are one message with the fields of both.
            memory[starts[slot] : starts[slot] + slot_bytes] = not_written
            return input_messages[number] + output_messages[slot]

        def read(raw: RawAnswer) -> Arrays:
            arrays = {}
            answer, content = raw
            for tensor in service_pb2.ModelInferResponse.FromString(answer).outputs:
                slice_, shape = outputs.get(tensor.name), list(tensor.shape)
                dtype, count = np.dtype(triton_to_np_dtype(tensor.datatype)), int(np.prod(shape))
                if slice_ is not None and 0 <= count * dtype.itemsize <= slice_.stop - slice_.start:
                    arrays[tensor.name] = np.frombuffer(content, dtype, count, slice_.start).reshape(shape)
            return arrays

        def keep(slot: int, answer: bytes) -> RawAnswer:
            return answer, memory[starts[slot] : starts[slot] + slot_bytes]

        yield PreparedRequests(len(batches), message, keep, read)


def _point_to(tensor: Any, region: str, slice_: slice) -> None:
    """Set where a tensor lies. Source: extension_shared_memory.md of Triton's server."""
    tensor.parameters["shared_memory_region"].string_param = region
    tensor.parameters["shared_memory_offset"].int64_param = slice_.start
    tensor.parameters["shared_memory_byte_size"].int64_param = slice_.stop - slice_.start


IN_FLIGHT = 64
"""The most requests that are sent without an answer; the published scripts allow 128."""
IN_FLIGHT_BYTES = 1 << 28
"""The most bytes of tensors in flight; volumes of 50 MB go out a few at a time."""
_SOON_S = 1.0
"""Seconds after which an answer is late."""


@dataclass
class RequestsInFlight:
    """Requests on a channel of their own, each with a key by which the sender recognises its answer."""

    server: Server
    start: Callable[[bytes], Any]
    """Sends a serialized ModelInferRequest, and returns gRPC's call."""
    where: object
    fix: str | None
    count: int = 0
    done: "queue.SimpleQueue[tuple[Any, Any]]" = field(default_factory=queue.SimpleQueue)
    """The key and gRPC's call of each answered request; gRPC's threads put them here."""

    def send(self, key: Any, message: bytes) -> None:
        """Send a serialized ModelInferRequest without waiting for its answer."""
        call = self.start(message)
        call.add_done_callback(lambda done: self.done.put((key, done)))
        self.count += 1

    def next_answer(self) -> tuple[Any, bytes]:
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
) -> Iterator[RequestsInFlight]:
    """Send requests to a server during a block; its end cancels the rest. Errors have `where` and `fix`."""
    with grpc_channel(server.address, server.spec.access) as channel:
        start = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer").future
        # The headers of all requests are read from the user's file once.
        start = functools.partial(start, timeout=REQUEST_S, metadata=server.spec.access.metadata)
        yield RequestsInFlight(server, start, where, fix)
