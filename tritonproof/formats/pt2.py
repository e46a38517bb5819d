"""AOTInductor, TorchScript's successor: torch.export's graph, compiled ahead of time to a library. The
suite's runtime serves it, as Triton's pytorch backend takes such packages only from release 26.03 on, as a
beta (platform `torch_aoti`), and without dynamic batching and batches above 1:
https://github.com/triton-inference-server/pytorch_backend."""

import errno
import io
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tritonproof.base.errors import NotAvailableError
from tritonproof.formats import torchscript
from tritonproof.frameworks import pytorch, quietly
from tritonproof.frameworks.pytorch import network_and_inputs
from tritonproof.spec import ConversionJob, Device, Format

_OPTIONS = {
    # Folds BatchNorm into the convolutions and lets oneDNN apply what follows them. Time on two cores
    # compared with the frozen TorchScript: ResNet50 0.97 at batch 1 and 0.74 at batch 8 (without it 1.09 and
    # 0.78), its micro size 0.57 at batch 32 (without it 0.75).
    "freezing": True,
    # Otherwise kernels are laid out for the number of threads of the converting process: for one thread they
    # are serial, and for more they have a partial sum for each, which a larger number of threads overruns.
    "cpp.dynamic_threads": True,
    # Otherwise torch compiles its headers for each of the processor's vector extensions, for five seconds. It
    # still tries extensions that a compiler may lack, such as AMX.
    "cpp.vec_isa_ok": True,
    # Precompiled headers would stay in torch's cache folder, 280 MB, to save five seconds of the next
    # conversion.
    "aot_inductor.precompile_headers": False,
}
_WITHOUT_CUDA_TOOLKIT = ("CUDA_HOME environment variable is not set", "fatal error: ", "cannot find -lcuda")


def convert(job: ConversionJob, path: Path) -> None:
    """Export with a dynamic batch, compile, and package. Raises ProofError if PyTorch refuses the model."""
    import torch
    from torch._inductor.utils import fresh_cache

    # Through memory: PyTorch's own file writer ends the whole process when the disk is full.
    package = io.BytesIO()
    try:
        exported = exported_program(job)
        job.on_progress("compile")
        # Kernels generated for a GPU use TF32 if it is allowed while they are compiled.
        tf32 = pytorch.tf32_products(allowed=job.tf32 is not False)
        # Generated code and objects go below the package's folder, and are removed.
        cache = tempfile.TemporaryDirectory(prefix=".inductor-", dir=path.parent)
        with quietly(), cache as folder, fresh_cache(dir=folder), torch.no_grad(), tf32:
            compile_and_package = torch._inductor.aoti_compile_and_package
            compile_and_package(exported, package_path=package, inductor_configs=dict(_OPTIONS))
    except Exception as error:  # export, inductor and the compiler raise many types
        raise _explain(error, job) from error
    path.write_bytes(package.getvalue())


def exported_program(job: ConversionJob) -> Any:
    """The torch.export.ExportedProgram of the job's network, with a dynamic batch."""
    import torch

    network, inputs = network_and_inputs(job)
    batch = torch.export.Dim("batch", min=1, max=max(len(inputs[0]), job.max_batch_size))
    job.on_progress("export")
    with quietly(), torch.no_grad():
        shapes = tuple({0: batch} for _ in inputs)
        return torch.export.export(network, inputs, dynamic_shapes=shapes, strict=False)


def _explain(error: Exception, job: ConversionJob) -> Exception:
    """The error to raise in place of `error`: it says what failed and what to do."""
    text = str(error)
    if os.strerror(errno.ENOSPC) in text:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if job.device == "cuda" and any(words in text for words in _WITHOUT_CUDA_TOOLKIT):
        what = "needs the CUDA toolkit's headers, which PyTorch's own packages lack"
        fix = "install the CUDA toolkit of torch.version.cuda, and set CUDA_HOME to its folder"
        return NotAvailableError(what, where=job.model.name, fix=fix)
    return pytorch.refusal(job, "AOTInductor", error)


def why_missing(device: Device, accelerator: str | None, precision: str) -> str | None:
    """Why AOTInductor cannot compile here, or None. As in torch, the compiler is $CXX, else g++."""
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        return f"needs a C++ compiler: install g++ ({compiler} is not on PATH)"
    return pytorch.why_missing(device, accelerator, precision)


PT2 = Format(
    name="pt2",
    label="PyTorch AOTInductor",
    library="PyTorch",
    artifact="model.pt2",
    convert=convert,
    precisions=pytorch.PRECISIONS,
    tolerances=pytorch.TOLERANCES,
    packages=("torch", "triton"),
    why_built_on_gpu="AOTInductor compiles kernels on the GPU",
    compiles=True,
    runtime=torchscript.RUNTIME,
    why_missing=why_missing,
)
