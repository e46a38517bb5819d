"""GPU, driver and packages: mismatches and skipped cases are named with a fix."""

import dataclasses
from typing import Any

import pytest

from tests.doctor.conftest import Docker
from tests.fake_nvml import Nvml
from tritonproof.doctor import gpu
from tritonproof.formats import all_formats
from tritonproof.frameworks import gpu_libraries
from tritonproof.frameworks.gpu_libraries import TensorRT
from tritonproof.serve.server_spec import ServerSpec

CUDA_13 = {
    "tritonproof.host.nvml.cuda_of_driver": 13,
    "tritonproof.frameworks.gpu_libraries.cuda_of_torch": "13.0",
    "tritonproof.frameworks.gpu_libraries.cuda_of_onnx_runtime": 13,
    "tritonproof.frameworks.gpu_libraries.tensorrt_of_onnx_runtime": 10,
    "tritonproof.frameworks.gpu_libraries.installed_tensorrt": TensorRT("tensorrt-cu13", "10.16.1.11"),
}
"""What these functions return where all packages are for CUDA 13."""
DRIVER, TORCH, ONNX_RUNTIME, _LINKED, TENSORRT = CUDA_13
RUN = ".venv/bin/tox run -r -e benchmarks-gpu"


@pytest.mark.parametrize(
    ("changes", "state", "fix"),
    [
        ({}, "ok", ""),
        ({DRIVER: None}, "ok", ""),
        ({TORCH: "12.8", ONNX_RUNTIME: 12, TENSORRT: None}, "ok", ""),
        ({TORCH: "", TENSORRT: None}, "problem", f"{RUN}, without an index of CPU packages"),
        ({ONNX_RUNTIME: None}, "problem", RUN),
        ({DRIVER: 12}, "problem", f"install a driver for CUDA 13.0; or for one of CUDA 12 {RUN}-cuda12"),
        ({ONNX_RUNTIME: 12}, "problem", RUN),
        ({TENSORRT: TensorRT("tensorrt-cu13", "11.4.0.106")}, "warning", f"{RUN}-trt"),
        ({TENSORRT: TensorRT("tensorrt-cu12", "10.16.1.11")}, "warning", f"{RUN}-trt"),
    ],
)
def test_packages_that_do_not_fit_the_gpu_are_found_with_a_fix(
    changes: dict[str, Any], state: str, fix: str, a100: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    for function, result in (CUDA_13 | changes).items():
        monkeypatch.setattr(function, lambda result=result: result)
    finding = gpu.gpu()
    assert finding.state == state
    assert finding.text.startswith("NVIDIA A100-SXM4-80GB")
    assert finding.fix.startswith(fix)


EMBEDDED = ServerSpec("embedded")


@pytest.fixture
def every_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every format has all that an environment can provide."""
    formats = [dataclasses.replace(format_, why_missing=lambda *_: None) for format_ in all_formats()]
    monkeypatch.setattr("tritonproof.formats.all_formats", lambda: formats)


def test_skipped_formats_name_missing_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    finding = gpu.formats(EMBEDDED, "cpu")
    runs, _, skip = finding.text.partition(" can run")
    assert finding.state == "warning"
    assert "onnx-fp32" in runs
    assert "pt2-fp32" in skip
    assert "no-such-compiler" in finding.fix


@pytest.mark.parametrize(
    ("driver", "environment"), [(12000, "benchmarks-gpu-cuda12-trt"), (13000, "benchmarks-gpu-trt")]
)
def test_cpu_packages_run_nothing_on_a_gpu(driver: int, environment: str, a100: Nvml) -> None:
    a100.cuda_version = driver
    finding = gpu.formats(EMBEDDED, "cuda")
    assert finding.text.startswith("nothing can run")
    assert finding.fix.endswith(f"tox run -e {environment}")


def test_format_that_no_environment_can_run_on_the_gpu_is_nothing_to_fix(
    a100: Nvml, every_package: None
) -> None:
    a100.capabilities = {"GPU-aaaa": (7, 0)}
    finding = gpu.formats(EMBEDDED, "cuda")
    assert finding.state == "ok"
    assert finding.text.startswith("onnx-fp32, ")
    assert "onnx-trt-fp16 cannot: " in finding.text


def test_container_is_checked_for_backends_and_tensorrt(
    a100: Nvml, every_package: None, docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_libraries, "installed_tensorrt", lambda: TensorRT("tensorrt-cu13", "10.16.1.11"))
    docker({"Runtimes": {"nvidia": {}}}, ["NVIDIA_TRITON_SERVER_VERSION=24.10", "TRT_VERSION=10.5.0.18"])
    finding = gpu.formats(ServerSpec("docker"), "cuda")
    runs = finding.text.partition(" can run")[0].split(", ")
    assert {"onnx-trt-fp16", "pt2-fp32", "trt-fp16"}.intersection(runs) == {"onnx-trt-fp16"}
    assert "install TensorRT 10.5.0.18" in finding.fix
