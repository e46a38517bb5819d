"""Prepares requests before they are sent, and reads their answers, in messages or in memory that this process
and a server on this host share for the length of a block, in system memory or on the first GPU."""

import base64
import contextlib
import ctypes
import functools
import mmap
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tritonproof.base.errors import NotAvailableError, ProofError
from tritonproof.host import scratch
from tritonproof.measure.job import Job
from tritonproof.serve import wheels
from tritonproof.serve.connection import client_error, unregister
from tritonproof.serve.messages import request_of, response_outputs
from tritonproof.serve.server import Server
from tritonproof.spec import Arrays, Model

_ALIGNMENT = 64
"""Every tensor in shared memory begins at a multiple of so many bytes, as a backend's allocations do."""
_NOT_WRITTEN = 0xFF
"""Fills an answer's place before its request is sent: NaN in every floating-point type, -1 in integers. So
what a server does not write is neither right nor left from an earlier answer."""

RawAnswer = tuple[bytes, ...]
"""What is kept of an answer until it is read: the message, and its place in shared memory."""


@dataclass(frozen=True)
class Requests:
    """Prepared requests, by their numbers from 0, and places for as many answers as are in flight."""

    count: int
    message: Callable[[int, int], bytes]
    """`message(number, slot)`: a request as it goes over the wire, whose answer goes to the place `slot`. The
    place must be free: `message` overwrites what an answer left there."""
    keep: Callable[[int, bytes], RawAnswer]
    """`keep(slot, message)`: what `read` needs of the answer in this place, which is then free."""
    read: Callable[[RawAnswer], Arrays]
    """The tensors of an answer by name, without any that does not fit its place."""


@contextlib.contextmanager
def prepared(job: Job, which: Sequence[np.ndarray], in_flight: int) -> Iterator[Requests]:
    """Requests for these samples of the load data, by their indices and all of one batch size, at most
    `in_flight` at a time, through the load's own kind of shared memory, for the length of the block.

    If a tensor has no fixed size in bytes, messages carry the tensors instead. Raises ProofError if the
    tensors have no room or the server refuses the memory, and NotAvailableError for such a model under load
    in CUDA shared memory, where nothing can verify its answers.
    """
    tensors = (*job.model.inputs, *job.model.outputs)
    # Only such tensors are bytes of NumPy arrays, which have no BF16, and of a known number.
    has_fixed_sizes = (
        job.model.batched
        and all(tensor.name in job.data.rows for tensor in job.model.inputs)
        and all(tensor.has_fixed_size and tensor.dtype != "BF16" for tensor in tensors)
    )
    if job.shared_memory != "none" and has_fixed_sizes:
        with _in_shared_memory(job, which, in_flight) as requests:
            yield requests
    elif job.shared_memory == "cuda":
        raise NotAvailableError(
            "answers cannot be verified in CUDA shared memory: the model's tensors have no fixed size",
            fix="leave --shared-memory cuda out",
        )
    else:
        messages = [message_of(job, job.data.inputs(samples)) for samples in which]
        yield in_messages(messages, batched=job.model.batched)


def in_messages(messages: Sequence[bytes], *, batched: bool = True) -> Requests:
    """Requests that carry their tensors in the messages themselves, as do the answers."""

    def read(kept: RawAnswer) -> Arrays:
        from tritonclient.grpc import service_pb2

        outputs = response_outputs(service_pb2.ModelInferResponse.FromString(kept[0]))
        return outputs if batched else {name: values[None] for name, values in outputs.items()}

    count, keep = len(messages), lambda _slot, answer: (answer,)
    return Requests(count, lambda number, _slot: messages[number], keep, read)


def message_of(job: Job, inputs: Arrays) -> bytes:
    """A request with these inputs, [batch, ...] each, as it goes over the wire."""
    return bytes(request_for(job.name, job.model, inputs).SerializeToString())


def request_for(name: str, model: Model, inputs: Arrays) -> Any:
    """A ModelInferRequest with these inputs, [batch, ...] each, without that axis if the model has none."""
    rows = inputs if model.batched else {key: values[0] for key, values in inputs.items()}
    return request_of(name, model.inputs, rows, model.outputs)


@contextlib.contextmanager
def _in_shared_memory(job: Job, which: Sequence[np.ndarray], slots: int) -> Iterator[Requests]:
    """Inputs of all requests in one region of shared memory, then a place for each answer in flight."""
    from tritonclient.grpc import service_pb2
    from tritonclient.utils import triton_to_np_dtype

    batch = len(which[0])
    input_sizes = {name: values[0].nbytes * batch for name, values in job.data.rows.items()}
    output_sizes = {tensor.name: tensor.row_bytes * batch for tensor in job.model.outputs}
    (_, request_bytes), (outputs, slot_bytes) = _layout(input_sizes), _layout(output_sizes)
    first_slot = request_bytes * len(which)
    starts = [first_slot + slot_bytes * slot for slot in range(slots)]
    not_written = bytes([_NOT_WRITTEN]) * slot_bytes
    region_of: Any = cuda_region if job.shared_memory == "cuda" else shared_region
    with region_of(job.server, first_slot + slot_bytes * slots, where=job.name) as (region, memory):
        input_messages, output_messages = [], []
        for number, samples in enumerate(which):
            request = service_pb2.ModelInferRequest(model_name=job.name)
            places, _ = _layout(input_sizes, request_bytes * number)
            for tensor in job.model.inputs:
                values = np.ascontiguousarray(job.data.rows[tensor.name][samples])
                memory[places[tensor.name]] = values.reshape(-1).view(np.uint8).data
                entry = request.inputs.add(name=tensor.name, datatype=tensor.dtype, shape=values.shape)
                _point_to(entry, region, places[tensor.name])
            input_messages.append(bytes(request.SerializeToString()))
        for start in starts:
            request = service_pb2.ModelInferRequest()
            for name, place in _layout(output_sizes, start)[0].items():
                _point_to(request.outputs.add(name=name), region, place)
            output_messages.append(bytes(request.SerializeToString()))

        def message(number: int, slot: int) -> bytes:
            # Two protobuf messages, one after the other, are one message with the fields of both.
            memory[starts[slot] : starts[slot] + slot_bytes] = not_written
            return input_messages[number] + output_messages[slot]

        def read(kept: RawAnswer) -> Arrays:
            arrays, (answer, content) = {}, kept
            for tensor in service_pb2.ModelInferResponse.FromString(answer).outputs:
                place, shape = outputs.get(tensor.name), list(tensor.shape)
                dtype, count = np.dtype(triton_to_np_dtype(tensor.datatype)), int(np.prod(shape))
                if place is not None and 0 <= count * dtype.itemsize <= place.stop - place.start:
                    arrays[tensor.name] = np.frombuffer(content, dtype, count, place.start).reshape(shape)
            return arrays

        def keep(slot: int, answer: bytes) -> RawAnswer:
            return answer, memory[starts[slot] : starts[slot] + slot_bytes]

        yield Requests(len(which), message, keep, read)


def _layout(sizes: Mapping[str, int], start: int = 0) -> tuple[dict[str, slice], int]:
    """The place of each tensor by name, one after another, from their sizes in bytes; and their end."""
    places, end = {}, start
    for name, size in sizes.items():
        places[name] = slice(end, end + size)
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return places, end


def _point_to(tensor: Any, region: str, place: slice) -> None:
    """Set where a tensor lies. Source: extension_shared_memory.md of Triton's server."""
    tensor.parameters["shared_memory_region"].string_param = region
    tensor.parameters["shared_memory_offset"].int64_param = place.start
    tensor.parameters["shared_memory_byte_size"].int64_param = place.stop - place.start


# --- regions ------------------------------------------------------------------------------------------------

LIBRARY = "libcudart.so.12"
"""The CUDA runtime that perf_analyzer 2.51 is linked to. perf_analyzer too allocates its regions on the first
GPU: `device_id = 0` in src/infer_data_manager_shm.h."""
_HANDLE_BYTES = 64
_DEFAULT = 4
"""cudaMemcpyDefault: the pointers give the direction. Source of both: driver_types.h."""


@contextlib.contextmanager
def shared_region(server: Server, size: int, where: str) -> Iterator[tuple[str, mmap.mmap]]:
    """Memory that a server on this host has registered, with its name there. Once registered it has no name
    in /dev/shm, so nothing stays there however this process ends. Raises ProofError if there is no room or
    the server refuses it; `where` says what for."""
    with contextlib.ExitStack() as stack:
        with named_memory(server, size, where) as (name, memory):
            stack.callback(memory.close)
            _register(stack, server, "system", name, f"/{name}", size, where=where)
        yield name, memory


@contextlib.contextmanager
def named_memory(server: Server, size: int, where: str) -> Iterator[tuple[str, mmap.mmap]]:
    """This user's own shared memory, with a name in /dev/shm for the length of the block. The caller closes
    it. If this process is killed, the server's guard removes memory whose name begins with that of the
    server's folder. Raises ProofError if there is no room; `where` says what for."""
    begin = server.scratch.name if server.scratch is not None else "tritonproof"
    path = scratch.MEMORY / f"{begin}-answers-{os.getpid()}-{secrets.token_hex(8)}"
    with contextlib.ExitStack() as stack:
        stack.callback(path.unlink, missing_ok=True)
        try:
            with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "r+b") as file:
                # Without room a write would end this process (SIGBUS); this asks for all of it first.
                os.posix_fallocate(file.fileno(), 0, size)
                memory = mmap.mmap(file.fileno(), size)
        except OSError as error:
            raise _no_room(size, "shared", error, f"{scratch.MEMORY}, {where}") from error
        yield path.name, memory


class CudaMemory:
    """Memory on the first GPU, allocated by CUDA's runtime; slices copy bytes as with `mmap`. Raises OSError
    with CUDA's message if a call fails or the library is missing."""

    def __init__(self, size: int) -> None:
        paths = [f"{folder}/{LIBRARY}" for folder in wheels.perf_analyzer_libraries().split(":")]
        self._library = ctypes.CDLL(next(filter(os.path.isfile, paths), LIBRARY))
        self._library.cudaGetErrorString.restype = ctypes.c_char_p
        # CUDA takes small allocations from one block, and hands another process the whole block. The load
        # generator's tensors lie anywhere in a block. Behind another allocation this memory does too, so a
        # reader that mistakes the beginning of the block for it reads wrong values.
        self._before, self._address = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cudaMalloc", ctypes.byref(self._before), ctypes.c_size_t(1))
        self._call("cudaMalloc", ctypes.byref(self._address), ctypes.c_size_t(size))

    def free(self) -> None:
        self._call("cudaFree", self._address)
        self._call("cudaFree", self._before)

    def handle(self) -> bytes:
        """The handle by which another process opens the memory."""
        buffer = ctypes.create_string_buffer(_HANDLE_BYTES)
        self._call("cudaIpcGetMemHandle", buffer, self._address)
        return buffer.raw

    def __getitem__(self, part: slice) -> bytes:
        content = ctypes.create_string_buffer(part.stop - part.start)
        self._call("cudaMemcpy", content, self._at(part), ctypes.c_size_t(len(content)), _DEFAULT)
        return content.raw

    def __setitem__(self, part: slice, content: bytes | memoryview) -> None:
        source = ctypes.c_char_p(bytes(content))
        self._call("cudaMemcpy", self._at(part), source, ctypes.c_size_t(len(content)), _DEFAULT)

    def _at(self, part: slice) -> ctypes.c_void_p:
        return ctypes.c_void_p((self._address.value or 0) + part.start)

    def _call(self, name: str, *arguments: object) -> None:
        if status := getattr(self._library, name)(*arguments):
            raise OSError(status, f"{name}: {self._library.cudaGetErrorString(status).decode()}")


@contextlib.contextmanager
def cuda_region(server: Server, size: int, where: str) -> Iterator[tuple[str, CudaMemory]]:
    """Like `shared_region`, on the first GPU. It goes when this process ends, in whatever way."""
    with contextlib.ExitStack() as stack:
        try:
            memory = CudaMemory(size)
            stack.callback(memory.free)
            handle = base64.b64encode(memory.handle())
        except OSError as error:
            raise _no_room(size, "CUDA", error, where) from error
        name = f"tritonproof-answers-{os.getpid()}-{secrets.token_hex(8)}"
        _register(stack, server, "cuda", name, handle, 0, size, where=where)
        yield name, memory


def _no_room(size: int, kind: str, error: OSError, where: str) -> ProofError:
    return ProofError(
        f"cannot allocate {size / 2**20:.0f} MiB of {kind} memory for the answers under load: "
        f"{error.strerror or error}",
        where=where,
        fix="smaller --batches, another --shared-memory, or more of it: docker run --shm-size=2g, or "
        "mount -o remount,size=2g /dev/shm",
    )


def _register(
    stack: contextlib.ExitStack, server: Server, kind: str, name: str, *region: object, where: str
) -> None:
    """Register a region with the server, and unregister it at the end of the stack."""
    limit_s = server.timeouts.answer_s
    try:
        getattr(server.client, f"register_{kind}_shared_memory")(name, *region, client_timeout=limit_s)
    except client_error() as error:
        raise ProofError(
            f"the server does not take shared memory: {error}{server.log_tail()}",
            where=where,
            fix="another --shared-memory, if the server is on another host or was started without it",
        ) from error
    let_go = getattr(server.client, f"unregister_{kind}_shared_memory")
    stack.callback(unregister, functools.partial(let_go, client_timeout=limit_s), name, limit_s)
