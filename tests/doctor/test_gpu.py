"""GPU, driver and packages: mismatches and skipped cases are named with a fix."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from fixtures.doctor import Finding, gpu
from fixtures.doctor.gpu import GpuSetup
from fixtures.formats import all_formats
from fixtures.frameworks import cuda_libraries as libraries
from fixtures.frameworks import tensorrt
from fixtures.frameworks.tensorrt import TensorRT
from fixtures.serve.server_spec import ServerSpec
from tests.doctor.conftest import Docker
from tests.host.fake_nvml import Nvml
from tests.host.libraries import write_library

V100 = (7, 0)
CUDA_13 = GpuSetup(("NVIDIA A100",), (8, 0), 13, "13.0", 13, 10, TensorRT("tensorrt-cu13", "10.16.1.11"))
RUN = ".venv/bin/tox run -r -e benchmarks-gpu"


def look(**changes: Any) -> Finding:
    return gpu.gpu(dataclasses.replace(CUDA_13, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"driver_cuda": None},
        {"torch_cuda": "12.8", "onnx_runtime_cuda": 12, "tensorrt": None},
    ],
)
def test_matching_packages_for_one_cuda_are_ok(changes: dict[str, Any]) -> None:
    assert look(**changes).state == "ok"


@pytest.mark.parametrize(
    ("changes", "fix"),
    [
        ({"torch_cuda": "", "tensorrt": None}, f"{RUN}, without an index of CPU packages"),
        ({"onnx_runtime_cuda": None}, RUN),
        ({"driver_cuda": 12}, f"{RUN}-cuda12; or install a driver for CUDA 13.0"),
        ({"driver_cuda": 11}, "install a driver for CUDA 13.0"),
        ({"onnx_runtime_cuda": 12}, RUN),
        ({"torch_cuda": "12.6", "driver_cuda": 12, "tensorrt": None}, f"{RUN}-cuda12"),
    ],
)
def test_unusable_gpu_packages_are_a_problem(changes: dict[str, Any], fix: str) -> None:
    finding = look(**changes)

    assert finding.state == "problem"
    assert finding.fix.startswith(fix)


@pytest.mark.parametrize(
    "installed", [TensorRT("tensorrt-cu13", "11.4.0.106"), TensorRT("tensorrt-cu12", "10.16.1.11")]
)
def test_unusable_tensorrt_is_a_warning(installed: TensorRT) -> None:
    assert look(tensorrt=installed) == Finding("warning", look(tensorrt=installed).text, f"{RUN}-trt")


def test_gpu_setup_is_read_from_package_files(
    a100: Nvml, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folders = {"torch": tmp_path / "torch", "onnxruntime": tmp_path / "onnxruntime"}
    capi = folders["onnxruntime"] / "capi"
    write_library(capi / "libonnxruntime_providers_cuda.so", ["libcudart.so.12"])
    write_library(capi / "libonnxruntime_providers_tensorrt.so", ["libnvinfer.so.10"])
    folders["torch"].mkdir()
    (folders["torch"] / "version.py").write_text("cuda: Optional[str] = '13.0'\n")
    monkeypatch.setattr(libraries, "_folder", folders.get)
    setup = gpu.gpu_setup()

    assert (setup.gpus, setup.capability, setup.driver_cuda) == (("NVIDIA A100-SXM4-80GB",), (8, 0), 12)
    assert (setup.torch_cuda, setup.onnx_runtime_cuda, setup.onnx_runtime_tensorrt) == ("13.0", 12, 10)


# --- which cases run ---------------------------------------------------------------------------------------

EMBEDDED = ServerSpec("embedded")


@pytest.fixture
def every_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every format has all that an environment can provide."""
    formats = [dataclasses.replace(format_, missing=lambda *_: None) for format_ in all_formats()]
    monkeypatch.setattr("fixtures.formats.all_formats", lambda: formats)


def can_run(found: Finding) -> set[str]:
    """The formats that a finding says can run."""
    return set(found.text.partition(" can run")[0].split(", "))


def test_skipped_formats_name_missing_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    finding = gpu.formats(EMBEDDED, "cpu")

    assert finding.state == "warning"
    assert "onnx-fp32" in can_run(finding)
    assert "pt2-fp32" not in can_run(finding)
    assert "no-such-compiler" in finding.fix


@pytest.mark.parametrize(
    ("driver", "environment"), [(12000, "benchmarks-gpu-cuda12-trt"), (13000, "benchmarks-gpu-trt")]
)
def test_cpu_packages_run_nothing_on_a_gpu(driver: int, environment: str, a100: Nvml) -> None:
    a100.cuda_version = driver
    finding = gpu.formats(EMBEDDED, "cuda")

    assert can_run(finding) == {"nothing"}
    assert finding.fix.endswith(f"tox run -e {environment}")


@pytest.mark.parametrize(("capability", "left_out"), [((8, 0), set()), (V100, {"onnx-trt-fp16"})])
def test_runnable_formats_are_listed_by_precision(
    capability: tuple[int, int], left_out: set[str], a100: Nvml, every_package: None
) -> None:
    a100.capabilities = {"GPU-aaaa": capability}
    finding = gpu.formats(EMBEDDED, "cuda")
    names = {"onnx-fp32", "onnx-fp16", "onnx-trt-fp16", "trt-fp16", "ts-script-fp32", "pt2-fp16"}

    assert finding.state == "ok", "what no environment can run is not to be fixed"
    assert names - can_run(finding) == left_out


def test_container_is_checked_for_backends_and_tensorrt(
    a100: Nvml, every_package: None, docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorrt, "installed", lambda: TensorRT("tensorrt-cu13", "10.16.1.11"))
    docker({"Runtimes": {"nvidia": {}}}, ["NVIDIA_TRITON_SERVER_VERSION=24.10", "TRT_VERSION=10.5.0.18"])
    finding = gpu.formats(ServerSpec("docker"), "cuda")

    assert {"onnx-trt-fp16", "pt2-fp32", "trt-fp16"} & can_run(finding) == {"onnx-trt-fp16"}
    assert "install TensorRT 10.5.0.18" in finding.fix
