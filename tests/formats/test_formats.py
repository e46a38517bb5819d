"""Every format matches the framework at any batch size and calibrates on training samples."""

import dataclasses
import errno
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.formats.converting import ON_CPU, Small, converted_by, job_of, samples_of
from tritonproof import formats
from tritonproof.base.errors import InputError, ProofError
from tritonproof.build import runtime_files
from tritonproof.formats import all_formats, onnx
from tritonproof.frameworks import gpu_libraries, pytorch
from tritonproof.host import machine
from tritonproof.host.machine import gpu_names
from tritonproof.spec import Arrays, ConversionJob, Format, NetworkModel, Samples, Split, Tensor

FORMATS = {format_.name: format_ for format_ in all_formats()}
CPU_FORMATS = [
    (format_, precision)
    for format_ in all_formats()
    if "pytorch" in format_.frameworks
    for precision in format_.precisions.get("cpu", ())
    if format_.name != "pt2"  # compiling takes long, the first time most of all, and test_pt2.py does it
]


@pytest.mark.parametrize(
    ("format_", "precision"), CPU_FORMATS, ids=[f"{entry.name}-{p}" for entry, p in CPU_FORMATS]
)
def test_format_matches_framework_at_any_batch(
    format_: Format, precision: str, model: NetworkModel, network: Small, tmp_path: Path
) -> None:
    loaded: list[int] = []
    training = samples_of("training")

    def load(indices: Sequence[int]) -> Arrays:
        loaded.extend(indices)
        return training.read(indices)

    def samples(split: Split) -> Samples:
        return dataclasses.replace(training, read=load) if split == "training" else samples_of(split)

    converted = converted_by(format_, job_of(model, network, precision, samples=samples), tmp_path)
    evaluation = samples_of("evaluation")
    for batch in (1, 3, 8):
        inputs = evaluation.read(range(batch))
        expected, outputs = model.infer(network, inputs)["y"], converted(inputs)["y"]
        assert outputs.dtype == np.float32, "clients of every precision receive the same types"
        error = np.abs(outputs - expected).max() / np.abs(expected).max()
        assert error <= format_.tolerances[precision].max_relative_error
        assert (precision != "fp32") == (error > 1e-4), "FP32 does not round so far"
    # INT8 loads every training sample once, and the other precisions none.
    assert sorted(loaded) == (list(range(40)) if precision == "int8" else [])


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_conversion_leaves_network_on_its_device(precision: str, job: ConversionJob, network: Small) -> None:
    """Otherwise a fresh build would leave the framework's network on the GPU, a reused one on the CPU."""
    elsewhere = dataclasses.replace(job, precision=precision, device="meta")  # type: ignore[arg-type] # stands for a GPU
    converted, inputs = pytorch.network_and_inputs(elsewhere)
    assert {str(tensor.device) for tensor in (*converted.state_dict().values(), *inputs)} == {"meta"}
    assert {str(tensor.device) for tensor in network.state_dict().values()} == {"cpu"}


def test_examples_are_the_given_samples_in_the_models_order(model: NetworkModel, network: Small) -> None:
    """There is a single one, and it is read in another order."""
    rows = {"b": np.ones((1, 2), np.float32), "a": np.zeros((1, 2), np.float32)}
    given = Samples(["one"], lambda indices: {name: values[list(indices)] for name, values in rows.items()})
    two = dataclasses.replace(model, inputs=(Tensor("a", "FP32", (2,)), Tensor("b", "FP32", (2,))))
    _network, inputs = pytorch.network_and_inputs(job_of(two, network, samples=lambda _split: given))
    assert [values.tolist() for values in inputs] == [[[0, 0], [0, 0]], [[1, 1], [1, 1]]]


@pytest.mark.parametrize("name", ["ts-trace", "ts-script", "onnx"])
def test_full_disk_raises_an_exception(name: str, job: ConversionJob, tmp_path: Path) -> None:
    artifact = tmp_path / FORMATS[name].artifact
    artifact.symlink_to("/dev/full")
    with pytest.raises(OSError, check=lambda error: error.errno == errno.ENOSPC):
        FORMATS[name].convert(job, artifact)


@pytest.mark.parametrize("name", ["ts-trace", "ts-script", "pt2"])
@pytest.mark.parametrize(
    ("flags", "available"), [({"avx512_bf16"}, True), ({"amx_bf16"}, True), ({"avx512f"}, False)]
)
def test_bf16_needs_a_capable_processor(
    flags: set[str], available: bool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pytorch, "cpu_flags", lambda: frozenset(flags))
    monkeypatch.setenv("CXX", str(shutil.which("env")))
    assert (FORMATS[name].why_missing("cpu", None, "bf16") is None) == available
    assert FORMATS[name].why_missing("cpu", None, "fp32") is None


class Refused(nn.Module):
    """A network with an annotation that makes TorchScript's compiler fail."""

    def forward(self, x: Any) -> Any:
        return x.flatten(1)


class Branching(nn.Module):
    """A network that branches on its data."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x if x.sum() > 0 else x


class Pairing(nn.Module):
    """A network that is right only for the batch size of the example inputs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(2, -1) * 2


@pytest.mark.parametrize(
    ("name", "refused"), [("ts-script", Refused), ("onnx", Branching), ("pt2", Branching), ("pt2", Pairing)]
)
def test_refused_network_is_an_error_of_one_line(
    name: str, refused: type[nn.Module], job: ConversionJob, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ProofError, check=lambda e: e.where == "small" and "\n" not in e.what):
        FORMATS[name].convert(dataclasses.replace(job, network=refused()), tmp_path / "artifact")
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


FOR_CPUS = {"onnxruntime": "1.31.1"}
FOR_GPUS = {"CUDA of torch": "13.0", "onnxruntime-gpu": "1.28.0"}
FOR_TENSORRT = FOR_GPUS | {"tensorrt-cu13": "10.16.1.11"}
"""Distributions and the CUDA that PyTorch is for, if any, with their versions."""


@pytest.mark.parametrize(
    ("name", "accelerator", "installed", "environment"),
    [
        *((key, None, FOR_CPUS, "benchmarks-gpu") for key in ("onnx", "ts-trace", "ts-script", "pt2")),
        *((key, None, FOR_GPUS, None) for key in ("onnx", "ts-trace", "ts-script", "pt2")),
        # A session would find no provider, even with PyTorch for CUDA.
        ("onnx", None, FOR_CPUS | {"CUDA of torch": "13.0"}, "benchmarks-gpu"),
        *((*key, FOR_GPUS, "benchmarks-gpu-trt") for key in (("trt", None), ("onnx", "trt"))),
        *((*key, FOR_TENSORRT, None) for key in (("trt", None), ("onnx", "trt"))),
    ],
)
def test_missing_gpu_package_names_its_environment(
    name: str, accelerator: Any, installed: Any, environment: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(shutil.which("env")))
    for module in (onnx, machine):
        monkeypatch.setattr(module, "version_of", installed.get)
    monkeypatch.setattr(pytorch, "cuda_of_torch", lambda: installed.get("CUDA of torch", ""))
    missing = FORMATS[name].why_missing("cuda", accelerator, "fp16")
    assert missing is None if environment is None else f"tox run -e {environment} " in str(missing)


def test_tensorrt_package_names_are_part_of_the_build() -> None:
    assert set(gpu_libraries.TENSORRT_DISTRIBUTIONS) <= set(FORMATS["trt"].packages)


@pytest.mark.skipif(bool(gpu_names()), reason="this machine has a GPU, so there is nothing to refuse")
@pytest.mark.filterwarnings("ignore:Specified provider")
def test_onnx_runtime_without_cuda_is_an_error(job: ConversionJob, tmp_path: Path) -> None:
    artifact = tmp_path / "model.onnx"
    FORMATS["onnx"].convert(job, artifact)
    parameters = ON_CPU | {"device": "cuda", "accelerator": "", "precision": "fp32", "tensors": "torch"}
    with pytest.raises(RuntimeError, match=r"cannot use CUDAExecutionProvider .* CPUExecutionProvider"):
        runtime_files.load_runtime("onnx.py").load(artifact, parameters)


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("1 / 0", "mine.py:3"),
        ("X = Format(name='mine')", "mine.py:3"),
        ("X = replace(ONNX, name='a b')", "name of Format a b"),
        ("X = replace(ONNX, precisions={'cpu': ('fp32')})", "precisions of Format onnx"),
        ("X = replace(ONNX, convert=None)", "convert of Format onnx"),
        ("X = replace(ONNX, tolerances={})", "tolerances of the format onnx lack fp16, fp32, int8"),
        ("X = replace(ONNX, runtime=replace(ONNX.runtime, file='gone.py'))", "no runtime 'gone.py'"),
        ("X = ONNX\nY = replace(ONNX)", "there is a format onnx already"),
    ],
)
def test_broken_format_is_refused_with_its_file_and_field(
    source: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imports = "from dataclasses import replace; from tritonproof.spec import Format\n"
    (tmp_path / "mine.py").write_text(f"{imports}from tritonproof.formats.onnx import ONNX\n{source}\n")
    monkeypatch.setattr(formats, "__path__", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "tritonproof.formats.mine", raising=False)
    with pytest.raises(InputError, match=r"(?s)mine\.py.*fix") as raised:
        formats.all_formats.__wrapped__()
    assert named in str(raised.value)
