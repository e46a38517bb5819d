"""Memory that this process and a server on this host share for the length of a block, in system memory or on
the first GPU: it is allocated here and registered with the server."""

import base64
import contextlib
import ctypes
import math
import mmap
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tritonproof.base.errors import ProofError
from tritonproof.host import scratch
from tritonproof.safe_io.arrays import values_of
from tritonproof.serve import connection, wheels
from tritonproof.serve.server import Server
from tritonproof.spec import Tensor

_LIBRARY = "libcudart.so.12"
"""The CUDA runtime that perf_analyzer 2.51 is linked to. perf_analyzer too allocates its regions on the first
GPU: `device_id = 0` in src/infer_data_manager_shm.h."""
_HANDLE_BYTES = 64
_DEFAULT = 4
"""cudaMemcpyDefault: the pointers give the direction. Source of both numbers: driver_types.h."""
_ALIGNMENT = 64
"""Every tensor in shared memory begins at a multiple of this many bytes, as a backend's allocations do."""
_LOOK_S = 0.002
"""Seconds between two attempts to unregister a region of shared memory."""


def tensor_slices(sizes: Mapping[str, int], start: int = 0) -> tuple[dict[str, slice], int]:
    """The slices of tensors of these `sizes` in bytes, by name, from `start` on; and the end of the last."""
    slices, end = {}, start
    for name, size in sizes.items():
        slices[name] = slice(end, end + size)
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return slices, end


def tensor_in(content: bytes | memoryview, datatype: str, shape: Sequence[int]) -> np.ndarray | None:
    """The tensor at the beginning of its slice of shared memory, as the server's answer describes it; None if
    it does not fit there."""
    # Texts have no fixed size.
    size = 0 if datatype == "BYTES" else Tensor("", datatype, ()).row_bytes * math.prod(shape)
    return values_of(content[:size], datatype, shape) if 0 <= size <= len(content) else None


@contextlib.contextmanager
def shared_region(
    server: Server, size: int, where: str, client: Any = None
) -> Iterator[tuple[str, mmap.mmap]]:
    """The name and the memory of a private region that a server on this host has registered. Its name in
    /dev/shm is gone by then, so nothing stays there however this process ends. If it is killed before, the
    server's guard removes the region, whose name begins with that of the server's folder. Raises ProofError
    if there is no room; `where` says what for.

    `client`, a tritonclient's, by default the server's own, registers the region; a refusal raises its error.
    """
    client = client or server.client
    begin = server.scratch.name if server.scratch is not None else "tritonproof"
    path = scratch.SHARED_MEMORY_FOLDER / f"{begin}-answers-{os.getpid()}-{secrets.token_hex(8)}"
    with contextlib.ExitStack() as stack:
        try:
            try:
                with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "r+b") as file:
                    # Without room a write would end this process (SIGBUS), so allocate the whole file.
                    os.posix_fallocate(file.fileno(), 0, size)
                    memory = mmap.mmap(file.fileno(), size)
            except OSError as error:
                raise _no_room(size, "shared", error, f"{scratch.SHARED_MEMORY_FOLDER}, {where}") from error
            stack.callback(memory.close)
            stack.enter_context(_registered(server, client, "system", path.name, f"/{path.name}", size))
        finally:
            path.unlink(missing_ok=True)
        yield path.name, memory


class CudaMemory:
    """Memory on the first GPU, allocated by CUDA's runtime; slices copy bytes as with `mmap`. Raises OSError
    with CUDA's message if a call fails or the library is missing."""

    def __init__(self, size: int) -> None:
        paths = [f"{folder}/{_LIBRARY}" for folder in wheels.perf_analyzer_libraries().split(":")]
        self._library = ctypes.CDLL(next(filter(os.path.isfile, paths), _LIBRARY))
        self._library.cudaGetErrorString.restype = ctypes.c_char_p
        # CUDA takes small allocations from one block, and another process gets the handle of the whole block,
        # in which the load generator's tensors lie anywhere. A first allocation keeps this memory too away
        # from the block's beginning, so that a server that reads from there reads wrong values.
        self._before, self._address = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cudaMalloc", ctypes.byref(self._before), ctypes.c_size_t(1))
        self._call("cudaMalloc", ctypes.byref(self._address), ctypes.c_size_t(size))

    def free(self) -> None:
        self._call("cudaFree", self._address)
        self._call("cudaFree", self._before)

    def handle(self) -> bytes:
        """The handle with which another process opens the memory."""
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
    """Like `shared_region`, with memory on the first GPU, which is freed however this process ends."""
    with contextlib.ExitStack() as stack:
        try:
            memory = CudaMemory(size)
            stack.callback(memory.free)
            handle = base64.b64encode(memory.handle())
        except OSError as error:
            raise _no_room(size, "CUDA", error, where) from error
        name = f"tritonproof-answers-{os.getpid()}-{secrets.token_hex(8)}"
        stack.enter_context(_registered(server, server.client, "cuda", name, handle, 0, size))
        yield name, memory


def _no_room(size: int, kind: str, error: OSError, where: str) -> ProofError:
    return ProofError(
        f"cannot allocate {size / 2**20:.0f} MiB of {kind} memory for the answers under load: "
        f"{error.strerror or error}",
        where=where,
        fix="smaller --batches, another --shared-memory, or more of it: docker run --shm-size=2g, or "
        "mount -o remount,size=2g /dev/shm",
    )


@contextlib.contextmanager
def _registered(server: Server, client: Any, kind: str, name: str, *region: object) -> Iterator[None]:
    """Register a region for the length of the block, then unregister it if the server still has it.

    Triton 24.10 refuses to unregister a region that a request uses, until a moment after it sent the answer.
    A request that never ends, perhaps after an error, keeps the region, whose name is not used again.
    Sources: InferResponseComplete in src/grpc/infer_handler.cc, UnregisterHelper in
    src/shared_memory_manager.cc; 24.12 waits.
    """
    # A client over HTTP has a time limit of its own, and takes no other.
    limit = {"client_timeout": connection.ANSWER_S} if client is server.client else {}
    getattr(client, f"register_{kind}_shared_memory")(name, *region, **limit)
    try:
        yield
    finally:
        deadline = time.monotonic() + connection.ANSWER_S
        while time.monotonic() <= deadline:
            try:
                getattr(client, f"unregister_{kind}_shared_memory")(name, **limit)
                break
            except Exception as error:  # noqa: BLE001 - tritonclient and gevent raise types of their own
                if "in use" not in str(error):
                    break
                time.sleep(_LOOK_S)
