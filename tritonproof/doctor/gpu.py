"""Do the GPU, its driver and the packages fit each other, and which cases skip on this machine?"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tritonproof.base import commands
from tritonproof.base.errors import InputError, NotAvailableError
from tritonproof.doctor import Finding, ok, problem, warning
from tritonproof.formats import variant_name, variants_on
from tritonproof.frameworks import gpu_libraries
from tritonproof.frameworks.gpu_libraries import TensorRT, gpu_environment
from tritonproof.host import machine, nvml
from tritonproof.serve.launch import KINDS, native_backend
from tritonproof.serve.server_spec import ServerSpec
from tritonproof.spec import Device, Format


def gpu() -> Finding:
    """Whether this machine's GPU, driver, PyTorch, ONNX Runtime and TensorRT fit together. Every run needs
    these to convert models and compute references; a container has its own, but only serves with them."""
    names = machine.gpu_names()
    if not names:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        why = "" if hidden is None else f", as CUDA_VISIBLE_DEVICES is {hidden!r}"
        unseen = "if nvidia-smi shows one, its driver does not answer this process"
        return ok(f"none{why}: the CPU's cases run; {unseen}")
    driver_cuda, torch_cuda = nvml.cuda_of_driver(), gpu_libraries.cuda_of_torch()
    trt = gpu_libraries.installed_tensorrt()
    text = ", ".join(names)
    if len(names) > 1:
        text += "; a run uses one of them, the first that --target or CUDA_VISIBLE_DEVICES names"
    text += f"; driver for CUDA {driver_cuda or 'of an unknown version'}"
    environment = gpu_environment(machine.compute_capability(), driver_cuda)
    faults = list(_faults(driver_cuda, torch_cuda, commands.packages_command(environment, anew=True)))
    if faults:
        reasons, fixes = zip(*faults, strict=True)
        return problem(f"{text}, but {'; '.join(reasons)}", "; ".join(dict.fromkeys(fixes)))
    if trt is not None and (mismatch := _mismatch(trt, torch_cuda)):
        return warning(f"{text}, but {mismatch}", commands.packages_command(f"{environment}-trt", anew=True))
    with_tensorrt = "no TensorRT" if trt is None else f"TensorRT {trt.version}"
    return ok(f"{text}, PyTorch for CUDA {torch_cuda}, {with_tensorrt}")


def _faults(driver_cuda: int | None, torch_cuda: str, installs: str) -> Iterator[tuple[str, str]]:
    """The reasons why packages cannot compute on the GPU, each with a fix; the command `installs` is one."""
    cuda = int(torch_cuda.split(".")[0]) if torch_cuda else None
    if cuda is None:
        fix = f"{installs}, without an index of CPU packages; or hide the GPU: CUDA_VISIBLE_DEVICES= "
        yield "PyTorch is missing or a build for CPUs", fix + commands.benchmarks_command()
    elif driver_cuda is not None and driver_cuda < cuda:
        fix = f"install a driver for CUDA {torch_cuda}; or for one of CUDA 12 {installs}"
        yield f"PyTorch is for CUDA {torch_cuda}", fix
    onnx_runtime_cuda = gpu_libraries.cuda_of_onnx_runtime()
    if onnx_runtime_cuda is None:
        yield "ONNX Runtime is missing or the build for CPUs", installs
    elif cuda not in {None, onnx_runtime_cuda}:
        differ = f"PyTorch is for CUDA {cuda}, ONNX Runtime for {onnx_runtime_cuda}"
        yield f"{differ}: ONNX Runtime would not load, or would compute on the CPU", installs


def _mismatch(trt: TensorRT, torch_cuda: str) -> str | None:
    """Why TensorRT does not fit PyTorch and ONNX Runtime, so that its cases skip or fail."""
    if trt.cuda is not None and trt.cuda != int(torch_cuda.split(".")[0]):
        return f"{trt.distribution} {trt.version} is for CUDA {trt.cuda}, PyTorch for {torch_cuda}"
    linked = gpu_libraries.tensorrt_of_onnx_runtime()
    if linked is not None and gpu_libraries.numbers_of(trt.version)[:1] != (linked,):
        return f"ONNX Runtime is for TensorRT {linked}, and {trt.version} is installed: onnx-trt cases skip"
    return None


def formats(spec: ServerSpec, device: Device) -> Finding:
    """Which formats and precisions run here with a server, and what the others lack."""
    capability = machine.compute_capability() if device == "cuda" else None
    tensorrt_read = None
    if device == "cuda" and not spec.is_remote:
        with contextlib.suppress(InputError):  # if Docker does not answer, the check of Triton says so
            tensorrt_read = KINDS[spec.kind].tensorrt_of(spec)
    run: list[str] = []
    lacking: dict[str, list[str]] = {}
    out_of_reach: dict[str, list[str]] = {}
    for format_, accelerator, precision in variants_on(device):
        if format_.frameworks == ("onnx",):
            continue  # such a format takes only users' networks, and a run with one reports what it lacks
        name = variant_name(format_, accelerator, precision)
        if device == "cuda" and (reason := format_.why_left_out(accelerator, capability)):
            out_of_reach.setdefault(reason, []).append(name)
            continue
        reason = format_.why_missing(device, accelerator, precision)
        if reason := reason or _why_unserved(spec, format_, tensorrt_read):
            lacking.setdefault(reason, []).append(name)
        else:
            run.append(name)
    text = f"{', '.join(run) or 'nothing'} can run"
    text += "".join(f"; {', '.join(names)} cannot: {reason}" for reason, names in out_of_reach.items())
    text += "".join(f"; {', '.join(names)} skip" for names in lacking.values())
    if not lacking:
        return ok(text)
    fixes = list(lacking)
    if device == "cuda":
        environment = gpu_environment(capability, nvml.cuda_of_driver(), tensorrt=True)
        if Path(sys.prefix).name != environment:
            install = commands.packages_command(environment)
            fixes.append(f"for all that this GPU and its driver can run: {install}")
    return warning(text, "; ".join(fixes))


def _why_unserved(spec: ServerSpec, format_: Format, tensorrt_read: str | None) -> str | None:
    """Why the server, which reads engines of the TensorRT `tensorrt_read`, cannot serve a format, or None."""
    try:
        native_backend(spec, format_, tensorrt_read)
    except NotAvailableError as error:
        return "; ".join(filter(None, (error.what, error.fix)))
    return None
