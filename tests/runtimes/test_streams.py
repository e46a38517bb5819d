"""GPU runtimes wait for inputs and outputs; stand-ins record the waits."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fixtures.build import runtimes
from fixtures.frameworks.pytorch import tf32_products

SETTINGS = {
    "device_id": "1",
    "threads": "1",
    "large": "0",
    "tf32": "1",
    "tensors": "torch",
    "accelerator": "",
    "engines": "",
    "precision": "fp32",
}


class Binding:
    """An IOBinding that notes its calls in their order."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    def __getattr__(self, name: str) -> Any:
        def note(*_what: Any) -> Any:
            self.calls.append(name)
            return [torch.ones(1)] if name.startswith("get_") else None

        return note


def test_onnx_runtime_waits_for_inputs_and_outputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    stream = SimpleNamespace(synchronize=lambda: calls.append("inputs are copied"))
    tensor = SimpleNamespace(name="x")
    session = SimpleNamespace(
        get_providers=lambda: ["CUDAExecutionProvider"],
        get_inputs=lambda: [tensor],
        get_outputs=lambda: [tensor],
        io_binding=lambda: Binding(calls),
        run_with_iobinding=lambda _binding, _options: calls.append("run"),
    )
    runtime = runtimes.load_runtime("onnx.py")
    monkeypatch.setattr(runtime.onnxruntime, "InferenceSession", lambda *_what, **_options: session)
    monkeypatch.setattr(runtime.onnxruntime, "preload_dlls", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: stream)
    runtime.load(Path("model.onnx"), {**SETTINGS, "device": "cuda", "large": "1"})([torch.ones(1)])
    assert calls.index("inputs are copied") < calls.index("run") < calls.index("synchronize_outputs")


def test_pytorch_waits_for_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []
    runtime = runtimes.load_runtime("pytorch.py")
    network = torch.nn.Identity()
    monkeypatch.setattr(runtime.torch.jit, "load", lambda _path, **_options: network)
    monkeypatch.setattr(
        runtime.torch.cuda,
        "current_stream",
        lambda device: SimpleNamespace(synchronize=lambda: waited.append(device)),
    )
    with tf32_products(allowed=True):  # undoes the runtime's settings afterwards
        runtime.load(Path("model.pt"), {**SETTINGS, "device": "cuda"})([torch.ones(1)])
    assert waited == ["cuda:1"], "that of the instance's own GPU"
