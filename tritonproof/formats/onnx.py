"""ONNX for ONNX Runtime, written by PyTorch's dynamo exporter with a dynamic batch, or the user's file; INT8
by static quantisation to QDQ."""

import dataclasses
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tritonproof.base import commands
from tritonproof.base.errors import InputError, ProofError
from tritonproof.frameworks import error_line, gpu_libraries, onnx_networks, pytorch, quietly
from tritonproof.frameworks.gpu_libraries import GPU_PACKAGES
from tritonproof.frameworks.tensorflow import export_onnx
from tritonproof.host import machine
from tritonproof.host.machine import int8_weight_bits, version_of
from tritonproof.spec import ConversionJob, Device, Format, NativeBackend, Runtime, Samples, Tolerance

OPSET = 18
"""The version of ONNX's operators that models are exported to."""
_MIN_OPSET = 13
"""The first version of ONNX's operators that can quantise each channel of weights: QuantizeLinear-13."""
_CALIBRATION_SAMPLES = 128
_CALIBRATION_BYTES = 1 << 29
"""The most bytes of all calibration samples' inputs. Larger samples are fewer, each a batch of its own."""


def convert(job: ConversionJob, path: Path) -> None:
    """Export the network to `path`; for INT8, quantise its FP32 export with the job's training samples."""
    if job.precision != "int8":
        export(job, path)
        return
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        exact = Path(folder) / "exact.onnx"
        if job.model.framework == "onnx":
            onnx_networks.in_one_file(job.network, exact, _MIN_OPSET)
        else:
            export(dataclasses.replace(job, precision="fp32"), exact)
        quantise(job, exact, path)


def export(job: ConversionJob, path: Path) -> None:
    """Write one ONNX file with a dynamic batch, or a given network's files to a folder. Raises ProofError."""
    if job.model.framework == "onnx":
        job.on_progress("copy")
        write = onnx_networks.in_half_precision if job.precision == "fp16" else onnx_networks.copy_network
        with quietly():
            write(job.network, path)
        return
    if job.model.framework == "tensorflow":
        with quietly():
            export_onnx(job, path, OPSET)
        return
    import torch

    network, inputs = pytorch.network_and_inputs(job)
    batch = torch.export.Dim("batch", min=1, max=max(2, job.max_batch_size))
    job.on_progress("export")
    try:
        with quietly():
            torch.onnx.export(
                network,
                inputs,
                str(path),
                input_names=[tensor.name for tensor in job.model.inputs],
                output_names=[tensor.name for tensor in job.model.outputs],
                dynamic_shapes=tuple({0: batch} for _ in inputs),
                opset_version=OPSET,
                dynamo=True,
                external_data=False,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        # The error's own message is advice on how to debug the exporter; the cause says what is wrong.
        raise pytorch.refusal(job, "PyTorch's exporter to ONNX", error.__cause__ or error) from error


def quantise(job: ConversionJob, exact: Path, path: Path) -> None:
    """Quantise a file to INT8: per-channel weights, ranges from training samples. Raises ProofError if ONNX
    Runtime cannot, or finds nothing to quantise: the file would then be FP32, and no faster."""
    import onnx
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = exact.with_name("prepared.onnx")
    batches = _calibration_batches(job, job.samples("training"))
    try:
        with quietly():
            job.on_progress("prepare for quantisation")
            quant_pre_process(str(exact), str(prepared), skip_symbolic_shape=True)
            excluded = _exclude_too_fine(prepared)
            job.on_progress("calibrate")
            quantize_static(
                str(prepared),
                str(path),
                SimpleNamespace(get_next=lambda: next(batches, None)),
                quant_format=QuantFormat.QDQ,
                per_channel=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                nodes_to_exclude=excluded,
                reduce_range=int8_weight_bits() < 8,
            )
    except InputError:
        raise
    except Exception as error:  # graphs that the library has not foreseen make it raise errors of many types
        raise _quantisation_error(job, f"{type(error).__name__}: {error_line(str(error))[:300]}") from error
    try:
        onnx_networks.open_network(path)
    except InputError as error:
        raise _quantisation_error(job, f"what it writes it does not open: {error.what}") from error
    nodes = onnx.load(str(path)).graph.node
    if all(node.op_type != "QuantizeLinear" for node in nodes):
        raise _quantisation_error(job, "it finds nothing to quantise in the main graph")


def _quantisation_error(job: ConversionJob, why: str) -> ProofError:
    fix = "leave INT8 out: -k 'not int8'; or quantise it and give that file with --onnx and --tolerance"
    what = f"ONNX Runtime cannot quantise the network to INT8: {why}"
    return ProofError(what, where=job.model.name, fix=fix)


def _exclude_too_fine(path: Path) -> list[str]:
    """Give each node of a file a name of its own, as several may share one, or have none; and return the
    names of the nodes for which 8 bits are too few: each Softmax, which may have a thousand probabilities,
    and the nodes between it and the matrix products before it, such as attention's mask, whose -3e38 would
    stretch the range so far that all other values become one."""
    import onnx

    model = onnx.load(str(path))
    for index, node in enumerate(model.graph.node):
        node.name = f"{index}_{node.name}"
    onnx.save(model, str(path))
    excluded, inputs = list[str](), set[str]()
    for node in reversed(model.graph.node):  # each stands after the nodes whose outputs it takes
        leads_to_softmax = inputs.intersection(node.output) and node.op_type not in onnx_networks.PRODUCTS
        if node.op_type == "Softmax" or leads_to_softmax:
            excluded.append(node.name)
            inputs.update(filter(None, node.input))
    return excluded


def _calibration_batches(job: ConversionJob, samples: Samples) -> Iterator[Any]:
    """ONNX Runtime's inputs for the calibration, batch by batch."""
    fitting = max(1, _CALIBRATION_BYTES // sum(tensor.row_bytes for tensor in job.model.inputs))
    count = min(_CALIBRATION_SAMPLES, len(samples), fitting)
    batch = 1 if fitting < _CALIBRATION_SAMPLES else min(16, job.max_batch_size)
    scalars = {tensor.name for tensor in job.model.inputs if tensor.is_scalar}
    chosen = np.random.default_rng(0).permutation(len(samples))[:count]
    for start in range(0, count, batch):
        rows = samples.read(chosen[start : start + batch].tolist())
        yield from onnx_networks.feeds(rows, batched=job.model.batched, scalars=scalars)


def why_missing(device: Device, accelerator: str | None, precision: str) -> str | None:
    """Why ONNX Runtime cannot run with an accelerator on a device of this machine, or None. A GPU needs the
    distribution onnxruntime-gpu, and PyTorch to convert and to compare; the TensorRT accelerator needs the
    version of TensorRT that ONNX Runtime links to."""
    gpu = version_of("onnxruntime-gpu")
    if device == "cpu":
        is_missing = gpu is None and version_of("onnxruntime") is None
        return f"needs onnxruntime: {commands.packages_command()}" if is_missing else None
    capability = machine.compute_capability()
    reason = gpu_libraries.why_missing_for_onnx_runtime(capability) if accelerator == "trt" else None
    if reason is None and gpu is None:
        reason = f"needs onnxruntime-gpu, and the ONNX Runtime here is the build for CPUs: {GPU_PACKAGES}"
    return reason or pytorch.why_missing(device, accelerator, precision)


def native_parameters(settings: Mapping[str, str]) -> dict[str, str]:
    """The parameters of Triton's onnxruntime backend. They are what tritonproof/runtimes/onnx.py sets, except
    for spinning, which no release of the backend can set: the threads; on a CPU, that the memory of large
    tensors is freed; on a GPU, that cuDNN chooses the algorithm of a convolution. By default ONNX Runtime
    tries every algorithm at each new shape, while the first request of that shape waits."""
    parameters = {"intra_op_thread_count": settings["threads"], "inter_op_thread_count": "1"}
    if settings["large"] == "1" and settings["device"] == "cpu":
        parameters |= {"enable_mem_arena": "0", "enable_mem_pattern": "0"}
    if settings["device"] == "cuda":
        # HEURISTIC; source: onnxruntime_backend, src/onnxruntime.cc
        parameters["cudnn_conv_algo_search"] = "1"
    return parameters


ONNX = Format(
    name="onnx",
    label="ONNX",
    library="ONNX Runtime",
    artifact="model.onnx",
    convert=convert,
    frameworks=("pytorch", "tensorflow", "onnx"),
    precisions={"cpu": ("fp32", "int8"), "cuda": ("fp32", "fp16")},
    accelerators={"cuda": ("trt",)},
    tolerances={
        **pytorch.TOLERANCES,
        "int8": Tolerance(0.5, 0.98, "8-bit activations: 0.05 on digits, 0.29 on ResNet50 of random weights"),
    },
    packages=(
        *("torch", "onnx", "onnxscript", "onnxruntime", "onnxruntime-gpu"),
        *("tensorflow", "tensorflow-cpu", "keras", "tf2onnx"),
    ),
    backend=NativeBackend(name="onnxruntime", parameters=native_parameters),
    runtime=Runtime(
        file="onnx.py",
        gpu_arrays="torch",
        pads_batches=True,
        gpu_settings=frozenset({"cuda_graphs", "prefer_nhwc"}),
    ),
    why_missing=why_missing,
    why_left_out=lambda accelerator, capability: (
        gpu_libraries.why_left_out_for_onnx_runtime(capability) if accelerator == "trt" else None
    ),
)
