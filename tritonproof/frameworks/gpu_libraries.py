"""Which CUDA and TensorRT the installed PyTorch and ONNX Runtime were built for, according to their files, as
importing them may fail; and which TensorRT is installed, under any of its names."""

import itertools
import mmap
import re
from dataclasses import dataclass
from pathlib import Path

from tritonproof.base.commands import packages_command
from tritonproof.host import machine
from tritonproof.host.machine import VOLTA


def _gpu_packages(tensorrt: str = "") -> str:
    older = packages_command(f"benchmarks-gpu-cuda12{tensorrt}")
    return f"{packages_command(f'benchmarks-gpu{tensorrt}')} (drivers before 580: {older})"


GPU_PACKAGES = _gpu_packages()
"""How to make an environment whose packages compute on a GPU."""


def gpu_environment(
    capability: tuple[int, int] | None, driver_cuda: int | None, *, tensorrt: bool = False
) -> str:
    """The name of the tox environment for a GPU of the compute capability `capability`, whose driver supports
    the major version `driver_cuda` of CUDA; None for either if unknown. docs/gpus.md has the table."""
    is_old = driver_cuda is not None and driver_cuda < 13  # the newer environment has CUDA 13
    return f"benchmarks-gpu{'-cuda12' if is_old or capability == VOLTA else ''}{'-trt' if tensorrt else ''}"


def cuda_of_torch() -> str:
    """The version of CUDA that the installed PyTorch was built for, such as 13.0; empty if for none."""
    folder = machine.package_folder("torch")
    about = folder and folder / "version.py"
    if about is None or not about.is_file():
        return ""
    match = re.search(r"^cuda[^=]*= '([\d.]+)'", about.read_text(), re.MULTILINE)
    return match[1] if match else ""


def cuda_of_onnx_runtime(folder: Path | None = None) -> int | None:
    """The major version of CUDA that ONNX Runtime (in `folder`) links to; None for a build for CPUs."""
    return _linked_version("cuda", "libcudart", folder)


def tensorrt_of_onnx_runtime(folder: Path | None = None) -> int | None:
    """The major version of TensorRT that ONNX Runtime's accelerator needs; None for a build without it."""
    return _linked_version("tensorrt", "libnvinfer", folder)


def _linked_version(provider: str, name: str, folder: Path | None) -> int | None:
    """The major version of the library `name` that ONNX Runtime's execution provider links to: 12 for
    `libcudart.so.12`; None without the provider or the link."""
    folder = folder or machine.package_folder("onnxruntime")
    library = folder and folder / "capi" / f"libonnxruntime_providers_{provider}.so"
    if library is None or not library.is_file():
        return None
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        # The names of the libraries that the dynamic linker has to find are whole strings in the file.
        match = re.search(rb"\0" + re.escape(name.encode()) + rb"\.so\.(\d+)[.\d]*\0", data)
        return int(match[1]) if match else None


TENSORRT_DISTRIBUTIONS = ("tensorrt-cu13", "tensorrt-cu12", "tensorrt")
"""The distributions that bring TensorRT; `tensorrt` installs another, or in containers has the libraries."""
_FIRST_WITHOUT_VOLTA = (10, 5)
"""The first version that does not run on NVIDIA Volta: TensorRT 10.5 Release Notes, Announcements."""
_TENSORRT_PACKAGES = _gpu_packages("-trt")
"""How to install TensorRT."""


@dataclass(frozen=True)
class TensorRT:
    """An installed TensorRT."""

    distribution: str
    """The name of the installed distribution."""
    version: str
    """The version of TensorRT, such as 10.16.1.11."""

    @property
    def cuda(self) -> int | None:
        """The major version of CUDA that it is for; None if the distribution's name does not say."""
        _, _, cuda = self.distribution.partition("-cu")
        return int(cuda) if cuda else None


def installed_tensorrt() -> TensorRT | None:
    versions = ((name, machine.version_of(name)) for name in TENSORRT_DISTRIBUTIONS)
    return next((TensorRT(name, version) for name, version in versions if version is not None), None)


def numbers_of(version: str) -> tuple[int, ...]:
    """The numbers at the beginning of a version: (10, 7, 0) for 10.7.0.post1."""
    parts = version.split("+")[0].split(".")
    return tuple(map(int, itertools.takewhile(str.isdecimal, parts)))


def is_same_version(first: str, second: str) -> bool:
    """Whether two versions may name the same TensorRT: early ones on PyPI lack NVIDIA's build number."""
    return all(left == right for left, right in zip(numbers_of(first), numbers_of(second), strict=False))


def why_no_tensorrt(capability: tuple[int, int] | None) -> str | None:
    """Why no TensorRT is installed here for a GPU of the compute capability (None if unknown), or None."""
    tensorrt = installed_tensorrt()
    if tensorrt is None:
        return f"needs TensorRT: {_TENSORRT_PACKAGES}"
    if capability == VOLTA and numbers_of(tensorrt.version) >= _FIRST_WITHOUT_VOLTA:
        return (
            f"needs TensorRT before 10.5: TensorRT {tensorrt.version} has no code for NVIDIA Volta (compute "
            "capability 7.0); pip install 'tensorrt-cu12<10.5'"
        )
    return None


def why_left_out_for_onnx_runtime(capability: tuple[int, int] | None) -> str | None:
    """Why no ONNX Runtime of the suite's environments can use TensorRT on a GPU of a compute capability, or
    None. Since 1.21 it is built with TensorRT 10.8: TensorRT Execution Provider, Requirements."""
    if capability != VOLTA:
        return None
    return (
        "left out: ONNX Runtime is built with a TensorRT after 10.4, the last with code for NVIDIA Volta "
        "(compute capability 7.0)"
    )


def why_missing_for_onnx_runtime(capability: tuple[int, int] | None) -> str | None:
    """Why ONNX Runtime cannot use TensorRT on a GPU of a compute capability, or None."""
    if reason := why_left_out_for_onnx_runtime(capability):
        return reason
    tensorrt = installed_tensorrt()
    needed = tensorrt_of_onnx_runtime()
    if tensorrt is None:
        return f"needs TensorRT{'' if needed is None else f' {needed}'}: {_TENSORRT_PACKAGES}"
    if needed is not None and numbers_of(tensorrt.version)[:1] != (needed,):
        return (
            f"needs TensorRT {needed}, which ONNX Runtime {machine.version_of('onnxruntime-gpu')} is linked "
            f"to, and TensorRT {tensorrt.version} is installed: {_TENSORRT_PACKAGES}"
        )
    return None
