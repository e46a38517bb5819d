"""The packages of each extra share one CUDA and one TensorRT; the tests read them without import.
TensorRT is found under each of its package names."""

import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

from tests.frameworks.gpu_packages import SETS, TABLE, admitted, requirements, wheel_from_pypi
from tests.helpers import environments
from tritonproof.frameworks import gpu_libraries
from tritonproof.frameworks.gpu_libraries import gpu_environment
from tritonproof.host import machine
from tritonproof.host.targets import TARGETS


def write_library(path: Path, needed: Iterable[str]) -> Path:
    """Write a fake shared library with these dependencies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = b"\0" + b"".join(name.encode() + b"\0" for name in needed)
    path.write_bytes(b"\x7fELF\x02\x01\x01" + names)
    return path


def test_onnx_runtime_links_are_read_from_libraries(tmp_path: Path) -> None:
    read = gpu_libraries.cuda_of_onnx_runtime, gpu_libraries.tensorrt_of_onnx_runtime
    assert [version(tmp_path) for version in read] == [None, None], "a build for CPUs"
    capi = tmp_path / "capi"
    write_library(capi / "libonnxruntime_providers_cuda.so", ["libcudart.so.13", "libc.so.6"])
    write_library(capi / "libonnxruntime_providers_tensorrt.so", ["libnvinfer.so.10.4", "libcudart.so.13"])
    assert [version(tmp_path) for version in read] == [13, 10]


def test_pytorch_cuda_is_read_from_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpu_libraries.cuda_of_torch() == (torch.version.cuda or "")
    monkeypatch.setattr(gpu_libraries.machine, "package_folder", lambda _package: tmp_path)
    assert gpu_libraries.cuda_of_torch() == "", "a folder of that name is no PyTorch"
    (tmp_path / "version.py").write_text("cuda: Optional[str] = '13.0'\n")
    assert gpu_libraries.cuda_of_torch() == "13.0"


@pytest.mark.parametrize("extra", SETS)
def test_onnx_runtime_and_pytorch_match_cuda_of_extra(extra: str) -> None:
    cuda, _ = SETS[extra]
    for distribution in ("onnxruntime-gpu", "torch"):
        versions = admitted(extra, distribution)
        assert versions, distribution
        assert {facts["cuda"] for facts in versions.values()} == {cuda}, distribution
    runtimes = admitted(extra, "onnxruntime-gpu")
    assert all(facts["finds_packages"] for facts in runtimes.values()), "CUDA in the packages beside it"


@pytest.mark.parametrize("extra", SETS)
def test_tensorrt_matches_cuda_and_onnx_runtime_of_extra(extra: str) -> None:
    cuda, extra_of_tensorrt = SETS[extra]
    (tensorrt,) = [entry for entry in requirements(extra_of_tensorrt) if entry.name.startswith("tensorrt")]
    (needed,) = {facts["tensorrt"] for facts in admitted(extra, "onnxruntime-gpu").values()}
    assert tensorrt.name == f"tensorrt-cu{cuda}"
    assert [major for major in range(8, 20) if f"{major}.99" in tensorrt.specifier] == [needed]
    own = [entry for entry in requirements(extra) if entry.name.startswith("tensorrt")]
    assert own == [], "its wheels are fetched from NVIDIA"


FOR_LINUX = (*(f"--platform=manylinux_2_{glibc}_x86_64" for glibc in (28, 27)), "--python-version", "3.11")


@pytest.mark.contract
@pytest.mark.parametrize("version", TABLE["onnxruntime-gpu"])
def test_table_matches_onnx_runtime_wheels(version: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel_from_pypi(f"onnxruntime-gpu=={version}", tmp_path, *FOR_LINUX)) as archive:
        names = [name for name in archive.namelist() if "libonnxruntime_providers_" in name]
        archive.extractall(tmp_path, [*names, "onnxruntime/__init__.py"])
    folder = tmp_path / "onnxruntime"
    facts = TABLE["onnxruntime-gpu"][version]

    assert gpu_libraries.cuda_of_onnx_runtime(folder) == facts["cuda"]
    assert gpu_libraries.tensorrt_of_onnx_runtime(folder) == facts["tensorrt"]
    entry = '("nvidia", cuda_dir, "lib"' if facts["cuda"] == 13 else '("nvidia", "cublas", "lib"'
    assert (entry in (folder / "__init__.py").read_text()) == facts["finds_packages"]


@pytest.mark.parametrize(
    ("gpu", "driver_cuda", "environment"),
    [
        ("a100", 13, "benchmarks-gpu-trt"),
        ("a100", 12, "benchmarks-gpu-cuda12-trt"),
        ("a100", None, "benchmarks-gpu-trt"),
        ("v100", 13, "benchmarks-gpu-cuda12-trt"),
    ],
)
def test_environment_follows_gpu_and_driver(gpu: str, driver_cuda: int | None, environment: str) -> None:
    (target,) = (candidate for candidate in TARGETS if candidate.name == gpu)
    assert gpu_environment(target.compute_capability, driver_cuda, tensorrt=True) == environment
    assert environment in environments()


A100, V100 = (8, 0), (7, 0)


def install(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    """A machine with these distributions, and an ONNX Runtime linked to TensorRT 10."""
    installed = {name.replace("_", "-"): version for name, version in versions.items()}
    monkeypatch.setattr(machine, "version_of", installed.get)
    monkeypatch.setattr(gpu_libraries, "tensorrt_of_onnx_runtime", lambda: 10)


@pytest.mark.parametrize(
    ("versions", "cuda", "fits", "fits_onnx"),
    [
        ({"tensorrt": "10.16.1.11"}, None, True, True),
        ({"tensorrt_cu12": "10.16.1.11"}, 12, True, True),
        ({"tensorrt": "10.16.1.11", "tensorrt_cu13": "10.16.1.11"}, 13, True, True),
        ({"tensorrt_cu13": "11.4.0.106"}, 13, True, False),
        ({}, None, False, False),
    ],
)
def test_tensorrt_is_found_under_each_package_name(
    versions: dict[str, str], cuda: int | None, fits: bool, fits_onnx: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, **versions)
    assert getattr(gpu_libraries.installed_tensorrt(), "cuda", None) == cuda
    assert (gpu_libraries.why_no_tensorrt(A100) is None) == fits
    assert (gpu_libraries.why_missing_for_onnx_runtime(A100) is None) == fits_onnx


@pytest.mark.parametrize(("version", "runs"), [("10.4.0", True), ("10.5.0", False), ("11.4.0.106", False)])
def test_volta_needs_tensorrt_before_10_5(version: str, runs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tensorrt_cu12=version)
    assert (gpu_libraries.why_no_tensorrt(V100) is None) == runs
    assert gpu_libraries.why_missing_for_onnx_runtime(V100) is not None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.5.0", "10.5.0.18", True),
        ("10.7.0.post1", "10.7.0.23", True),
        ("10.16.1.11", "10.5.0.18", False),
        ("10.5.0.18", "10.5.0.26", False),
    ],
)
def test_version_matches_with_or_without_build_number(one: str, other: str, same: bool) -> None:
    assert gpu_libraries.is_same_version(one, other) == same
    assert gpu_libraries.is_same_version(other, one) == same
