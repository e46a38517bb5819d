"""TensorFlow's SavedModel, a folder whose serving signature has the weights frozen into its graph; and
TF-TRT, a SavedModel in which engines, for this GPU alone, replace the parts that TensorRT supports."""

import ctypes.util
import dataclasses
import functools
import runpy
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tritonproof.base import commands
from tritonproof.frameworks import gpu_libraries, pytorch, tensorflow
from tritonproof.host import machine
from tritonproof.spec import ConversionJob, Device, Format, NativeBackend, Runtime, Tolerance

_WORKSPACE_BYTES = 1 << 32  # as published: --max-workspace-size 4294967296


def save_model(job: ConversionJob, folder: Path) -> None:
    """Write the job's network into `folder` as a SavedModel that holds its weights as constants, FP32."""
    tf = tensorflow.import_tensorflow()
    job.on_progress("freeze")
    function = tensorflow.function_of(job.network, frozen=True)
    job.on_progress("save")
    # Without the training information that only Keras would read.
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(tf.Module(), str(folder), signatures=function, options=options)


def build_engines(job: ConversionJob, path: Path) -> None:
    """Save the network, then replace what TensorRT supports by engines for batches of 1 to the maximum."""
    tf = tensorflow.import_tensorflow()
    sample = job.samples("evaluation").read([0])

    def batches() -> Iterator[dict[str, Any]]:
        for batch in sorted({1, job.max_batch_size}):
            yield {name: tf.constant(np.repeat(array, batch, axis=0)) for name, array in sample.items()}

    with tempfile.TemporaryDirectory(dir=path.parent) as plain:
        save_model(job, Path(plain))
        job.on_progress("convert")
        converter = tf.experimental.tensorrt.Converter(
            input_saved_model_dir=plain,
            precision_mode=job.precision.upper(),
            max_workspace_size_bytes=_WORKSPACE_BYTES,
            use_dynamic_shape=True,
            # One profile from the smallest to the largest of the batches above.
            dynamic_shape_profile_strategy="Range",
            # A request must never wait for an engine; beyond the profile TensorFlow itself computes.
            allow_build_at_runtime=False,
        )
        converter.convert()
        job.on_progress("build engines")
        converter.build(input_fn=batches)
        converter.save(str(path), save_gpu_specific_engines=True)


_DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu")
"""The distributions on PyPI that bring TensorFlow; one of them is enough."""


@functools.cache
def build_info() -> Mapping[str, Any]:
    """The content of tf.sysconfig.get_build_info(); empty without TensorFlow."""
    folder = machine.package_folder("tensorflow")
    if folder is None:
        return {}
    info = folder / "python" / "platform" / "build_info.py"
    return dict(runpy.run_path(str(info))["build_info"]) if info.is_file() else {}


@functools.cache
def why_missing_on_gpu() -> str | None:
    """Why TensorFlow would find no GPU here, or None. TensorFlow 2.19 of PyPI is for CUDA 12. Its extra
    `and-cuda` overwrites the cuDNN of PyTorch for CUDA 13, and has other versions than PyTorch for CUDA 12,
    so one environment cannot have both: TensorFlow needs the system's CUDA, as in NVIDIA's containers."""
    if build_info().get("is_cuda_build") and ctypes.util.find_library("cudnn"):
        return None
    return (
        "needs TensorFlow with CUDA 12, whose packages and PyTorch's for a GPU exclude each other: left out "
        "of the GPU environments (docs/gpus.md)"
    )


def why_missing(device: Device, _accelerator: str | None, _precision: str) -> str | None:
    """Why there is no TensorFlow for this device, or None."""
    if not any(map(machine.version_of, _DISTRIBUTIONS)):
        environment = "benchmarks" if device == "cpu" else "benchmarks-gpu"
        return f"needs TensorFlow: {commands.packages_command(environment)}"
    return why_missing_on_gpu() if device == "cuda" else None


def why_no_tensorrt() -> str | None:
    """Why this TensorFlow has no TF-TRT, or None. Only builds with TensorRT have it: PyPI's up to 2.17, and
    those in NVIDIA's containers up to 25.02. The suite's own environments have 2.19."""
    if build_info() and not build_info().get("is_tensorrt_build"):
        return (
            "out of reach: TF-TRT needs a TensorFlow built with TensorRT, which PyPI's was up to 2.17, and "
            "the suite's environments have 2.19 (docs/gpus.md)"
        )
    return None


SAVED_MODEL = Format(
    name="tf-savedmodel",
    label="TensorFlow SavedModel",
    library="TensorFlow",
    artifact="model.savedmodel",
    convert=save_model,
    frameworks=("tensorflow",),
    precisions={"cpu": ("fp32",), "cuda": ("fp32",)},
    tolerances={
        **pytorch.TOLERANCES,
        "fp32": Tolerance(1e-4, 0.999, "FP32 sums in another order: 3e-6 on the digits, 1e-5 at full size"),
    },
    packages=(*_DISTRIBUTIONS, "keras"),
    backend=NativeBackend(
        name="tensorflow",
        platform="tensorflow_savedmodel",
        parameters=lambda of_runtime: {
            "TF_NUM_INTRA_THREADS": of_runtime["threads"],
            "TF_NUM_INTER_THREADS": "1",
        },
    ),
    runtime=Runtime(file="tf_savedmodel.py"),
    why_missing=why_missing,
    why_left_out=lambda _accelerator, _capability: why_missing_on_gpu(),
)
TF_TRT = dataclasses.replace(
    SAVED_MODEL,
    name="tf-trt",
    label="TensorFlow TensorRT",
    library="TensorFlow with TensorRT",
    convert=build_engines,
    precisions={"cuda": ("fp32", "fp16")},
    packages=(*SAVED_MODEL.packages, *gpu_libraries.TENSORRT_DISTRIBUTIONS),
    why_built_on_gpu="TensorRT builds engines on the GPU",
    why_missing=lambda *where: why_no_tensorrt() or why_missing(*where),
    why_left_out=lambda _accelerator, _capability: why_no_tensorrt(),
)
