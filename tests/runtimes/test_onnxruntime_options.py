"""ONNX Runtime's providers and Triton's backend know the options that they get on a GPU. A provider refuses a
session with an unknown option, and the backend a model with an unknown parameter."""

import importlib.util
import json
import os
import sys
import tempfile
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from fixtures.build import runtimes
from fixtures.build.configuration import model_config
from fixtures.formats import all_formats
from fixtures.host.targets import recognise
from fixtures.models import all_models
from fixtures.spec import Case, Deployment
from tests.user_models import networks

KNOWN = json.loads(Path(__file__).with_name("onnxruntime_options.json").read_text())
DEPLOYMENT = Deployment(8, 1, (8,), 100, False, True, tf32=True)
ONNX = next(format_ for format_ in all_formats() if format_.mnemonic == "onnx")
MICRO = next(model for model in all_models() if model.name == "resnet50-micro")


def case_of(accelerator: str | None, precision: str) -> Case:
    return Case(recognise("NVIDIA A100"), MICRO, ONNX, accelerator, precision)


def providers(
    monkeypatch: pytest.MonkeyPatch, accelerator: str | None = None, precision: str = "fp32", **changes: Any
) -> dict[str, dict[str, str]]:
    """The execution providers of the runtime on a GPU, with their options. Their libraries are not on the
    loader's path, so the process has to load them first."""
    options_of: dict[str, dict[str, str]] = {}
    preloaded: list[str] = []
    runtime = runtimes.load_runtime("onnx.py")

    def session(_path: str, _options: Any, *, providers: Any, provider_options: Any) -> Any:
        assert preloaded == ["CUDA and cuDNN"]
        assert ("tensorrt" in sys.modules) == (accelerator == "trt")
        options_of.update(zip(providers, provider_options, strict=True))
        return SimpleNamespace(get_providers=lambda: list(options_of), get_inputs=list)

    monkeypatch.setattr(runtime.onnxruntime, "InferenceSession", session)
    monkeypatch.setattr(runtime.onnxruntime, "preload_dlls", lambda: preloaded.append("CUDA and cuDNN"))
    monkeypatch.setitem(sys.modules, "tensorrt", types.ModuleType("tensorrt"))  # so that it is as before
    monkeypatch.delitem(sys.modules, "tensorrt")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "")  # so that it is as before after the test
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE")
    deployment = structs.replace(DEPLOYMENT, **changes)
    settings = runtimes.runtime_settings(case_of(accelerator, precision), deployment, "/engines/0f3c")
    with tempfile.TemporaryDirectory() as folder:
        model = networks.convolution(Path(folder) / "model.onnx")
        (Path(folder) / "tensorrt.py").touch()
        monkeypatch.syspath_prepend(folder)
        runtime.load(model, {**settings, "device": "cuda", "device_id": "0"})
    return options_of


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("accelerator", [None, "trt"])
def test_runtime_options_are_known_to_providers(
    accelerator: str | None, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options_of = providers(monkeypatch, accelerator, precision)
    assert list(options_of) == [
        *(["TensorrtExecutionProvider"] if accelerator else []),
        "CUDAExecutionProvider",
        "CPUExecutionProvider",
    ]
    for provider, options in options_of.items():
        assert set(options) <= set(KNOWN["execution_providers"].get(provider, ()))


def test_no_request_waits_for_exhaustive_algorithm_search(monkeypatch: pytest.MonkeyPatch) -> None:
    search = providers(monkeypatch)["CUDAExecutionProvider"]["cudnn_conv_algo_search"]
    assert search in KNOWN["execution_providers"]["cudnn_conv_algo_search"]
    assert search != "EXHAUSTIVE"
    native = model_config(case_of(None, "fp32"), DEPLOYMENT, native=True)
    assert native.parameters["cudnn_conv_algo_search"].string_value == "1", "heuristic, as the backend counts"


def test_several_sessions_do_not_over_allocate(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = providers(monkeypatch)["CUDAExecutionProvider"]["arena_extend_strategy"]
    assert strategy in KNOWN["execution_providers"]["arena_extend_strategy"]
    assert strategy != "kNextPowerOfTwo", "the default"
    alone = providers(monkeypatch, "trt")["CUDAExecutionProvider"]
    assert "arena_extend_strategy" not in alone


@pytest.mark.parametrize("tf32", [True, False])
def test_tf32_setting_reaches_runtime_tensorrt_and_backend(
    tf32: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    options_of = providers(monkeypatch, tf32=tf32)
    assert options_of["CUDAExecutionProvider"]["use_tf32"] == str(int(tf32))
    config = model_config(case_of(None, "fp32"), structs.replace(DEPLOYMENT, tf32=tf32), native=True)
    (accelerator,) = config.optimization.execution_accelerators.gpu_execution_accelerator
    assert accelerator.name == "cuda"
    assert accelerator.parameters["use_tf32"] == str(int(tf32))
    assert set(accelerator.parameters) <= set(KNOWN["execution_providers"]["CUDAExecutionProvider"])
    # TensorRT has no option for it, but an environment variable.
    assert not any("tf32" in name for name in KNOWN["execution_providers"]["TensorrtExecutionProvider"])
    providers(monkeypatch, "trt", tf32=tf32)
    assert os.environ.get("NVIDIA_TF32_OVERRIDE") == (None if tf32 else "0")


@pytest.mark.parametrize(
    ("setting", "option"), [("cuda_graphs", "enable_cuda_graph"), ("prefer_nhwc", "prefer_nhwc")]
)
@pytest.mark.parametrize("asked", [True, False])
def test_provider_gets_deployment_setting(
    setting: str, option: str, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: dict[str, Any] = {setting: asked}
    options = providers(monkeypatch, **changes)["CUDAExecutionProvider"]
    assert options.get(option) == ("1" if asked else None)
    assert option in KNOWN["execution_providers"]["CUDAExecutionProvider"]


def test_engines_and_timings_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    options = providers(monkeypatch, "trt", "fp16")["TensorrtExecutionProvider"]
    assert options["trt_engine_cache_enable"] == options["trt_timing_cache_enable"] == "True"
    assert options["trt_engine_cache_path"] == options["trt_timing_cache_path"] == "/engines/0f3c"


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_backend_parameters_are_known_to_backend(precision: str) -> None:
    config = model_config(case_of("trt", precision), DEPLOYMENT, native=True, engines="/engines/0f3c")
    (accelerator,) = config.optimization.execution_accelerators.gpu_execution_accelerator
    assert set(accelerator.parameters) <= set(KNOWN["triton_backend"]["tensorrt_accelerator"])
    assert accelerator.parameters["trt_engine_cache_path"] == "/engines/0f3c"
    assert set(config.parameters) <= set(KNOWN["triton_backend"]["parameters"])


@pytest.mark.contract
@pytest.mark.parametrize("provider", ["CUDA", "Tensorrt"])
def test_option_list_matches_installed_onnxruntime_gpu(provider: str) -> None:
    spec = importlib.util.find_spec("onnxruntime")
    assert spec is not None
    assert spec.origin is not None
    name = f"libonnxruntime_providers_{provider.lower()}.so"
    library = Path(spec.origin).parent / "capi" / name
    if not library.is_file():
        pytest.skip(f"needs onnxruntime-gpu, which has {name}: install the extra `gpu`")
    content = library.read_bytes()
    names = KNOWN["execution_providers"][f"{provider}ExecutionProvider"]
    assert [name for name in names if name.encode() + b"\0" not in content] == []
