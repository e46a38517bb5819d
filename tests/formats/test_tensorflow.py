"""TensorFlow formats match the framework, stay silent, and fail with an error."""

import ctypes.util
import dataclasses
import functools
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.formats import converting
from tests.formats.converting import converted_by, job_of
from tritonproof.base.errors import ProofError
from tritonproof.build import runtime_files
from tritonproof.formats import onnx
from tritonproof.formats import tensorflow as of_tensorflow
from tritonproof.formats.tensorflow import SAVED_MODEL, TF_TRT, why_missing
from tritonproof.frameworks import tensorflow
from tritonproof.host import machine
from tritonproof.models import resnet50_tf
from tritonproof.spec import Arrays, ConversionJob, Format, NetworkModel, Tensor

PARAMETERS = converting.ON_CPU | {"threads": str(machine.cores()), "inputs": "x", "outputs": "y,largest"}
samples_of = functools.partial(converting.samples_of, shape=(8, 8, 3))


@pytest.fixture(scope="module")
def network() -> Any:
    """A convolution with BatchNorm, and a linear layer, for the formats to fold, fuse and quantise."""
    tensorflow.import_tensorflow()
    import keras
    from keras import layers

    x = keras.Input((8, 8, 3), name="x")
    z = layers.BatchNormalization()(layers.Conv2D(8, 3, 2, "same", use_bias=False)(x))
    y = layers.Dense(5)(layers.Flatten()(keras.ops.relu(z)))
    model = keras.Model({"x": x}, {"y": y, "largest": keras.ops.top_k(y, 1)[1]})
    generator = np.random.default_rng(0)
    for variable in model.variables:
        variable.assign(generator.uniform(0.1, 0.5, variable.shape))
    return model


@pytest.fixture(scope="module")
def model() -> NetworkModel:
    """The micro model's value with the small network's tensors; its outputs are not in alphabetical order."""

    def run(network: Any, inputs: Arrays) -> Arrays:
        return {name: tensor.numpy() for name, tensor in network(dict(inputs), training=False).items()}

    return dataclasses.replace(
        resnet50_tf.MODELS[1],
        name="small",
        inputs=(Tensor("x", "FP32", (8, 8, 3)),),
        outputs=(Tensor("y", "FP32", (5,)), Tensor("largest", "INT32", (1,))),
        infer=run,
        samples=samples_of,
    )


@pytest.fixture
def job(model: NetworkModel, network: Any) -> ConversionJob:
    return job_of(model, network)


@pytest.mark.parametrize(
    ("format_", "precision"),
    [(SAVED_MODEL, "fp32"), (onnx.ONNX, "fp32"), (onnx.ONNX, "fp16"), (onnx.ONNX, "int8")],
    ids=lambda value: getattr(value, "name", value),
)
def test_format_matches_framework_at_any_batch(
    format_: Format, precision: str, job: ConversionJob, model: NetworkModel, network: Any, tmp_path: Path
) -> None:
    converted = converted_by(format_, dataclasses.replace(job, precision=precision), tmp_path)
    evaluation = samples_of("evaluation")
    for batch in (1, 3, 8):
        inputs = evaluation.read(range(batch))
        expected, outputs = model.infer(network, inputs), converted(inputs)
        for tensor in model.outputs:
            assert outputs[tensor.name].shape == (batch, *tensor.shape)
            assert outputs[tensor.name].dtype == expected[tensor.name].dtype
        error = np.abs(outputs["y"] - expected["y"]).max() / np.abs(expected["y"]).max()
        assert error <= format_.tolerances[precision].max_relative_error
        # FP32 sums of 128 products in another order differ by 1e-7 to 1e-6; FP16 rounds to 11 bits, 5e-4.
        assert (precision == "fp32") == (error < 1e-5), "FP32 does not round so far, the others do"
        np.testing.assert_array_equal(outputs["largest"], outputs["y"].argmax(axis=1, keepdims=True))


def test_inexpressible_network_is_an_error_without_file(job: ConversionJob, tmp_path: Path) -> None:
    import keras

    x = keras.Input((8, 8, 3), name="x")
    # Keras' argmax compares bits.
    compared = keras.ops.argmax(keras.ops.mean(x, axis=(1, 2)), axis=1)
    broken = keras.Model({"x": x}, {"y": compared, "largest": x})
    with pytest.raises(ProofError, check=lambda error: error.where == "small"):
        onnx.export(dataclasses.replace(job, network=broken), tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_saved_model_is_frozen_with_outputs_in_requested_order(
    job: ConversionJob, network: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "model.savedmodel"
    SAVED_MODEL.convert(job, folder)
    runtime = runtime_files.load_runtime("tf_savedmodel.py")
    x = samples_of("evaluation").read([0, 1, 2])["x"]
    y, largest = runtime.load(folder, PARAMETERS)([x])
    swapped = runtime.load(folder, PARAMETERS | {"outputs": "largest,y"})([x])
    assert (y.shape, largest.shape) == ((3, 5), (3, 1))
    np.testing.assert_array_equal(swapped[0], largest)
    np.testing.assert_array_equal(swapped[1], y)
    functions = tensorflow.import_tensorflow().saved_model.load(str(folder)).signatures
    assert list(functions) == ["serving_default"]
    assert not functions["serving_default"].variables


@pytest.mark.skipif(bool(machine.gpu_names()), reason="this machine has a GPU, so there is nothing to refuse")
def test_tensorflow_without_gpu_is_an_error(tmp_path: Path) -> None:
    runtime = runtime_files.load_runtime("tf_savedmodel.py")
    with pytest.raises(RuntimeError, match="TensorFlow finds 0 GPUs and no GPU 0"):
        runtime.load(tmp_path, PARAMETERS | {"device": "cuda"})


# NNPACK is off: it warns on a virtual machine that hides the sizes of its caches.
TORCH = """
import torch
torch.backends.nnpack.set_flags(False)
torch.nn.functional.conv2d(torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3))
"""
TENSORFLOW = """
from tritonproof.frameworks.tensorflow import import_tensorflow
tf = import_tensorflow()
tf.function(tf.nn.conv2d)(tf.ones((1, 8, 8, 3)), tf.ones((3, 3, 3, 4)), 1, "SAME")
"""


@pytest.mark.parametrize(
    "order", [(TORCH, TENSORFLOW), (TENSORFLOW, TORCH)], ids=["torch-first", "torch-last"]
)
def test_pytorch_and_tensorflow_import_together_silently(order: tuple[str, str]) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", "\n".join((*order, TORCH))]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_either_tensorflow_package_suffices_on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for versions, lacks in (({"tensorflow-cpu": "2.19"}, False), ({"tensorflow": "2.17"}, False), ({}, True)):
        monkeypatch.setattr(machine, "version_of", versions.get)
        assert bool(why_missing("cpu", None, "fp32")) == lacks


@pytest.mark.parametrize(
    ("format_", "has", "is_missing"),
    [
        (SAVED_MODEL, {"CUDA", "libraries"}, False),
        (SAVED_MODEL, {"CUDA"}, True),
        (SAVED_MODEL, {"libraries"}, True),
        (TF_TRT, {"CUDA", "TensorRT", "libraries"}, False),
        (TF_TRT, {"CUDA", "libraries"}, True),
    ],
)
def test_gpu_needs_a_build_for_it_and_libraries(
    format_: Format, has: set[str], is_missing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("build_info", "why_missing_on_gpu"):
        monkeypatch.setattr(of_tensorflow, name, getattr(of_tensorflow, name).__wrapped__)
    info = tmp_path / "tensorflow" / "python" / "platform" / "build_info.py"
    info.parent.mkdir(parents=True)
    about = {"is_cuda_build": "CUDA" in has, "is_tensorrt_build": "TensorRT" in has}
    info.write_text(f"build_info = {about!r}\n")
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path / "tensorflow")])
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: spec)
    library = "lib.so" if "libraries" in has else None
    monkeypatch.setattr(ctypes.util, "find_library", lambda _name: library)
    monkeypatch.setattr(machine, "version_of", lambda _name: "2.19.0")
    assert bool(format_.why_missing("cuda", None, "fp16")) is is_missing
    assert why_missing("cpu", None, "fp32") is None


def test_tf_trt_builds_engines_for_smallest_and_largest_batch(
    job: ConversionJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not every machine has TF-TRT, so a stand-in for its converter records the calls."""
    tf = tensorflow.import_tensorflow()
    calls: dict[str, Any] = {}

    class Converter:
        def __init__(self, *, input_saved_model_dir: str, **options: Any) -> None:
            calls["signatures"] = list(tf.saved_model.load(input_saved_model_dir).signatures)
            calls.update(options)

        def convert(self) -> None:
            calls["converted"] = True

        def build(self, input_fn: Callable[[], Any]) -> None:
            calls["batches"] = [{name: tuple(x.shape) for name, x in inputs.items()} for inputs in input_fn()]

        def save(self, folder: str, *, save_gpu_specific_engines: bool) -> None:
            assert save_gpu_specific_engines
            Path(folder).mkdir()

    monkeypatch.setattr(tf.experimental.tensorrt, "Converter", Converter)
    TF_TRT.convert(dataclasses.replace(job, precision="fp16"), tmp_path / "model.savedmodel")
    assert calls["signatures"] == ["serving_default"]
    assert calls["converted"]
    assert calls["precision_mode"] == "FP16"
    assert calls["batches"] == [{"x": (1, 8, 8, 3)}, {"x": (8, 8, 8, 3)}]
    assert [path.name for path in tmp_path.iterdir()] == ["model.savedmodel"]
