"""The TensorRT runtime on pointers to tensors, with a stand-in that computes at these addresses."""

import ctypes
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from fixtures.build import runtimes
from tests.formats import tensorrt_bindings

LISTED = json.loads(tensorrt_bindings.NAMES.read_text())

NAMES: dict[str, Any] = {"x": np.float32, "word": np.int64, "sum": np.float32, "twice": np.int64}
"""The stand-in's tensors: two inputs, [n, 3] each, and two outputs, [n] and [n, 3]."""


class Context:
    """An execution context: `sum` is x summed over rows, `twice` is the double of word."""

    def __init__(self) -> None:
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.addresses: dict[str, int] = {}
        self.streams: list[int] = []

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> None:
        self.shapes[name] = shape

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return {"sum": self.shapes["x"][:1], "twice": self.shapes["word"]}.get(name) or self.shapes[name]

    def set_tensor_address(self, name: str, address: int) -> None:
        self.addresses[name] = address

    def execute_async_v3(self, stream: int) -> None:
        self.streams.append(stream)
        arrays = {name: self._at(name) for name in NAMES}
        arrays["sum"][:] = arrays["x"].sum(axis=1)
        arrays["twice"][:] = 2 * arrays["word"]

    def _at(self, name: str) -> np.ndarray:
        kind = np.ctypeslib.as_ctypes_type(NAMES[name])
        pointer = ctypes.cast(self.addresses[name], ctypes.POINTER(kind))
        return np.ctypeslib.as_array(pointer, shape=self.get_tensor_shape(name))


class Engine:
    """An engine with the tensors of NAMES."""

    num_io_tensors = len(NAMES)

    def __init__(self, context: Context) -> None:
        self.create_execution_context = lambda: context

    def get_tensor_name(self, index: int) -> str:
        return list(NAMES)[index]

    def get_tensor_mode(self, name: str) -> str:
        return "input" if name in ("x", "word") else "output"

    def get_tensor_dtype(self, name: str) -> Any:
        return NAMES[name]


class Stream:
    """A stream that notes its waits."""

    cuda_stream = 7

    def __init__(self, *_device: Any) -> None:
        self.waited: list[str] = []

    def wait_stream(self, _other: Any) -> None:
        self.waited.append("for the inputs")

    def synchronize(self) -> None:
        self.waited.append("for the outputs")


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SimpleNamespace]:
    """The runtime's function, with the stand-in's context and stream."""
    context, stream = Context(), Stream()
    device: dict[str, Any] = {"current": "cuda:0"}
    tensorrt: Any = ModuleType("tensorrt")
    tensorrt.Logger = type("Logger", (), {"WARNING": 1, "__init__": lambda *_: None})
    engines = {b"engine": Engine(context)}

    def read(content: bytes) -> Engine | None:
        device["of the engine"] = device["current"]
        return engines.get(content)

    tensorrt.Runtime = lambda _logger: SimpleNamespace(deserialize_cuda_engine=read)
    tensorrt.TensorIOMode = SimpleNamespace(INPUT="input")
    tensorrt.nptype = lambda kind: kind
    monkeypatch.setitem(sys.modules, "tensorrt", tensorrt)

    @contextmanager
    def entered(_stream: Any) -> Iterator[None]:
        yield

    on_cpu: Any = ModuleType("torch")
    on_cpu.__dict__.update(torch.__dict__)
    on_cpu.device = lambda kind, number: device.update(asked=f"{kind}:{number}") or torch.device("cpu")
    on_cpu.cuda = SimpleNamespace(
        Stream=lambda _device: stream,
        stream=entered,
        current_stream=lambda _device: None,
        set_device=lambda _device: device.update(current=device["asked"]),
    )
    monkeypatch.setitem(sys.modules, "torch", on_cpu)
    runtimes.load_runtime.cache_clear()
    module = runtimes.load_runtime("trt.py")
    artifact = tmp_path / "model.plan"
    artifact.write_bytes(b"engine")
    yield SimpleNamespace(
        module=module,
        predict=module.load(artifact, {"device_id": "0"}),
        context=context,
        stream=stream,
        artifact=artifact,
        device=device,
    )
    runtimes.load_runtime.cache_clear()


@pytest.mark.parametrize("version", LISTED)
def test_stand_in_names_are_in_tensorrt_bindings(version: str, runtime: SimpleNamespace) -> None:
    stand_ins = {
        "tensorrt": vars(sys.modules["tensorrt"]),
        "IExecutionContext": vars(Context),
        "ICudaEngine": {**vars(Engine), "create_execution_context": None},
        "Runtime": ("deserialize_cuda_engine",),
        "TensorIOMode": ("INPUT",),
    }
    for kind, names in stand_ins.items():
        assert {name for name in names if not name.startswith("_")} <= set(LISTED[version][kind]), kind


@pytest.mark.parametrize("rows", [1, 4])
def test_engine_uses_tensors_in_place(runtime: SimpleNamespace, rows: int) -> None:
    x = torch.arange(3.0 * rows).reshape(rows, 3)
    word = torch.arange(3 * rows).reshape(rows, 3)
    total, twice = runtime.predict([x, word])
    assert torch.equal(total, x.sum(dim=1))
    assert torch.equal(twice, 2 * word)
    assert runtime.context.addresses["x"] == x.data_ptr(), "no copy"
    assert runtime.context.addresses["sum"] == total.data_ptr()


def test_inputs_may_be_views_and_outputs_persist(runtime: SimpleNamespace) -> None:
    x, word = torch.arange(6.0).reshape(3, 2).T, torch.arange(6).reshape(3, 2).T
    total, twice = runtime.predict([x, word])
    runtime.predict([torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.int64)])
    assert torch.equal(total, x.sum(dim=1))
    assert torch.equal(twice, 2 * word)


def test_engine_waits_for_inputs_and_outputs(runtime: SimpleNamespace) -> None:
    runtime.predict([torch.zeros(1, 3), torch.zeros(1, 3, dtype=torch.int64)])
    assert runtime.stream.waited == ["for the inputs", "for the outputs"]
    assert runtime.context.streams == [Stream.cuda_stream]


def test_engine_is_loaded_for_its_gpu(runtime: SimpleNamespace) -> None:
    """TensorRT uses the current GPU: the first one could not reach the second one's tensors."""
    runtime.module.load(runtime.artifact, {"device_id": "1"})
    assert runtime.device["of the engine"] == "cuda:1"


def test_engine_of_another_tensorrt_is_refused(runtime: SimpleNamespace) -> None:
    runtime.artifact.write_bytes(b"another")
    with pytest.raises(RuntimeError, match="another GPU or another TensorRT"):
        runtime.module.load(runtime.artifact, {"device_id": "0"})
