"""A Python server that takes its tensors through shared memory, with faults that only shared memory has. Its
model answers 3 x + 1 to VALUES and twice COUNT to COUNT. Regions, offsets and refusals follow Triton's
protocol, by tritonclient."""

import contextlib
import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import grpc
import numpy as np
from tritonclient.grpc import service_pb2

from tests.helpers import grpc_server
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSpec
from tritonproof.spec import Tensor

INPUTS = (Tensor("VALUES", "FP32", (5,)), Tensor("COUNT", "INT64", (1,)))
OUTPUTS = (Tensor("ANSWER", "FP32", (5,)), Tensor("TWICE", "INT64", (1,)))
Fault = Literal[
    "none", "writes once", "writes half", "another's slice", "reads the first", "in the message", "longer"
]


@dataclass
class Seen:
    """The requests to the server, and its regions."""

    keys: list[str] = field(default_factory=list)
    """The names of registered segments, in order."""
    modes: list[int] = field(default_factory=list)
    """Who may read each of them when it is registered."""
    handles: list[bytes] = field(default_factory=list)
    """The handles of registered CUDA memory, in order."""
    regions: dict[str, Any] = field(default_factory=dict)
    """The regions registered now, by name."""
    sent_bytes: int = 0
    """Bytes of inputs that came in messages."""
    requests: int = 0


class StandIn:
    """CUDA memory, simulated in this process."""

    memory: ClassVar[dict[bytes, bytearray]] = {}
    """The live allocations, by handle."""

    def __init__(self, size: int) -> None:
        self._handle = (len(self.memory) + 1).to_bytes(64, "little")
        self.memory[self._handle] = bytearray(size)

    def free(self) -> None:
        del self.memory[self._handle]

    def handle(self) -> bytes:
        return self._handle

    def __setitem__(self, part: slice, content: bytes) -> None:
        self.memory[self._handle][part] = content

    def __getitem__(self, part: slice) -> bytes:
        return bytes(self.memory[self._handle][part])


def answers(values: np.ndarray, count: np.ndarray) -> dict[str, np.ndarray]:
    """The right answers of the model."""
    return {"ANSWER": 3 * values + 1, "TWICE": 2 * count}


def region_calls(
    seen: Seen, *, in_use: int = 0, refuses: bool = False
) -> dict[str, Callable[[Any, Any], Any]]:
    """A server's answers to the calls that register and release regions, which it keeps in `seen`; it refuses
    `in_use` times to release one."""
    refusals = iter(range(in_use))

    def check_allowed(context: Any) -> None:
        if refuses:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "client shared memory is not allowed")

    def register_system(request: Any, context: Any) -> Any:
        seen.keys.append(request.key.lstrip("/"))
        check_allowed(context)
        with (Path("/dev/shm") / seen.keys[-1]).open("r+b") as file:
            seen.modes.append(os.fstat(file.fileno()).st_mode & 0o777)
            seen.regions[request.name] = mmap.mmap(file.fileno(), request.byte_size)
        return service_pb2.SystemSharedMemoryRegisterResponse()

    def unregister_system(request: Any, context: Any) -> Any:
        if next(refusals, None) is not None:
            context.abort(grpc.StatusCode.INTERNAL, f"region '{request.name}', it is currently in use.")
        seen.regions.pop(request.name)
        return service_pb2.SystemSharedMemoryUnregisterResponse()

    def register_cuda(request: Any, context: Any) -> Any:
        assert request.device_id == 0
        seen.handles.append(request.raw_handle)
        check_allowed(context)
        seen.regions[request.name] = StandIn.memory[request.raw_handle]
        return service_pb2.CudaSharedMemoryRegisterResponse()

    def unregister_cuda(request: Any, _context: Any) -> Any:
        seen.regions.pop(request.name)
        return service_pb2.CudaSharedMemoryUnregisterResponse()

    return {
        "SystemSharedMemoryRegister": register_system,
        "SystemSharedMemoryUnregister": unregister_system,
        "CudaSharedMemoryRegister": register_cuda,
        "CudaSharedMemoryUnregister": unregister_cuda,
    }


@contextlib.contextmanager
def memory_server(
    fault: Fault = "none", scratch: Path | None = None, **how: Any
) -> Iterator[tuple[Server, Seen]]:
    """The server, with `how` it answers the calls for regions, and the requests to it."""
    seen = Seen()

    def infer(request: Any, context: Any) -> Any:
        seen.requests += 1
        seen.sent_bytes += sum(map(len, request.raw_input_contents))
        if request.model_name == "gone":
            context.abort(grpc.StatusCode.NOT_FOUND, "unknown model")
        return _answer(request, seen, fault)

    with grpc_server({**region_calls(seen, **how), "ModelInfer": infer}) as (address, client):
        yield Server(ServerSpec("local"), address, "0", None, client, scratch=scratch), seen


def _answer(request: Any, seen: Seen, fault: Fault) -> Any:
    inputs, sent = {}, list(request.raw_input_contents)
    for tensor in request.inputs:
        if sent:
            content = sent.pop(0)
        else:
            region, begin, size = location(tensor, seen.regions)
            start = 0 if fault == "reads the first" and tensor.name == "VALUES" else begin
            content = seen.regions[region][start : start + size]
        dtype = np.float32 if tensor.datatype == "FP32" else np.int64
        inputs[tensor.name] = np.frombuffer(content, dtype).reshape(list(tensor.shape))
    response = service_pb2.ModelInferResponse(model_name=request.model_name)
    outputs = answers(inputs["VALUES"], inputs["COUNT"])
    for tensor in request.outputs:
        values = outputs[tensor.name]
        shape = (len(values) + 20 * (fault == "longer"), *values.shape[1:])
        datatype = "FP32" if values.dtype == np.float32 else "INT64"
        response.outputs.add(name=tensor.name, datatype=datatype, shape=shape)
        if fault == "in the message" or "shared_memory_region" not in tensor.parameters:
            response.raw_output_contents.append(values.tobytes())
            continue
        region, begin, size = location(tensor, seen.regions)
        if fault == "another's slice":
            begin = max(begin - 128, 0)
        written = values.tobytes()[: size // 2 if fault == "writes half" else size]
        if fault != "writes once" or seen.requests == 1:
            seen.regions[region][begin : begin + len(written)] = written
    return response


def location(tensor: Any, regions: Mapping[str, Any]) -> tuple[str, int, int]:
    """The region, offset and size of a tensor, inside the region as in Triton."""
    keys = ("region", "offset", "byte_size")
    region, offset, size = (tensor.parameters[f"shared_memory_{key}"] for key in keys)
    end = offset.int64_param + size.int64_param
    assert end <= len(regions[region.string_param]), "it ends within its region"
    return region.string_param, offset.int64_param, size.int64_param
