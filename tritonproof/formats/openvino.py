"""OpenVINO, by Triton's openvino backend or the suite's runtime: ONNX files that it compiles itself."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tritonproof.frameworks import onnx_networks, pytorch
from tritonproof.host import machine
from tritonproof.spec import ConversionJob, Device, Format, NativeBackend, Runtime


def write_one_file(job: ConversionJob, path: Path) -> None:
    """Write the network as one ONNX file: the backend looks into no folder."""
    job.on_progress("copy")
    onnx_networks.in_one_file(job.network, path, least_opset=1)


def why_openvino_missing(_device: Device, _accelerator: str | None, _precision: str) -> str | None:
    """Why there is no OpenVINO in this process, or None. Even if the server has the backend, this process
    needs OpenVINO, to compare served answers with those that it computes in process."""
    if machine.version_of("openvino") is None:
        return f"needs OpenVINO: {sys.executable} -m pip install openvino"
    return None


def openvino_parameters(settings: Mapping[str, str]) -> dict[str, str]:
    """The parameters of Triton's openvino backend: the threads of all instances, which share one compiled
    network; a stream for each instance; and padding, without which the backend takes only the largest batch.

    No parameter sets FP32. On a CPU with AMX or AVX512-BF16 the backend therefore computes products in BF16,
    and its answers differ from those of tritonproof/runtimes/openvino.py, which sets FP32."""
    cores = machine.cores()
    return {
        "INFERENCE_NUM_THREADS": str(cores),
        "NUM_STREAMS": str(max(1, cores // int(settings["threads"]))),
        "ENABLE_BATCH_PADDING": "YES",
    }


OPENVINO = Format(
    name="openvino",
    label="OpenVINO",
    library="OpenVINO",
    artifact="model.onnx",
    convert=write_one_file,
    frameworks=("onnx",),
    precisions={"cpu": ("fp32",)},
    tolerances={"fp32": pytorch.TOLERANCES["fp32"]},
    packages=("onnx", "openvino"),
    backend=NativeBackend(name="openvino", parameters=openvino_parameters),
    runtime=Runtime(file="openvino.py"),
    why_missing=why_openvino_missing,
)
