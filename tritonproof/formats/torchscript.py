"""TorchScript: ts-script compiles the source with its control flow, ts-trace records one run's operations."""

import copy
import dataclasses
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tritonproof.frameworks import pytorch
from tritonproof.spec import ConversionJob, Format, NativeBackend, Runtime

_BACKEND = NativeBackend(
    name="pytorch",
    # Not INTER_OP_THREAD_COUNT: PyTorch takes it once in a process, and up to release 25.10 the next load of
    # a model with it ends the server (src/libtorch.cc of pytorch_backend).
    parameters=lambda of_runtime: {"INTRA_OP_THREAD_COUNT": of_runtime["threads"]},
    returns_freed_memory=True,
)
RUNTIME = Runtime(file="pytorch.py", gpu_arrays="torch")


def script(job: ConversionJob, network: Any, _inputs: tuple[Any, ...]) -> Any:
    """Compile the network's source."""
    import torch

    job.on_progress("script")
    return torch.jit.script(network)


def trace(job: ConversionJob, network: Any, inputs: tuple[Any, ...]) -> Any:
    """Record what the network does with the example inputs."""
    import torch

    job.on_progress("trace")
    with warnings.catch_warnings():
        # Sizes become constants, except the batch: the accuracy test sends every size of it.
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        # The conversion test compares the trace with the network; check_trace would trace a second time.
        return torch.jit.trace(network, inputs, check_trace=False)


def _laid_out(network: Any, job: ConversionJob) -> Any:
    """A copy of the network whose 2D and 3D convolutions, and so their outputs, have channels last. The
    network itself if it has none, or if a GPU computes it in FP32 without TF32.

    Time with channels last, divided by that with the usual layout, measured in turns. On a Xeon's core:
    ResNet50 0.88 to 0.95, and 1.02 at batch 1; its micro size 0.59 to 0.74 at batch 32, 1.0 to 1.03 at batch
    1; nnU-Net's micro size 0.82 to 1.0; BF16 0.75. ResNet50 on an H200, at batches of 1, 32 and 128: FP16
    0.78, 0.73, 0.75; TF32 0.94, 0.81, 0.83; FP32 1.08, 1.17, 1.18."""
    import torch
    from torch import nn

    convolutions = (nn.Conv2d, nn.ConvTranspose2d, nn.Conv3d, nn.ConvTranspose3d)
    is_full_fp32 = (job.device, job.precision) == ("cuda", "fp32") and not job.tf32
    if is_full_fp32 or not any(isinstance(module, convolutions) for module in network.modules()):
        return network
    network = copy.deepcopy(network)
    for module in network.modules():
        if isinstance(module, convolutions):
            is_flat = module.weight.dim() == 4
            module.to(memory_format=torch.channels_last if is_flat else torch.channels_last_3d)
    return network


def _format(name: str, label: str, script_of: Callable[[ConversionJob, Any, tuple[Any, ...]], Any]) -> Format:
    """A TorchScript format; `script_of` makes the script from the job, the network and example inputs."""

    def convert(job: ConversionJob, path: Path) -> None:
        import torch

        network, inputs = pytorch.network_and_inputs(job)
        try:
            # A trace records whether convolutions may use TF32, and no setting of the server changes it.
            with torch.no_grad(), pytorch.tf32_products(allowed=job.tf32 is not False):
                compiled = script_of(job, _laid_out(network, job), inputs)
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            # TorchScript refuses a model with any of these errors. A full disk's OSError is none of them.
            hint = "; its compiler needs annotations such as `x: torch.Tensor`"
            raise pytorch.refusal(job, "TorchScript", error, hint) from error
        job.on_progress("freeze")
        # Through memory: PyTorch's own file writer ends the whole process when the disk is full.
        buffer = io.BytesIO()
        torch.jit.save(torch.jit.freeze(compiled), buffer)
        path.write_bytes(buffer.getvalue())

    return Format(
        name=name,
        label=label,
        library="PyTorch",
        artifact="model.pt",
        convert=convert,
        precisions=pytorch.PRECISIONS,
        tolerances=pytorch.TOLERANCES,
        packages=("torch",),
        backend=_BACKEND,
        runtime=RUNTIME,
        why_missing=pytorch.why_missing,
    )


# Measured in turns on 2 cores, ResNet50, FastPitch and nnU-Net of micro size had 0.76, 1.11 and 1.18 times
# the speed of ONNX as ts-script, and 0.78, 1.14 and 1.22 times as ts-trace; the intervals of both overlap.
SCRIPT = dataclasses.replace(_format("ts-script", "TorchScript Script", script), only_named_on_cpu=True)
TRACE = _format("ts-trace", "TorchScript Trace", trace)
