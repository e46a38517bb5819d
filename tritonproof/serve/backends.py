"""Which of a server's backends serves a case, whether it can, and which variables and options it needs."""

import math
import shutil
from collections.abc import Mapping
from pathlib import Path

from tritonproof.base.errors import NotAvailableError
from tritonproof.build.runtime_files import has_large_tensors
from tritonproof.frameworks import gpu_libraries
from tritonproof.host.machine import tf32_environment
from tritonproof.record.schema import Deployment
from tritonproof.serve.server_spec import ServerKind, ServerSpec
from tritonproof.spec import Case, Format

_KEEP_FREED_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1)}
"""The environment variables of glibc for what tritonproof/runtimes/pytorch.py sets with mallopt."""
_PINNED_BYTES, _CUDA_BYTES = 256 << 20, 64 << 20
"""Triton's default memory pools; the suite sets no smaller ones. Source: tritonserver --help."""
_BATCHES_PER_INSTANCE = 2
"""Batches of each instance in the pools: one is computed while the next one is gathered. Beyond its pools
Triton allocates unpinned memory for each request, which is slow; nnU-Net's four volumes take 134 MB."""


def serves_natively(kind: ServerKind, backends: Path | None, format_: Format) -> bool:
    """Whether the format's own backend serves it, by the server's folder of `backends` (None if unknown). If
    not, the suite's runtime does, on Triton's Python backend. Raises NotAvailableError if a local server has
    neither, or a container has no backend for the format."""
    backend = format_.backend
    if kind == "docker":
        if backend is not None:
            return True
        servers = "embedded, local or HOST:PORT"
        raise NotAvailableError(f"{format_.name} needs a server with the suite's packages: {servers}")
    if kind == "embedded" or backends is None:
        return False
    if backend is not None and (backends / backend.name / f"libtriton_{backend.name}.so").is_file():
        return True
    if python_stub(backends).is_file():
        return False
    own = "" if backend is None else f"{backend.name} or "
    present = ", ".join(sorted(path.name for path in backends.glob("*"))) or "none"
    raise NotAvailableError(f"needs Triton's {own}python backend; {backends} has {present}")


def local_backends(program: str, default: Path = Path("/opt/tritonserver/backends")) -> Path:
    """A local tritonserver's backends: `../backends` beside the program, else the server's own default.
    Source: `backend_dir_` in src/command_line_parser.h of triton-inference-server/server, r24.10."""
    path = shutil.which(program)
    assert path is not None
    own = Path(path).resolve().parents[1] / "backends"
    return default if default.is_dir() and not own.is_dir() else own


def python_stub(backends: Path) -> Path:
    """The program that runs a model for Triton's Python backend; it may not exist."""
    return backends / "python" / "triton_python_backend_stub"


def server_variables(spec: ServerSpec, case: Case, deployment: Deployment) -> Mapping[str, str]:
    """The environment variables by which a server that we start computes as the suite's runtime does.

    TF32 needs them, because only Triton's onnxruntime backend has a parameter for it. Triton's pytorch
    backend also makes glibc return freed memory to the kernel, which the runtime keeps: ResNet50 at 32 x 32
    reached 464 images per second instead of 674. Raises NotAvailableError for a case it cannot serve.
    """
    variables = {} if deployment.tf32 is None else tf32_environment(deployment.tf32)
    backend = case.format.backend
    returns_memory = backend is not None and backend.returns_freed_memory and case.target.device == "cpu"
    may_keep = returns_memory and spec.kind == "local" and not has_large_tensors(case)
    if may_keep and serves_natively(spec.kind, local_backends(spec.location), case.format):
        return {**_KEEP_FREED_MEMORY, **variables}
    return variables


def pool_options(case: Case, deployment: Deployment, gpus: int = 1) -> list[str]:
    """The options that size the server's memory pools for the case's largest batches; none on a CPU."""
    if case.target.device == "cpu":
        return []
    row_bytes = sum(tensor.row_bytes for tensor in (*case.model.inputs, *case.model.outputs))
    per_gpu = row_bytes * deployment.max_batch_size * deployment.instances * _BATCHES_PER_INSTANCE
    sizes, mib = (max(_PINNED_BYTES, per_gpu * gpus), max(_CUDA_BYTES, per_gpu)), 1 << 20
    pinned, cuda = (mib * math.ceil(size / mib) for size in sizes)
    cuda_options = [f"--cuda-memory-pool-byte-size={gpu}:{cuda}" for gpu in range(gpus)]
    return [f"--pinned-memory-pool-byte-size={pinned}", *cuda_options]


def engine_refusal(reads: str | None) -> NotAvailableError | None:
    """The error for an engine that a server with TensorRT `reads` would refuse; None if it takes it."""
    built_by = gpu_libraries.installed_tensorrt()
    if reads is None or built_by is None or gpu_libraries.is_same_version(reads, built_by.version):
        return None
    built = built_by.version
    what = f"the server's TensorRT {reads} reads only its own engines, and {built} builds them here"
    return NotAvailableError(what, fix=f"install TensorRT {reads}; or use a server with TensorRT {built}")
