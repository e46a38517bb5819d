"""The TensorRT runtime on pointers to tensors, with a stand-in that computes at these addresses."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.formats import tensorrt_bindings
from tests.formats.tensorrt_bindings import MODULE, Player
from tritonproof.build import runtime_files

NAMES: dict[str, Any] = {"x": np.float32, "word": np.int64, "sum": np.float32, "twice": np.int64}
"""The stand-in's tensors: two inputs, [n, 3] each; `sum` is x summed over rows, `twice` doubles word."""


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
    """The runtime's function, with the stand-in's addresses and stream."""
    stream, addresses = Stream(), dict[str, int]()
    shapes, device = dict[str, tuple[int, ...]](), {"current": "cuda:0"}

    def shape_of(name: str) -> tuple[int, ...]:
        return {"sum": shapes["x"][:1], "twice": shapes["word"]}.get(name) or shapes[name]

    def values_of(name: str) -> np.ndarray:
        kind = np.ctypeslib.as_ctypes_type(NAMES[name])
        pointer = ctypes.cast(addresses[name], ctypes.POINTER(kind))
        return np.ctypeslib.as_array(pointer, shape=shape_of(name))

    def execute(number: int) -> None:
        stream.waited.append(f"computed on {number}")
        values_of("sum")[:] = values_of("x").sum(axis=1)
        values_of("twice")[:] = 2 * values_of("word")

    def read(content: bytes) -> Any:
        device["of the engine"] = device["current"]
        return Player({}, "ICudaEngine", **answers) if content == b"engine" else None

    answers = {
        "WARNING": 1,
        "INPUT": "input",
        "nptype": lambda kind: kind,
        "deserialize_cuda_engine": read,
        "num_io_tensors": len(NAMES),
        "get_tensor_name": list(NAMES).__getitem__,
        "get_tensor_mode": lambda name: "input" if name in ("x", "word") else "output",
        "get_tensor_dtype": NAMES.get,
        "get_tensor_shape": shape_of,
        "set_input_shape": shapes.__setitem__,
        "set_tensor_address": addresses.__setitem__,
        "execute_async_v3": execute,
    }
    monkeypatch.setitem(sys.modules, "tensorrt", Player({}, MODULE, **answers))

    on_cpu: Any = ModuleType("torch")
    on_cpu.__dict__.update(torch.__dict__)
    on_cpu.device = lambda kind, number: device.update(asked=f"{kind}:{number}") or torch.device("cpu")
    on_cpu.cuda = SimpleNamespace(
        Stream=lambda _device: stream,
        stream=nullcontext,
        current_stream=lambda _device: None,
        set_device=lambda _device: device.update(current=device["asked"]),
    )
    monkeypatch.setitem(sys.modules, "torch", on_cpu)
    runtime_files.load_runtime.cache_clear()
    module = runtime_files.load_runtime("trt.py")
    artifact = tmp_path / "model.plan"
    artifact.write_bytes(b"engine")
    predict = module.load(artifact, {"device_id": "0"})
    yield SimpleNamespace(
        module=module, predict=predict, addresses=addresses, stream=stream, artifact=artifact, device=device
    )
    runtime_files.load_runtime.cache_clear()


@pytest.mark.parametrize("rows", [1, 4])
def test_engine_uses_tensors_in_place(runtime: SimpleNamespace, rows: int) -> None:
    x = torch.arange(3.0 * rows).reshape(rows, 3)
    word = torch.arange(3 * rows).reshape(rows, 3)
    total, twice = runtime.predict([x, word])
    assert torch.equal(total, x.sum(dim=1))
    assert torch.equal(twice, 2 * word)
    assert runtime.addresses["x"] == x.data_ptr(), "no copy"
    assert runtime.addresses["sum"] == total.data_ptr()


def test_inputs_may_be_views_and_outputs_persist(runtime: SimpleNamespace) -> None:
    x, word = torch.arange(6.0).reshape(3, 2).T, torch.arange(6).reshape(3, 2).T
    total, twice = runtime.predict([x, word])
    runtime.predict([torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.int64)])
    assert torch.equal(total, x.sum(dim=1))
    assert torch.equal(twice, 2 * word)


def test_engine_waits_for_inputs_and_outputs(runtime: SimpleNamespace) -> None:
    runtime.predict([torch.zeros(1, 3), torch.zeros(1, 3, dtype=torch.int64)])
    assert runtime.stream.waited == ["for the inputs", f"computed on {Stream.cuda_stream}", "for the outputs"]


def test_engine_is_loaded_for_its_gpu(runtime: SimpleNamespace) -> None:
    """TensorRT uses the current GPU: the first one could not reach the second one's tensors."""
    runtime.module.load(runtime.artifact, {"device_id": "1"})
    assert runtime.device["of the engine"] == "cuda:1"


def test_engine_of_another_tensorrt_is_refused(runtime: SimpleNamespace) -> None:
    runtime.artifact.write_bytes(b"another")
    with pytest.raises(RuntimeError, match="another GPU or another TensorRT"):
        runtime.module.load(runtime.artifact, {"device_id": "0"})


def test_runtime_uses_names_of_every_version(runtime: SimpleNamespace) -> None:
    Player.used.clear()
    runtime.module.load(runtime.artifact, {"device_id": "0"})([torch.zeros(1, 3), torch.zeros(1, 3).long()])
    assert ("IExecutionContext", "execute_async_v3") in Player.used
    assert tensorrt_bindings.missing_names(Player.used) == {}
