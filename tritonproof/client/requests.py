"""Sends requests to a served model, with tensors in messages or in memory shared with a server here."""

import contextlib
import functools
import itertools
import math
import queue
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tritonproof.base.errors import NotAvailableError, ProofError
from tritonproof.client.input_data import InputData
from tritonproof.client.shared_memory import cuda_region, shared_region, tensor_in, tensor_slices
from tritonproof.record.setup import ConfigVariant
from tritonproof.serve.connection import (
    MAX_REFUSAL_CHARS,
    REQUEST_S,
    HangsError,
    client_error_type,
    error_text,
    grpc_channel,
)
from tritonproof.serve.messages import infer_message, inputs_of, raw_content, response_outputs
from tritonproof.serve.server import Server
from tritonproof.spec import Arrays, Model

_NOT_WRITTEN = 0xFF
"""The byte that fills an answer's slot before its request is sent: NaN in every floating-point type, -1 in
integers. So bytes that a server does not write look wrong, and not like an earlier answer."""
IN_FLIGHT = 64
"""The most requests that are sent without an answer; the published scripts allow 128."""
IN_FLIGHT_BYTES = 1 << 28
"""The most bytes of tensors in flight; volumes of 50 MB go out a few at a time."""
_MAX_BYTES = 256 << 20
"""The bytes of answers after which no more requests are sent, if they are sent for a given time."""
IF_ONE_FAILS = (
    "the server's words, and the end of its log, tell why; where one of its processes was killed for want of "
    "memory, use fewer instances (--deployment instances=1)"
)
"""What to do about a failed request, where all requests are alike."""
_SOON_S = 1.0
"""Seconds after which an answer is late."""

SharedMemory = Literal["system", "cuda", "none"]


@dataclass(frozen=True)
class ServedModel:
    """A model as a server serves it, with the samples for its requests."""

    server: Server
    name: str
    """The name under which the server has loaded the model."""
    model: Model
    data: InputData

    def ask(
        self,
        sample_indices: Iterable[Sequence[int] | np.ndarray],
        in_flight: int = 1,
        *,
        where: str = "",
        seconds: float | None = None,
        shared_memory: SharedMemory = "none",
    ) -> "list[Answer]":
        """To compare answers: send requests for these samples, each once, or all repeatedly for `seconds`,
        `in_flight` at a time, and return the answers. Sending takes little CPU: requests are made before and
        answers read afterwards. In shared memory, all requests have one size. Raises ProofError, with
        `where`, if a request fails, and the errors of `_prepared_requests`."""
        batches = [np.asarray(samples, int) for samples in sample_indices]
        rows = max(map(len, batches), default=1)
        load = "alone" if rows == in_flight == 1 else f"b{rows:03d}-c{in_flight:03d}"
        where = where or f"{self.name}, {load}"
        with _prepared_requests(self, batches, in_flight, shared_memory) as prepared:
            received = _closed_loop(self.server, prepared, in_flight, where, seconds)
            return [Answer(batches[number], prepared.read(*raw)) for number, raw in received]

    def responses(self, sample_indices: Iterable[Sequence[int] | np.ndarray]) -> list[Any]:
        """To judge refusals or the form of answers: send requests for these samples one by one. Returns each
        ModelInferResponse, or the reason for a refusal as a text. Raises ProofError if the server is gone."""
        from tritonclient.grpc import InferRequestedOutput

        server, responses = self.server, []
        outputs = [InferRequestedOutput(tensor.name) for tensor in self.model.outputs]
        infer = functools.partial(server.client.infer, self.name, outputs=outputs, client_timeout=REQUEST_S)
        for samples in sample_indices:
            inputs = inputs_of(self.model, self.data.inputs(samples))
            try:
                responses.append(server.wait_for(functools.partial(infer, inputs)).get_response())
            except client_error_type() as error:
                words = error.message() or str(error.status())  # type: ignore[attr-defined]
                responses.append(self.refusal(words))
        return responses

    def refusal(self, words: str, request: str = "a request") -> str:
        """The words of a refused request's error, shortened. Raises ProofError if the server is gone."""
        if self.server.is_live():
            return words[:MAX_REFUSAL_CHARS]
        gone = f"Triton ended, or answers no more, at {request}: {words}"
        raise ProofError(f"{gone}{self.server.log_tail()}", where=self.name)


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


def send_messages(
    server: Server,
    requests: Iterable[tuple[Any, bytes, int]],
    take: Callable[[Any, bytes], None],
    in_flight: int,
    *,
    where: object,
    fix: str | None = None,
    max_bytes: float = math.inf,
) -> None:
    """Send requests that the caller has serialized, unlike those for load data, many in flight, and give
    `take` each answer as it arrives.

    Each of `requests` is a key, a ModelInferRequest, and the number of bytes of its tensors and its answer's;
    `take` gets the key and the ModelInferResponse. At most `in_flight` requests wait for answers, with at
    most `max_bytes` if several do; the next one is taken when there is room. Raises ProofError, with `where`
    and `fix`, if a request fails or the server hangs; an error cancels the rest.
    """
    import grpc

    answered: queue.SimpleQueue[tuple[Any, int, Any]] = queue.SimpleQueue()  # gRPC's threads fill it
    waiting = waiting_bytes = 0

    def receive() -> None:
        nonlocal waiting, waiting_bytes
        try:
            try:
                key, size, call = answered.get(timeout=_SOON_S)
            except queue.Empty:  # watching for a hanging server takes a thread, so only for a late answer
                key, size, call = server.wait_for(answered.get)
            answer = bytes(call.result())
        except (grpc.RpcError, HangsError) as error:
            reason = f"{error_text(error, REQUEST_S)}{server.log_tail()}"
            raise ProofError(f"a request failed: {reason}", where=where, fix=fix) from error
        waiting, waiting_bytes = waiting - 1, waiting_bytes - size
        take(key, answer)

    with grpc_channel(server.address, server.spec.access) as channel:
        start = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer").future
        metadata = server.spec.access.metadata  # the user's file is read once for all requests
        for key, message, size in requests:
            while waiting and waiting_bytes + size > max_bytes:
                receive()
            call = start(message, timeout=REQUEST_S, metadata=metadata)
            call.add_done_callback(lambda done, key=key, size=size: answered.put((key, size, done)))
            waiting, waiting_bytes = waiting + 1, waiting_bytes + size
            while waiting >= in_flight:
                receive()
        while waiting:
            receive()


_RawAnswer = tuple[bytes, bytes]
"""What is kept of an answer until it is read: the message, and the content of its slot in shared memory."""


@dataclass(frozen=True)
class _PreparedRequests:
    """Prepared requests, numbered from 0, and slots for as many answers as there are requests in flight."""

    count: int
    message: Callable[[int, int], bytes]
    """`message(number, slot)`: the serialized request, whose answer overwrites what `slot` holds."""
    content: Callable[[int], bytes]
    """`content(slot)`: what lies in `slot`, which is then free."""
    read: Callable[[bytes, bytes], Arrays]
    """`read(message, content)`: an answer's outputs by name, without any that does not fit its slice."""


def _closed_loop(
    server: Server, requests: _PreparedRequests, concurrency: int, where: str, seconds: float | None
) -> list[tuple[int, _RawAnswer]]:
    """The answers in order of arrival, each with its request's number. Each request is sent once, or all
    repeatedly for `seconds`, `concurrency` in flight."""
    limit_s, most_bytes = (math.inf, math.inf) if seconds is None else (seconds, _MAX_BYTES)
    deadline = time.monotonic() + limit_s
    answers: list[tuple[int, _RawAnswer]] = []
    size, free_slots = 0, list(range(concurrency))

    def messages() -> Iterator[tuple[tuple[int, int], bytes, int]]:
        one_round = range(requests.count)
        for sent, number in enumerate(one_round if seconds is None else itertools.cycle(one_round)):
            if sent >= concurrency and (time.monotonic() >= deadline or size >= most_bytes):
                return
            slot = free_slots.pop(0)
            yield (number, slot), requests.message(number, slot), 0

    def take(number_and_slot: tuple[int, int], message: bytes) -> None:
        nonlocal size
        number, slot = number_and_slot
        answers.append((number, (message, requests.content(slot))))
        size += sum(map(len, answers[-1][1]))
        free_slots.append(slot)

    send_messages(server, messages(), take, concurrency, where=where, fix=IF_ONE_FAILS)
    return answers


@contextlib.contextmanager
def _prepared_requests(
    served: ServedModel, batches: Sequence[np.ndarray], concurrency: int, shared_memory: SharedMemory
) -> Iterator[_PreparedRequests]:
    """Requests for `batches`, lists of samples' indices, at most `concurrency` at a time, with tensors in
    this kind of shared memory, for the length of the block.

    If a tensor has no fixed size in bytes, messages carry the tensors instead. Raises ProofError if the
    tensors have no room or the server refuses the memory, and NotAvailableError if a model with such a tensor
    is under load in CUDA shared memory, where nothing could verify its answers.
    """
    from tritonclient.grpc import service_pb2

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

        def read(answer: bytes, _content: bytes) -> Arrays:
            response = service_pb2.ModelInferResponse.FromString(answer)
            return response_outputs(response, batched=model.batched)

        message, content = lambda number, _slot: messages[number], lambda _slot: b""
        yield _PreparedRequests(len(messages), message, content, read)


@contextlib.contextmanager
def _in_shared_memory(
    served: ServedModel, batches: Sequence[np.ndarray], slots: int, shared_memory: SharedMemory
) -> Iterator[_PreparedRequests]:
    """Requests with the inputs of all in one region of shared memory, followed by the slots of answers."""
    from tritonclient.grpc import service_pb2

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
                values = rows[tensor.name][samples]
                memory[slices[tensor.name]] = raw_content(values, tensor.dtype)
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

        def content(slot: int) -> bytes:
            return memory[starts[slot] : starts[slot] + slot_bytes]

        def read(answer: bytes, slot_content: bytes) -> Arrays:
            arrays, view = {}, memoryview(slot_content)
            for tensor in service_pb2.ModelInferResponse.FromString(answer).outputs:
                if (slice_ := outputs.get(tensor.name)) is not None:
                    arrays[tensor.name] = tensor_in(view[slice_], tensor.datatype, tensor.shape)
            return {name: values for name, values in arrays.items() if values is not None}

        yield _PreparedRequests(len(batches), message, content, read)


def _point_to(tensor: Any, region: str, slice_: slice) -> None:
    """Set where a tensor lies. Source: extension_shared_memory.md of Triton's server."""
    tensor.parameters["shared_memory_region"].string_param = region
    tensor.parameters["shared_memory_offset"].int64_param = slice_.start
    tensor.parameters["shared_memory_byte_size"].int64_param = slice_.stop - slice_.start
