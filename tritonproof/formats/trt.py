"""NVIDIA TensorRT: an engine built from the ONNX export, for this GPU and this TensorRT only. The network is
strongly typed: it computes in the types of the export. For FP16 that is an FP16 export with FP32 inputs and
outputs. TensorRT 11 has only such networks. TensorRT 10 also has weakly typed ones: it takes an FP32 export,
and with the builder's flag FP16 it chooses the faster type for each layer. So NVIDIA measured its published
figures, with older releases. Strong types make the same network with both releases, define the type of every
layer, and keep the same tolerance. Whether the builder would keep a layer in FP32 is not measured."""

import tempfile
from pathlib import Path

from tritonproof.base.errors import ProofError
from tritonproof.formats import onnx
from tritonproof.frameworks import gpu_libraries, onnx_networks, pytorch
from tritonproof.host import machine
from tritonproof.spec import ConversionJob, Device, Format, NativeBackend, Runtime

_WORKSPACE_BYTES = 1 << 30  # as published: --max-workspace-size 1073741824


def convert(job: ConversionJob, path: Path) -> None:
    """Export to ONNX, then build an engine that takes batches of 1 to the maximum and is tuned for the
    maximum. Raises ProofError if TensorRT refuses the export or builds no engine."""
    import tensorrt as trt

    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        intermediate = Path(folder) / "model.onnx"
        onnx.export(job, intermediate)
        job.on_progress("build engine")
        logger = trt.Logger(trt.Logger.WARNING)
        builder = trt.Builder(logger)
        network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        parser = trt.OnnxParser(network, logger)
        if not parser.parse_from_file(str(onnx_networks.graph_file(intermediate))):
            problems = "; ".join(str(parser.get_error(i)) for i in range(parser.num_errors))
            raise ProofError(f"TensorRT cannot read the ONNX export: {problems}", where=job.model.name)
        config = builder.create_builder_config()
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, _WORKSPACE_BYTES)
        if job.tf32 is False:
            config.clear_flag(trt.BuilderFlag.TF32)  # it is set by default
        profile = builder.create_optimization_profile()
        for tensor in job.model.inputs:
            row = () if tensor.is_scalar else tensor.shape
            largest = (job.max_batch_size, *row)
            profile.set_shape(tensor.name, (1, *row), largest, largest)
        config.add_optimization_profile(profile)
        engine = builder.build_serialized_network(network, config)
        if engine is None:
            raise ProofError("TensorRT built no engine; its log above says why", where=job.model.name)
        path.write_bytes(bytes(engine))


def why_missing(device: Device, accelerator: str | None, precision: str) -> str | None:
    """Why there is no TensorRT here, or no PyTorch on the GPU, which exports and holds buffers; or None."""
    reason = gpu_libraries.why_no_tensorrt(machine.compute_capability())
    return reason or pytorch.why_missing(device, accelerator, precision)


TRT = Format(
    name="trt",
    label="NVIDIA TensorRT",
    library="NVIDIA TensorRT",
    artifact="model.plan",
    convert=convert,
    frameworks=("pytorch", "tensorflow", "onnx"),
    precisions={"cuda": ("fp32", "fp16")},
    tolerances=pytorch.TOLERANCES,
    packages=(*onnx.ONNX.packages, *gpu_libraries.TENSORRT_DISTRIBUTIONS),
    why_built_on_gpu="TensorRT builds engines on the GPU",
    # Of Triton's backends r24.10 only this one reads `optimization.cuda.graphs`, in src/instance_state.cc.
    backend=NativeBackend(name="tensorrt", gpu_parameters=frozenset({"cuda_graphs"}), reads_engines=True),
    runtime=Runtime(file="trt.py", gpu_arrays="torch"),
    why_missing=why_missing,
)
