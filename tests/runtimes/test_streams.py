"""On a GPU a runtime waits for its inputs and hands over answers that are computed, by stand-ins that note what is waited for."""

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
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


def test_onnx_runtime_starts_when_the_inputs_are_there_and_answers_when_it_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    tensor = SimpleNamespace(name="x")
    session = SimpleNamespace(
        get_providers=lambda: ["CPUExecutionProvider"],
        get_inputs=lambda: [tensor],
        get_outputs=lambda: [tensor],
        io_binding=lambda: Binding(calls),
        run_with_iobinding=lambda _binding: calls.append("run"),
    )
    runtime = runtimes.load_runtime("onnx.py")
    monkeypatch.setattr(runtime.onnxruntime, "InferenceSession", lambda *_what, **_options: session)
    runtime.load(Path("model.onnx"), {**SETTINGS, "device": "cpu"})([torch.ones(1)])
    assert calls.index("synchronize_inputs") < calls.index("run") < calls.index("synchronize_outputs")
    assert calls.index("bind_input") < calls.index("synchronize_inputs")


def test_pytorch_answers_when_its_stream_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []
    runtime = runtimes.load_runtime("pytorch.py")
    network = torch.nn.Identity()
    monkeypatch.setattr(runtime.torch.jit, "load", lambda _path, **_options: network)
    monkeypatch.setattr(
        runtime.torch.cuda,
        "current_stream",
        lambda device: SimpleNamespace(synchronize=lambda: waited.append(device)),
    )
    with tf32_products(allowed=True):  # what the runtime sets is as it was afterwards
        runtime.load(Path("model.pt"), {**SETTINGS, "device": "cuda"})([torch.ones(1)])
    assert waited == ["cuda:1"], "that of the instance's own GPU"


def test_an_instance_computes_on_its_own_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With several, inputs that are in the host's memory go to the instance's GPU, which is the current one."""
    shutil.copyfile(runtimes.RUNTIMES / "model.py", tmp_path / "model.py")
    (tmp_path / "runtime.py").write_text(
        "def load(artifact, settings):\n    return lambda tensors: tensors\n"
    )
    asked: dict[str, str] = {}

    def to(device: Any) -> torch.Tensor:
        asked["inputs"] = str(device)
        return torch.ones(1, 2)

    pb_utils: Any = ModuleType("triton_python_backend_utils")
    pb_utils.get_input_tensor_by_name = lambda _request, _name: SimpleNamespace(shape=lambda: (1, 2))
    pb_utils.Tensor = SimpleNamespace(from_dlpack=lambda _name, rows: rows)
    pb_utils.InferenceResponse = list
    monkeypatch.setitem(sys.modules, pb_utils.__name__, pb_utils)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: asked.update(current=str(device)))
    monkeypatch.setattr(torch, "from_dlpack", lambda _part: SimpleNamespace(to=to))
    spec = importlib.util.spec_from_file_location("model", tmp_path / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    instance = module.TritonPythonModel()
    parameters = {
        name: {"string_value": value} for name, value in (SETTINGS | {"artifact": "model.pt"}).items()
    }
    config = {"parameters": parameters, "input": [{"name": "x"}], "output": [{"name": "y"}]}
    instance.initialize(
        {"model_config": json.dumps(config), "model_instance_kind": "GPU", "model_instance_device_id": "1"}
    )
    instance.execute([None])
    assert asked == {"current": "cuda:1", "inputs": "cuda:1"}
