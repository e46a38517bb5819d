"""Which CUDA and TensorRT PyTorch and ONNX Runtime are for here, by their files: loading may fail."""

import importlib.util
import mmap
import re
from pathlib import Path

from tritonproof.base.commands import packages_command
from tritonproof.host.machine import VOLTA

GPU_PACKAGES = (
    f"{packages_command('benchmarks-gpu')} (drivers before 580: {packages_command('benchmarks-gpu-cuda12')})"
)
"""How to make an environment whose packages compute on a GPU."""


def gpu_environment(
    capability: tuple[int, int] | None, driver_cuda: int | None, *, tensorrt: bool = False
) -> str:
    """The tox environment whose packages compute on a GPU, by its compute capability and its driver's major
    version of CUDA, each None if unknown. docs/gpus.md has the table."""
    is_old = driver_cuda is not None and driver_cuda < 13  # for which the newer set is
    return f"benchmarks-gpu{'-cuda12' if is_old or capability == VOLTA else ''}{'-trt' if tensorrt else ''}"


def cuda_of_torch() -> str:
    """The CUDA that the installed PyTorch was built for, such as 13.0; empty without one."""
    folder = _folder("torch")
    if folder is None:
        return ""
    match = re.search(r"^cuda[^=]*= '([\d.]+)'", (folder / "version.py").read_text(), re.MULTILINE)
    return match[1] if match else ""


def cuda_of_onnx_runtime(folder: Path | None = None) -> int | None:
    """The major version of CUDA that an ONNX Runtime is linked to; None for a build for CPUs."""
    return _linked_version("cuda", "libcudart", folder)


def tensorrt_of_onnx_runtime(folder: Path | None = None) -> int | None:
    """The major version of TensorRT that ONNX Runtime's accelerator needs; None for a build without it."""
    return _linked_version("tensorrt", "libnvinfer", folder)


def _linked_version(provider: str, name: str, folder: Path | None) -> int | None:
    """The major version of the library `name` that a provider links to: 12 for `libcudart.so.12`."""
    folder = folder or _folder("onnxruntime")
    library = folder and folder / "capi" / f"libonnxruntime_providers_{provider}.so"
    if library is None or not library.is_file():
        return None
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        # The names of the libraries that the dynamic linker has to find are whole strings in the file.
        match = re.search(rb"\0" + re.escape(name.encode()) + rb"\.so\.(\d+)[.\d]*\0", data)
        return int(match[1]) if match else None


def _folder(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent
