"""The files in tritonproof/runtimes, which run an artifact in Triton or here, and the folders of engines."""

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import structs

from tritonproof.base.paths import RUNTIMES as RUNTIMES
from tritonproof.frameworks.gpu_libraries import installed_tensorrt
from tritonproof.host import machine, nvml, scratch
from tritonproof.record.setup import Deployment
from tritonproof.spec import Arrays, Case, Device, Model

_LARGE_BYTES = 4 * 2**20
"""Runtimes free memory after each request if a row has at least this many bytes: volumes take gigabytes."""


def has_large_tensors(case: Case) -> bool:
    """Whether a row of an input or output is large enough that runtimes free memory after each request."""
    return any(tensor.row_bytes >= _LARGE_BYTES for tensor in (*case.model.inputs, *case.model.outputs))


def runtime_settings(case: Case, deployment: Deployment, engines: str = "") -> dict[str, str]:
    """A runtime's settings by name: in a server the model's parameters, in process an argument. Instances
    share the cores. `engines` is the folder for engines of TensorRT as accelerator; empty to keep none."""
    return {
        "artifact": case.format.artifact,
        "threads": str(max(1, machine.cores() // deployment.instances)),
        "accelerator": case.accelerator or "",
        "engines": engines,
        "precision": case.precision,
        "cuda_graphs": str(int(deployment.cuda_graphs)),
        "prefer_nhwc": str(int(deployment.prefer_nhwc)),
        **tf32_setting(deployment.tf32),
        "inputs": ",".join(tensor.name for tensor in case.model.inputs),
        "outputs": ",".join(tensor.name for tensor in case.model.outputs),
        "large": str(int(has_large_tensors(case))),
        "tensors": case.format.runtime.gpu_arrays if case.target.device == "cuda" else "numpy",
        **({} if case.model.batched else {"batched": "0"}),
    }


def tf32_setting(tf32: bool | None) -> dict[str, str]:
    """A runtime's setting for TF32: 0 for off; 1 for on, and also where TF32 means nothing (None)."""
    return {"tf32": "0" if tf32 is False else "1"}


@functools.cache
def load_runtime(name: str) -> Any:
    """The module in the runtimes' file `name`, which Triton's Python backend runs too."""
    spec = importlib.util.spec_from_file_location(f"tritonproof_runtime_{Path(name).stem}", RUNTIMES / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def open_in_process(
    case: Case, artifact: Path, deployment: Deployment, engines: str = ""
) -> Callable[[Arrays], dict[str, Any]]:
    """A converted model in this process: a function from inputs to outputs, both by name, [batch, ...] each.
    It uses all cores, however many instances the deployment has."""
    settings = runtime_settings(case, structs.replace(deployment, instances=1), engines)
    settings |= {"device": case.target.device, "device_id": "0"}
    predict = load_runtime(case.format.runtime.file).load(artifact, settings)
    if settings["tensors"] == "torch":
        predict = through_the_host(predict, case.target.device)
    outputs = case.model.outputs

    def run(inputs: Arrays) -> dict[str, Any]:
        results = zip(outputs, predict(runtime_inputs(case.model, inputs)), strict=True)
        return {tensor.name: values[:, None] if tensor.is_scalar else values for tensor, values in results}

    return run


def runtime_inputs(model: Model, inputs: Arrays) -> list[Any]:
    """The inputs as Triton gives them to a runtime: in the model's order, scalars as [batch]."""
    import numpy as np  # the doctor reads this module where there is none

    arrays = ((tensor, np.asarray(inputs[tensor.name])) for tensor in model.inputs)
    return [values[:, 0] if tensor.is_scalar else values for tensor, values in arrays]


def through_the_host(predict: Callable[[Any], Any], device: Device) -> Callable[[Any], Any]:
    """A function on arrays, from a runtime's function on tensors of a device."""
    import torch

    def run(arrays: Any) -> Any:
        results = predict([torch.from_numpy(array).to(device) for array in arrays])
        return [tensor.cpu().numpy() for tensor in results]

    return run


def engine_folder(case: Case, digest: str, *, tensorrt: str | None = None, in_container: bool = False) -> str:
    """The private folder of a build's engines; empty for a case without TensorRT as accelerator.

    Each build has its own, as ONNX Runtime names an engine by the names of the graph's nodes. So has each
    version of TensorRT (`tensorrt` is the server's, by default the installed one) and of the driver's CUDA:
    ONNX Runtime refuses engines of another version, and builds none. Raises SetupError for a shared folder.
    """
    if case.accelerator != "trt":
        return ""
    if in_container:
        # ONNX Runtime makes this folder, but none above it: tensorrt_execution_provider.cc.
        return f"/tmp/tritonproof-engines-{digest}"
    library = installed_tensorrt()
    version = tensorrt or (library.version if library else "unknown")
    name = f"{digest}-tensorrt-{version}-cuda-{nvml.cuda_of_driver()}"
    # Nothing removes these folders: another checkout may have the build.
    return str(scratch.private_folder("engines", name))
