"""The packages of each extra share one CUDA and one TensorRT; the tests read them without import."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from fixtures.frameworks import cuda_libraries
from fixtures.frameworks.cuda_libraries import GpuCode, gpu_code, gpu_environment, lacks_code, linked_version
from fixtures.host.targets import TARGETS
from tests.docs.test_docs import environments
from tests.frameworks.gpu_packages import (
    ROOT,
    SETS,
    TABLE,
    admitted,
    code_of,
    minor_versions,
    requirements,
    wheel_from_pypi,
)
from tests.host.libraries import write_library


def test_linked_version_is_major_version(tmp_path: Path) -> None:
    library = write_library(tmp_path / "a.so", ["libcudart.so.13", "libnvinfer.so.10.4", "libc.so.6"])
    assert linked_version(library, "libcudart") == 13
    assert linked_version(library, "libnvinfer") == 10
    assert linked_version(library, "libcuda") is None


def test_gpu_code_is_read_with_architectures(tmp_path: Path) -> None:
    code = gpu_code(write_library(tmp_path / "a.so", (), [70, 80], [90]))
    assert code == GpuCode(frozenset({70, 80}), frozenset({90}))
    assert gpu_code(write_library(tmp_path / "b.so")) is None


@pytest.mark.parametrize(
    ("capability", "runs"),
    [
        ((7, 0), False),
        ((7, 5), True),
        ((8, 0), True),
        ((8, 9), True),
        ((9, 0), False),
        ((12, 0), True),
        ((12, 1), True),
        (None, True),
    ],
)
def test_only_ptx_runs_on_later_major_capabilities(capability: tuple[int, int] | None, runs: bool) -> None:
    code = GpuCode(frozenset({75, 80}), frozenset({120}))
    assert (lacks_code("PyTorch", code, capability) is None) == runs
    assert lacks_code("PyTorch", None, capability) is None


TORCH = Path("torch/lib/libtorch_python.so")
CUDA_OF_TORCH = "torch/lib/libtorch_cuda.so"
"""The library that a PyTorch for CPUs lacks."""


def onnx_runtime(folder: Path, cuda: int, tensorrt: int, *architectures: int) -> Path:
    """Make a folder like onnxruntime-gpu's."""
    capi = folder / "capi"
    write_library(capi / "libonnxruntime_providers_cuda.so", [f"libcudart.so.{cuda}"], architectures)
    write_library(
        capi / "libonnxruntime_providers_tensorrt.so", [f"libnvinfer.so.{tensorrt}", f"libcudart.so.{cuda}"]
    )
    return folder


def test_onnx_runtime_links_are_read_from_libraries(tmp_path: Path) -> None:
    def linked(folder: Path) -> tuple[Any, ...]:
        read = cuda_libraries
        return (
            *(read.cuda_of_onnx_runtime(folder), read.tensorrt_of_onnx_runtime(folder)),
            read.code_of_onnx_runtime(folder),
        )

    assert linked(tmp_path) == (None, None, None), "a build for CPUs"
    assert cuda_libraries.code_of_torch(tmp_path) is None
    folder = onnx_runtime(tmp_path, 13, 10, 75, 90)
    assert linked(folder) == (13, 10, GpuCode(frozenset({75, 90}), frozenset()))


def test_pytorch_cuda_and_gpus_are_read_from_files(tmp_path: Path) -> None:
    assert cuda_libraries.cuda_of_torch() == (torch.version.cuda or "")
    library = tmp_path / "lib" / "libtorch_python.so"
    library.parent.mkdir()
    library.write_bytes(b"\0sm_90\0text sm_1\0sm_50 sm_60\0sm_75 sm_80 sm_100 compute_120\0")

    assert cuda_libraries.code_of_torch(tmp_path) == GpuCode(frozenset({75, 80, 100}), frozenset({120}))


@pytest.mark.parametrize("extra", SETS)
def test_onnx_runtime_and_pytorch_match_cuda_of_extra(extra: str) -> None:
    cuda, _ = SETS[extra]
    for distribution in ("onnxruntime-gpu", "torch"):
        versions = admitted(extra, distribution)
        assert versions, distribution
        assert {facts["cuda"] for facts in versions.values()} == {cuda}, distribution
    runtimes = admitted(extra, "onnxruntime-gpu")
    assert all(facts["finds_packages"] for facts in runtimes.values()), "CUDA in the packages beside it"
    known = {".".join(version.split(".")[:2]) for version in TABLE["onnxruntime-gpu"]}
    assert set(minor_versions(extra, "onnxruntime-gpu")) <= known, "a version that nobody has looked into"


@pytest.mark.parametrize("extra", SETS)
def test_tensorrt_matches_cuda_and_onnx_runtime_of_extra(extra: str) -> None:
    cuda, extra_of_tensorrt = SETS[extra]
    (tensorrt,) = (
        requirement
        for requirement in requirements(extra_of_tensorrt)
        if requirement.name.startswith("tensorrt")
    )
    (needed,) = {facts["tensorrt"] for facts in admitted(extra, "onnxruntime-gpu").values()}

    assert tensorrt.name == f"tensorrt-cu{cuda}"
    assert [major for major in range(8, 20) if f"{major}.99" in tensorrt.specifier] == [needed]
    assert not any(requirement.name.startswith("tensorrt") for requirement in requirements(extra)), (
        "its wheels are fetched from NVIDIA"
    )


def test_both_extras_cover_gpus_from_v100_on() -> None:
    def runs(extra: str, capability: tuple[int, int]) -> bool:
        return all(
            code_of(facts).runs_on(capability)
            for distribution in ("onnxruntime-gpu", "torch")
            for facts in admitted(extra, distribution).values()
        )

    newer = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0)]
    assert all(runs("gpu", gpu) for gpu in [*newer, (10, 0)])
    assert all(runs("gpu-cuda12", gpu) for gpu in [(7, 0), *newer])


FOR_LINUX = (*(f"--platform=manylinux_2_{glibc}_x86_64" for glibc in (28, 27)), "--python-version", "3.11")


@pytest.mark.contract
@pytest.mark.parametrize("version", TABLE["onnxruntime-gpu"])
def test_table_matches_onnx_runtime_wheels(version: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel_from_pypi(f"onnxruntime-gpu=={version}", tmp_path, *FOR_LINUX)) as archive:
        names = [name for name in archive.namelist() if "libonnxruntime_providers_" in name]
        archive.extractall(tmp_path, [*names, "onnxruntime/__init__.py"])
    folder = tmp_path / "onnxruntime"
    facts = TABLE["onnxruntime-gpu"][version]

    assert cuda_libraries.cuda_of_onnx_runtime(folder) == facts["cuda"]
    assert cuda_libraries.tensorrt_of_onnx_runtime(folder) == facts["tensorrt"]
    assert cuda_libraries.code_of_onnx_runtime(folder) == code_of(facts)
    place = '("nvidia", cuda_dir, "lib"' if facts["cuda"] == 13 else '("nvidia", "cublas", "lib"'
    assert (place in (folder / "__init__.py").read_text()) == facts["finds_packages"]


@pytest.mark.contract
def test_table_matches_pytorch_wheel(tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel_from_pypi("torch==2.13.0", tmp_path, *FOR_LINUX)) as archive:
        if CUDA_OF_TORCH not in archive.namelist():
            pytest.skip("needs PyPI's wheel of PyTorch, and pip has one for CPUs")
        archive.extractall(tmp_path, [str(TORCH)])

    assert cuda_libraries.code_of_torch(tmp_path / "torch") == code_of(TABLE["torch"]["2.13.0"])


@pytest.mark.contract
def test_cuda_13_extra_resolves_to_one_cuda(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    done = subprocess.run(
        [*pip, "--report", str(report), f"{ROOT}[gpu]"], capture_output=True, text=True, check=False
    )
    if done.returncode and "Could not find a version" in done.stderr:
        pytest.skip("needs PyPI")
    assert done.returncode == 0, done.stderr
    names = {entry["metadata"]["name"] for entry in json.loads(report.read_text())["install"]}
    if "nvidia-cudnn-cu13" not in names:
        pytest.skip("needs PyPI's PyTorch, and pip has one for CPUs")
    # perf_analyzer brings a runtime of CUDA 12, in a folder of its own.
    assert {entry for entry in names if entry.endswith("-cu12")} == {"nvidia-cuda-runtime-cu12"}


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
