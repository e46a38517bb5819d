"""Which TensorRT is installed, under any of its names, and whether it fits the GPU and ONNX Runtime."""

import itertools
from dataclasses import dataclass

from tritonproof.base.commands import packages_command
from tritonproof.frameworks.cuda_libraries import tensorrt_of_onnx_runtime
from tritonproof.host import machine
from tritonproof.host.machine import VOLTA

DISTRIBUTIONS = ("tensorrt-cu13", "tensorrt-cu12", "tensorrt")
"""The distributions on PyPI that bring TensorRT. The last brings one of the others; in NVIDIA's containers it
brings the libraries itself."""
FIRST_WITHOUT_VOLTA = (10, 5)
"""The first version that computes on no NVIDIA Volta: TensorRT 10.5 Release Notes, Announcements."""
_CUDA_12 = f"drivers before 580: {packages_command('benchmarks-gpu-cuda12-trt')}"
PACKAGES = f"{packages_command('benchmarks-gpu-trt')} ({_CUDA_12})"
"""How to install TensorRT."""


@dataclass(frozen=True)
class TensorRT:
    distribution: str
    """The name of the installed distribution."""
    version: str
    """The version of TensorRT, such as 10.16.1.11."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version's numbers, without any suffix."""
        return numbers_of(self.version)

    @property
    def cuda(self) -> int | None:
        """The major version of CUDA that it is for; None if the distribution's name does not say."""
        _, _, cuda = self.distribution.partition("-cu")
        return int(cuda) if cuda else None


def installed() -> TensorRT | None:
    versions = ((name, machine.version_of(name)) for name in DISTRIBUTIONS)
    return next((TensorRT(name, version) for name, version in versions if version is not None), None)


def numbers_of(version: str) -> tuple[int, ...]:
    """The numbers at the beginning of a version: (10, 7, 0) for 10.7.0.post1."""
    parts = version.split("+")[0].split(".")
    return tuple(map(int, itertools.takewhile(str.isdecimal, parts)))


def is_same_version(one: str, other: str) -> bool:
    """Whether two versions can mean one TensorRT: PyPI's early ones lack NVIDIA's build number."""
    return all(left == right for left, right in zip(numbers_of(one), numbers_of(other), strict=False))


def why_missing(capability: tuple[int, int] | None) -> str | None:
    """Why there is no TensorRT here for a GPU of a compute capability (None where unknown), or None."""
    tensorrt = installed()
    if tensorrt is None:
        return f"needs TensorRT: {PACKAGES}"
    if capability == VOLTA and tensorrt.numbers >= FIRST_WITHOUT_VOLTA:
        return (
            f"needs TensorRT before 10.5: TensorRT {tensorrt.version} has no code for NVIDIA Volta (compute "
            "capability 7.0); pip install 'tensorrt-cu12<10.5'"
        )
    return None


def left_out_for_onnx_runtime(capability: tuple[int, int] | None) -> str | None:
    """Why no ONNX Runtime of the suite's environments can use TensorRT on a GPU of a compute capability, or
    None. Since 1.21 it is built with TensorRT 10.8: TensorRT Execution Provider, Requirements."""
    if capability != VOLTA:
        return None
    return (
        "left out: ONNX Runtime is built with a TensorRT after 10.4, the last with code for NVIDIA Volta "
        "(compute capability 7.0)"
    )


def missing_for_onnx_runtime(capability: tuple[int, int] | None) -> str | None:
    """Why ONNX Runtime cannot use TensorRT on a GPU of a compute capability, or None."""
    if reason := left_out_for_onnx_runtime(capability):
        return reason
    tensorrt, needed = installed(), tensorrt_of_onnx_runtime()
    if tensorrt is None:
        return f"needs TensorRT{'' if needed is None else f' {needed}'}: {PACKAGES}"
    if needed is not None and tensorrt.numbers[:1] != (needed,):
        return (
            f"needs TensorRT {needed}, which ONNX Runtime {machine.version_of('onnxruntime-gpu')} is linked "
            f"to, and TensorRT {tensorrt.version} is installed: {PACKAGES}"
        )
    return why_missing(capability)
