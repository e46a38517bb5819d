"""What this machine is, and which of its resources this process may use."""

import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import math
import os
import platform
import re
from pathlib import Path

from tritonproof.host import nvml
from tritonproof.host.nvml import InstalledGpu
from tritonproof.record.setup import Machine
from tritonproof.spec import Device

_STAMPED = (
    *("torch", "onnxruntime", "onnxruntime-gpu", "onnx", "tensorflow", "tensorflow-cpu"),
    *("tensorrt", "tensorrt-cu12", "tensorrt-cu13"),
    # What computes on a GPU in PyTorch and ONNX Runtime; perf_analyzer has the CUDA runtime for CUDA 12.
    *("nvidia-cudnn-cu13", "nvidia-cudnn-cu12", "nvidia-cublas", "nvidia-cublas-cu12", "nvidia-cuda-runtime"),
    *("transformers", "numpy", "tritonclient"),
)
"""The distributions whose versions affect the figures."""


@functools.cache
def version_of(distribution: str) -> str | None:
    """The installed version of a PyPI distribution; None if it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def package_folder(name: str) -> Path | None:
    """The folder of an installed package, which this does not import; None if it is not installed."""
    spec = importlib.util.find_spec(name)
    folders = spec.submodule_search_locations if spec else None
    return Path(next(iter(folders))) if folders else None


VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
"""The variable with the GPUs that CUDA shows to a program, by number or UUID."""
GPU_ORDER = "CUDA_DEVICE_ORDER"
"""The variable that orders CUDA's GPUs: PCI_BUS_ID as NVML does; by default the fastest comes first."""


def gpu_names() -> tuple[str, ...]:
    """The names of the NVIDIA GPUs, as the driver reports them; empty without a driver or a GPU."""
    return tuple(gpu.name for gpu in gpus())


def gpus() -> tuple[InstalledGpu, ...]:
    """The GPUs in CUDA_VISIBLE_DEVICES, in its order; a run sets it to the GPUs that it uses."""
    return nvml.installed_gpus(os.environ.get(VISIBLE_GPUS))


def compute_capability() -> tuple[int, int] | None:
    """The compute capability of this run's first GPU, such as (8, 0) for an A100; None if unknown."""
    visible = gpus()
    return visible[0].compute_capability if visible else None


def cores() -> int:
    """How many CPU cores this process may use: its affinity, limited by its control group's quota."""
    allowed, quota = len(os.sched_getaffinity(0)), cgroup_cores()
    return allowed if quota is None else max(1, min(allowed, math.ceil(quota)))


def cgroup_cores(root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """The number of cores in this control group's quota; None without a quota."""
    try:
        quota, period = (root / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return None


@functools.cache
def _cpuinfo(field: str) -> str:
    """What Linux reports about the first core; empty for what it leaves out, as names and flags on Arm."""
    match = re.search(rf"^{field}\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match[1].strip() if match else ""


def processor(device: str) -> str:
    """The processor for which a device's artifacts are built: the GPU's name; or the CPU's with a digest of
    its instruction set extensions, because virtual machines of several generations have the same name."""
    if device != "cpu":
        return gpu_names()[0]
    flags = hashlib.sha256(" ".join(sorted(cpu_flags())).encode()).hexdigest()
    return f"{_cpuinfo('model name') or platform.machine()}, flags {flags[:12]}"


def cpu_flags() -> frozenset[str]:
    """The CPU's instruction set extensions, by Linux's names; empty if Linux gives none, as on Arm."""
    return frozenset(_cpuinfo("flags").split())


def int8_weight_bits() -> int:
    """The bits of INT8 weights here: without VNNI, products overflow with 8-bit weights, and not with 7."""
    return 8 if cpu_flags() & {"avx512_vnni", "avx_vnni"} else 7


def stamp(device: str, *, is_client: bool = False) -> Machine:
    """This machine as a record has it: hardware, system, and the versions that affect a measurement on a
    device. GPUs are left out on a CPU, and if this machine `is_client` of a server elsewhere."""
    present = () if is_client else gpus()
    versions = {name: version for name in _STAMPED if (version := version_of(name)) is not None}
    return Machine(
        cpu=_cpuinfo("model name") or platform.machine(),
        cores=cores(),
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        gpu=present[0].name if present else None,
        gpu_driver=present[0].driver if present else None,
        system=f"{platform.system()}, {' '.join(platform.libc_ver())}",
        versions={"python": platform.python_version(), **versions},
        gpu_uuids=() if device == "cpu" else tuple(gpu.uuid for gpu in present),
        is_client=is_client,
    )


VOLTA = (7, 0)
TF32_OVERRIDE, TF32_OFF = "NVIDIA_TF32_OVERRIDE", "0"
"""The variable that cuBLAS, cuDNN and TensorRT obey first, and its value for off. Source: cuBLAS Library."""


def uses_tf32(precision: str, device: Device, *, wanted: bool) -> bool | None:
    """Whether a case computes in TF32 here, if `wanted`; None if it cannot, as on a CPU or in FP16."""
    capability = compute_capability() if device == "cuda" else None
    # From the A100 on. Source: CUDA C++ Programming Guide, compute capabilities.
    has_tf32 = capability is not None and capability >= (8, 0)
    return wanted if precision == "fp32" and has_tf32 else None


def tf32_environment(tf32: bool) -> dict[str, str]:
    """The environment variables that turn TF32 off (NVIDIA's, for cuBLAS, cuDNN and TensorRT) or on
    (PyTorch's, which NVIDIA's containers set too): PyTorch's default is TF32 for convolutions only."""
    return {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"} if tf32 else {TF32_OVERRIDE: TF32_OFF}


def free_memory_gib(meminfo: Path = Path("/proc/meminfo"), root: Path = Path("/sys/fs/cgroup")) -> float:
    """Free memory of the machine, or of its control group if that has less; inactive page cache is free."""
    lines = dict(line.split(":") for line in meminfo.read_text().splitlines())
    free = int(lines["MemAvailable"].split()[0]) * 1024
    with contextlib.suppress(OSError, ValueError):  # no control group, or no limit
        limit, used = (int((root / f"memory.{name}").read_text()) for name in ("max", "current"))
        cache = dict(line.split() for line in (root / "memory.stat").read_text().splitlines())
        free = min(free, limit - used + int(cache["inactive_file"]))
    return max(0, free) / 2**30
