"""The set of packages for a GPU: what does not fit together, or not the GPU, is named with the environment that does."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from fixtures.doctor import cuda_libraries as looked_at
from fixtures.doctor.cuda_libraries import Installed, cuda_libraries
from fixtures.doctor.finding import Finding
from fixtures.frameworks import cuda_libraries as libraries
from fixtures.frameworks.tensorrt import TensorRT
from fixtures.host.shared_library import GpuCode
from tests.doctor.findings import states
from tests.libraries import write_library

A100, V100, B200 = (8, 0), (7, 0), (10, 0)
CODE = GpuCode(frozenset({75, 80, 90, 100}), frozenset())
CUDA_13 = Installed(13, 13, 10, TensorRT("tensorrt-cu13", "10.16.1.11"), CODE, CODE)


def look(capability: tuple[int, int] = A100, **changes: Any) -> Finding:
    found = cuda_libraries("cuda", dataclasses.replace(CUDA_13, **changes), capability)
    assert found is not None
    return found


def test_a_set_for_one_cuda_and_this_gpu_is_well() -> None:
    assert states(look(), look(tensorrt=None), look(B200)) == ["ok"] * 3
    assert "PyTorch for CUDA 13, ONNX Runtime for CUDA 13, TensorRT 10.16.1.11" in look().found


def test_a_machine_without_a_gpu_is_not_asked() -> None:
    assert cuda_libraries("cpu") is None


@pytest.mark.parametrize(
    ("torch", "onnx_runtime", "cure"),
    [
        (13, 12, ".venv/bin/tox run -r -e benchmarks-gpu"),
        (12, 13, ".venv/bin/tox run -r -e benchmarks-gpu-cuda12"),
    ],
)
def test_two_cudas_in_one_environment_are_a_problem(torch: int, onnx_runtime: int, cure: str) -> None:
    found = look(torch_cuda=torch, onnx_runtime_cuda=onnx_runtime, tensorrt=None)

    assert states(found) == ["problem"]
    assert f"PyTorch is for CUDA {torch}, and ONNX Runtime is linked to CUDA {onnx_runtime}" in found.found
    assert found.cure == cure


@pytest.mark.parametrize(
    ("tensorrt", "said"),
    [
        (TensorRT("tensorrt-cu13", "11.4.0.106"), "linked to TensorRT 10, and 11.4.0.106 is installed"),
        (TensorRT("tensorrt-cu12", "10.16.1.11"), "tensorrt-cu12 10.16.1.11 is for CUDA 12"),
    ],
)
def test_a_tensorrt_that_others_cannot_use_is_a_warning_with_the_environment_that_fits(
    tensorrt: TensorRT, said: str
) -> None:
    found = look(tensorrt=tensorrt)

    assert states(found) == ["warning"]
    assert said in found.found
    assert found.cure == ".venv/bin/tox run -r -e benchmarks-gpu-trt"


@pytest.mark.parametrize("field", ["torch_code", "onnx_runtime_code"])
@pytest.mark.parametrize(
    ("capability", "cure"),
    [(V100, "benchmarks-gpu-cuda12;"), (B200, "benchmarks-gpu;")],
    ids=["V100", "B200"],
)
def test_a_library_without_code_for_the_gpu_is_a_problem(
    capability: tuple[int, int], cure: str, field: str
) -> None:
    every = GpuCode(frozenset({70, 80, 100}), frozenset())
    codes: dict[str, Any] = {"torch_code": every, "onnx_runtime_code": every}
    found = look(capability, **codes | {field: GpuCode(frozenset({75, 90}), frozenset())})

    assert states(look(capability, **codes), found) == ["ok", "problem"]
    assert found.found.count("no kernel image is available") == 1
    assert cure in found.cure


def test_what_is_installed_is_read_from_the_packages_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folders = {"torch": tmp_path / "torch", "onnxruntime": tmp_path / "onnxruntime"}
    capi = folders["onnxruntime"] / "capi"
    write_library(capi / "libonnxruntime_providers_cuda.so", ["libcudart.so.12"], [80])
    write_library(capi / "libonnxruntime_providers_tensorrt.so", ["libnvinfer.so.10"])
    folders["torch"].mkdir()
    (folders["torch"] / "version.py").write_text("cuda: Optional[str] = '13.0'\n")
    monkeypatch.setattr(libraries, "_folder", folders.get)
    found = looked_at.installed()

    assert (found.torch_cuda, found.onnx_runtime_cuda, found.onnx_runtime_tensorrt) == (13, 12, 10)
    assert states(look(**{one.name: getattr(found, one.name) for one in dataclasses.fields(found)})) == [
        "problem"
    ]
