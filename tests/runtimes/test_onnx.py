"""ONNX Runtime on a GPU has a session or a graph for each batch size; and its providers and Triton's backend know
the options that they get: a provider refuses a session with an unknown one, the backend a model."""

import importlib.util
import json
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnxruntime
import pytest
import torch
from msgspec import structs

from tests.formats import converting
from tests.helpers import present
from tests.user_models import networks
from tritonproof.build import runtime_files
from tritonproof.build.configuration import model_config
from tritonproof.formats import all_formats
from tritonproof.host.targets import recognise
from tritonproof.models import all_models
from tritonproof.record.setup import Deployment, Scenario
from tritonproof.spec import Case

PARAMETERS = converting.ON_CPU | {"accelerator": "", "engines": "", "precision": "fp32", "tensors": "torch"}
DEPLOYMENT = Deployment(24, 1, (12, 24), 100, False, warmup=True, tf32=True)
RUNTIME = runtime_files.load_runtime("onnx.py")
FORMATS = {format_.name: format_ for format_ in all_formats()}
MICRO = next(model for model in all_models() if model.name == "resnet50-micro")


def images(count: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(count).normal(size=(count, 3, 5, 5)).astype(np.float32))


def answer(path: Path, rows: int) -> np.ndarray:
    """The network's output for a number of rows at once."""
    alone = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.asarray(alone.run(None, {"images": images(rows).numpy()})[0])


@pytest.mark.parametrize(
    ("sizes", "computed"),
    [
        ("8,1,4", {0: [4, 4, 4], 1: [1], 2: [8, 8], 3: [9]}),
        ("", {0: [3, 3], 1: [1], 2: [8], 3: [4], 4: [5], 5: [9]}),
    ],
)
def test_batch_is_padded_to_next_session_size(
    sizes: str, computed: dict[int, list[int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the session's number; a CPU stands in for the GPU."""
    batches: dict[int, list[int]] = {}
    opened = RUNTIME._on_tensors

    def on_tensors(session: Any, parameters: Any) -> Any:
        predict, sizes_of_session = opened(session, parameters), batches.setdefault(len(batches), [])

        def run(tensors: Any) -> Any:
            sizes_of_session.append(len(tensors[0]))
            return predict(tensors)

        return run

    monkeypatch.setattr(RUNTIME, "_on_tensors", on_tensors)
    monkeypatch.setattr(RUNTIME, "_plans_anew", lambda _graph, _parameters: True)
    path = networks.convolution(tmp_path / "model.onnx")
    predict = RUNTIME.load(path, PARAMETERS | {"sizes": sizes})
    for rows in (3, 1, 8, 4, 5, 3, 9):
        np.testing.assert_allclose(predict([images(rows)])[0].numpy(), answer(path, rows), atol=1e-5)
    assert batches == computed


def test_each_shape_has_its_own_graph_and_buffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replayed CUDA graph reads and writes the memory that it was captured with, whatever its run gets. A
    CPU captures nothing, but the runtime binds and keeps the memory as for a graph."""
    pointers: dict[int, set[tuple[int, ...]]] = {}
    opened = RUNTIME._on_tensors

    def on_tensors(session: Any, parameters: Any, outputs: Any = None, graph: Any = None) -> Any:
        predict = opened(session, parameters, outputs, graph)

        def run(tensors: Any) -> Any:
            if graph > 0:
                used = tuple(tensor.data_ptr() for tensor in (*tensors, *outputs))
                pointers.setdefault(graph, set()).add(used)
            return predict(tensors)

        return run

    monkeypatch.setattr(RUNTIME, "_on_tensors", on_tensors)
    path = networks.convolution(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    predict = RUNTIME._captured(session, PARAMETERS)
    answers = {}
    for rows in (2, 5, 2, 5, 1):
        (answers[rows],) = predict([images(rows)])
        predict([images(rows) + 1])
    for rows, predicted in answers.items():
        np.testing.assert_allclose(predicted.numpy(), answer(path, rows), atol=1e-5)
    assert {graph: len(used) for graph, used in pointers.items()} == {1: 1, 2: 1, 3: 1}
    assert len(set().union(*pointers.values())) == 3


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"device": "cpu"}, False),
        ({"accelerator": "trt"}, False),
        ({"large": "1"}, False),
        ({"batched": "0"}, False),
    ],
)
def test_gpu_plans_convolution_by_batch_size(change: dict[str, str], expected: bool, tmp_path: Path) -> None:
    parameters = PARAMETERS | {"device": "cuda"} | change
    assert RUNTIME._plans_anew(networks.convolution(tmp_path / "model.onnx"), parameters) is expected
    assert not RUNTIME._plans_anew(networks.linear(tmp_path / "model.onnx"), parameters)


@pytest.mark.parametrize(("told", "spins"), [({}, "0"), ({"spinning": "1"}, "1")])
def test_threads_spin_only_if_told(
    told: dict[str, str], spins: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    opened = onnxruntime.InferenceSession

    def session(path: str, options: Any, **others: Any) -> Any:
        seen.append(options.get_session_config_entry("session.intra_op.allow_spinning"))
        return opened(path, options, **others)

    monkeypatch.setattr(RUNTIME.onnxruntime, "InferenceSession", session)
    RUNTIME.load(networks.convolution(tmp_path / "model.onnx"), PARAMETERS | told)
    assert seen == [spins]


EVERY = set(range(1, 25))


@pytest.mark.parametrize(
    ("name", "target", "accelerator", "native", "scenario", "sizes", "warmed"),
    [
        ("onnx", "NVIDIA A100", None, False, "online", "1,2,4,8,12,16,24", EVERY),
        ("onnx", "NVIDIA A100", None, False, "offline", "", {1, 24}),
        ("onnx", "NVIDIA A100", None, True, "offline", "", {1, 24}),
        ("onnx", "NVIDIA A100", None, True, "online", "", EVERY),
        ("onnx", "NVIDIA A100", "trt", False, "online", "", EVERY),
        ("onnx", None, None, False, "online", "", {1, 24}),
        # PyTorch keeps the plan of each size: on an H200 130 of them took the micro ResNet50 13 s.
        ("ts-trace", "NVIDIA A100", None, False, "online", "", EVERY),
        ("ts-trace", "NVIDIA A100", None, False, "offline", "", {1, 24}),
    ],
)
def test_server_gets_batch_sizes_of_its_batcher(
    name: str, target: Any, accelerator: str | None, native: bool, scenario: Scenario, sizes: str, warmed: Any
) -> None:
    case = Case(recognise(target), MICRO, FORMATS[name], accelerator, "fp32")
    config = model_config(case, DEPLOYMENT, native=native, scenario=scenario)
    assert config.parameters["sizes"].string_value == sizes
    counts = {entry.batch_size: entry.count for entry in config.model_warmup}
    assert set(counts) == warmed
    # The largest comes right after the smallest, so TensorRT builds one engine for all between.
    assert list(counts)[:2] == [1, 24]
    assert counts.get(12, 3) == 3, "one that the batcher prefers"


KNOWN = json.loads(Path(__file__).with_name("onnxruntime_options.json").read_text())


def case_of(accelerator: str | None, precision: str) -> Case:
    return Case(recognise("NVIDIA A100"), MICRO, FORMATS["onnx"], accelerator, precision)


Providers = Callable[..., dict[str, dict[str, str]]]


@pytest.fixture
def providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Providers:
    """The execution providers of the runtime on a GPU, with their options. Their libraries are not on the
    loader's path, so the process has to load them first."""
    model = networks.convolution(tmp_path / "model.onnx")
    (tmp_path / "tensorrt.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "tensorrt", types.ModuleType("tensorrt"))  # so that it is as before
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "")  # so that it is as before after the test

    def opened(accelerator: str | None = None, precision: str = "fp32", **changes: Any) -> Any:
        preloaded: list[str] = []
        options_of: dict[str, dict[str, str]] = {}

        def session(_path: str, _options: Any, *, providers: Any, provider_options: Any) -> Any:
            assert preloaded == ["CUDA and cuDNN"]
            assert ("tensorrt" in sys.modules) == (accelerator == "trt")
            options_of.update(zip(providers, provider_options, strict=True))
            return SimpleNamespace(get_providers=lambda: list(options_of), get_inputs=list)

        monkeypatch.setattr(RUNTIME.onnxruntime, "InferenceSession", session)
        monkeypatch.setattr(RUNTIME.onnxruntime, "preload_dlls", lambda: preloaded.append("CUDA and cuDNN"))
        monkeypatch.delitem(sys.modules, "tensorrt", raising=False)
        monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
        deployment = structs.replace(DEPLOYMENT, **changes)
        case = case_of(accelerator, precision)
        parameters = runtime_files.runtime_parameters(case, deployment, "/engines/0f3c")
        RUNTIME.load(model, {**parameters, "device": "cuda", "device_id": "0"})
        return options_of

    return opened


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("accelerator", [None, "trt"])
def test_runtime_options_are_known_to_providers(
    accelerator: str | None, precision: str, providers: Providers
) -> None:
    options_of = providers(accelerator, precision, cuda_graphs=True, prefer_nhwc=True)
    accelerators = ["TensorrtExecutionProvider"] if accelerator else []
    assert [*options_of] == [*accelerators, "CUDAExecutionProvider", "CPUExecutionProvider"]
    for provider, options in options_of.items():
        assert set(options) <= set(KNOWN["execution_providers"].get(provider, ()))
    if accelerator:
        options = options_of["TensorrtExecutionProvider"]
        assert options["trt_engine_cache_enable"] == options["trt_timing_cache_enable"] == "True"
        assert options["trt_engine_cache_path"] == options["trt_timing_cache_path"] == "/engines/0f3c"


def test_neither_search_nor_memory_has_the_slow_default(providers: Providers) -> None:
    """No request waits for an exhaustive search of algorithms, and several sessions take what they need."""
    options = providers()["CUDAExecutionProvider"]
    for key, slow in (("cudnn_conv_algo_search", "EXHAUSTIVE"), ("arena_extend_strategy", "kNextPowerOfTwo")):
        assert options[key] in set(KNOWN["execution_providers"][key]) - {slow}
    native = model_config(case_of(None, "fp32"), DEPLOYMENT, native=True)
    assert native.parameters["cudnn_conv_algo_search"].string_value == "1", "heuristic, as the backend counts"
    assert "arena_extend_strategy" not in providers("trt")["CUDAExecutionProvider"]


@pytest.mark.parametrize("tf32", [True, False])
def test_tf32_parameter_reaches_runtime_tensorrt_and_backend(tf32: bool, providers: Providers) -> None:
    options_of = providers(tf32=tf32)
    assert options_of["CUDAExecutionProvider"]["use_tf32"] == str(int(tf32))
    config = model_config(case_of(None, "fp32"), structs.replace(DEPLOYMENT, tf32=tf32), native=True)
    (accelerator,) = config.optimization.execution_accelerators.gpu_execution_accelerator
    assert accelerator.name == "cuda"
    assert accelerator.parameters["use_tf32"] == str(int(tf32))
    # TensorRT has no option for it, but an environment variable.
    assert not any("tf32" in name for name in KNOWN["execution_providers"]["TensorrtExecutionProvider"])
    providers("trt", tf32=tf32)
    assert os.environ.get("NVIDIA_TF32_OVERRIDE") == (None if tf32 else "0")


@pytest.mark.parametrize(
    ("setting", "option"), [("cuda_graphs", "enable_cuda_graph"), ("prefer_nhwc", "prefer_nhwc")]
)
def test_provider_gets_deployment_setting(setting: str, option: str, providers: Providers) -> None:
    changes: dict[str, Any] = {setting: True}
    assert providers(**changes)["CUDAExecutionProvider"][option] == "1"
    assert providers()["CUDAExecutionProvider"][option] == "0"


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_backend_parameters_are_known_to_backend(precision: str) -> None:
    config = model_config(case_of("trt", precision), DEPLOYMENT, native=True, engines="/engines/0f3c")
    (accelerator,) = config.optimization.execution_accelerators.gpu_execution_accelerator
    assert set(accelerator.parameters) <= set(KNOWN["triton_backend"]["tensorrt_accelerator"])
    assert accelerator.parameters["trt_engine_cache_path"] == "/engines/0f3c"
    assert set(config.parameters) <= set(KNOWN["triton_backend"]["parameters"])


def test_onnx_runtime_waits_for_inputs_and_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Mock()
    gpu.session.get_providers.return_value = ["CUDAExecutionProvider"]
    gpu.session.get_inputs.return_value = gpu.session.get_outputs.return_value = [SimpleNamespace(name="x")]
    gpu.session.io_binding.return_value = gpu.binding
    gpu.binding.get_outputs_as_ortvaluevector.return_value = [torch.ones(1)]
    monkeypatch.setattr(RUNTIME.onnxruntime, "InferenceSession", lambda *_what, **_options: gpu.session)
    monkeypatch.setattr(RUNTIME.onnxruntime, "preload_dlls", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: gpu.stream)
    RUNTIME.load(Path("model.onnx"), {**PARAMETERS, "device": "cuda", "large": "1"})([torch.ones(1)])
    calls = [name for name, *_arguments in gpu.mock_calls]
    waits = ["stream.synchronize", "session.run_with_iobinding", "binding.synchronize_outputs"]
    assert [call for call in calls if call in waits] == waits


@pytest.mark.contract
@pytest.mark.parametrize("provider", ["CUDA", "Tensorrt"])
def test_option_list_matches_installed_onnxruntime_gpu(provider: str) -> None:
    spec = present(importlib.util.find_spec("onnxruntime"))
    name = f"libonnxruntime_providers_{provider.lower()}.so"
    library = Path(present(spec.origin)).parent / "capi" / name
    if not library.is_file():
        pytest.skip(f"needs onnxruntime-gpu, which has {name}: install the extra `gpu`")
    content = library.read_bytes()
    names = KNOWN["execution_providers"][f"{provider}ExecutionProvider"]
    assert [name for name in names if name.encode() + b"\0" not in content] == []
