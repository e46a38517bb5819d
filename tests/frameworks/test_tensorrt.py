"""TensorRT is found under each of its names, and told apart by what needs it."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from fixtures.build import runtimes
from fixtures.frameworks import tensorrt
from fixtures.host import machine

A100, V100 = (8, 0), (7, 0)


def install(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    """A machine with these distributions, and an ONNX Runtime linked to TensorRT 10."""
    installed = {name.replace("_", "-"): version for name, version in versions.items()}
    monkeypatch.setattr(machine, "version_of", installed.get)
    monkeypatch.setattr(tensorrt, "tensorrt_of_onnx_runtime", lambda: 10)


@pytest.mark.parametrize(("name", "cuda"), [("tensorrt", None), ("tensorrt_cu12", 12), ("tensorrt_cu13", 13)])
def test_it_is_found_under_each_of_its_names(
    name: str, cuda: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, **{name: "10.16.1.11"})
    found = tensorrt.installed()

    assert found is not None
    assert (found.version, found.cuda) == ("10.16.1.11", cuda)
    assert tensorrt.missing(A100) is None
    assert tensorrt.missing_for_onnx_runtime(A100) is None


def test_the_name_without_cuda_gives_way_to_the_one_that_it_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tensorrt="11.4.0.106", tensorrt_cu13="11.4.0.106")
    assert getattr(tensorrt.installed(), "cuda", None) == 13
    # TensorRT 11 builds engines, and is not the one that ONNX Runtime is linked to.
    assert tensorrt.missing(A100) is None
    assert tensorrt.missing_for_onnx_runtime(A100)
    install(monkeypatch)
    assert tensorrt.missing(A100)
    assert tensorrt.missing_for_onnx_runtime(A100)


@pytest.mark.parametrize(("version", "runs"), [("10.4.0", True), ("10.5.0", False), ("11.4.0.106", False)])
def test_volta_needs_a_tensorrt_from_before_it_was_dropped(
    version: str, runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tensorrt_cu12=version)

    assert (tensorrt.missing(V100) is None) == runs
    assert tensorrt.missing_for_onnx_runtime(V100) is not None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.5.0", "10.5.0.18", True),
        ("10.7.0.post1", "10.7.0.23", True),
        ("10.16.1.11", "10.16.1.11", True),
        ("10.16.1.11", "10.5.0.18", False),
        ("10.5.0.18", "10.5.0.26", False),
    ],
)
def test_a_version_is_the_same_whether_the_build_s_number_is_told_or_not(
    one: str, other: str, same: bool
) -> None:
    assert tensorrt.is_same_version(one, other) == same
    assert tensorrt.is_same_version(other, one) == same


@pytest.mark.parametrize(("accelerator", "loaded"), [("trt", True), ("", False)])
def test_cuda_and_tensorrt_are_loaded_before_onnx_runtime_looks_for_them(
    accelerator: str, loaded: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A provider finds its libraries only where they are in the process already, as their packages are in no loader's
    path."""
    seen: list[tuple[bool, bool]] = []
    preloaded: list[str] = []

    class Session:
        def __init__(self, *_arguments: Any, providers: list[str], **_options: Any) -> None:
            seen.append((preloaded == ["CUDA and cuDNN"], "tensorrt" in sys.modules))
            self.providers = providers

        def get_providers(self) -> list[str]:
            return self.providers

        def get_inputs(self) -> list[Any]:
            return []

        get_outputs = get_inputs

    played = SimpleNamespace(
        InferenceSession=Session,
        SessionOptions=MagicMock,
        preload_dlls=lambda: preloaded.append("CUDA and cuDNN"),
        __spec__=None,
    )
    monkeypatch.setitem(sys.modules, "onnxruntime", played)
    (tmp_path / "tensorrt.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    settings = {"device": "cuda", "device_id": "0", "threads": "1", "large": "0", "precision": "fp16"}
    settings |= {"tf32": "1", "tensors": "numpy", "engines": ""}
    runtimes.load_runtime.cache_clear()
    try:
        runtimes.load_runtime("onnx.py").load(
            tmp_path / "model.onnx", settings | {"accelerator": accelerator}
        )
    finally:
        sys.modules.pop("tensorrt", None)
        runtimes.load_runtime.cache_clear()

    assert seen == [(True, loaded)]
