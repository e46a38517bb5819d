"""TorchScript artifacts: weight layout, no fixed device, no operators too new for servers."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.formats.converting import Small, job_of
from tritonproof.formats import all_formats
from tritonproof.frameworks import pytorch
from tritonproof.models import all_models
from tritonproof.spec import ConversionJob, Format, NetworkModel

FORMATS = [format_ for format_ in all_formats() if format_.name in ("ts-trace", "ts-script")]
TRACE = next(format_ for format_ in FORMATS if format_.name == "ts-trace")
TRACED = [
    model
    for model in all_models()
    if model.micro and model.framework == "pytorch" and TRACE.name not in model.excluded
]


@pytest.mark.parametrize("format_", FORMATS, ids=lambda value: value.name)
def test_only_artifact_has_channels_last_convolution_weights(
    format_: Format, job: ConversionJob, network: Small, tmp_path: Path
) -> None:
    format_.convert(dataclasses.replace(job, network=network), tmp_path / "model.pt")
    graph = torch.jit.load(str(tmp_path / "model.pt")).inlined_graph
    constants = graph.findAllNodes("prim::Constant")
    weights = [output.toIValue() for node in constants for output in node.outputs()]
    kernels = [value for value in weights if isinstance(value, torch.Tensor) and value.dim() == 4]
    assert kernels
    assert all(value.is_contiguous(memory_format=torch.channels_last) for value in kernels)
    assert network.conv.weight.is_contiguous()


@pytest.mark.parametrize("tf32", [True, False, None])
def test_trace_records_tf32_and_without_it_keeps_the_layout_on_a_gpu(
    tf32: bool | None, job: ConversionJob, network: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No setting at run time changes what a trace records. A GPU before Ampere has no TF32: None."""
    on_cpu = pytorch.network_and_inputs(dataclasses.replace(job, network=network))
    monkeypatch.setattr(pytorch, "network_and_inputs", lambda _job: on_cpu)
    gpu_job = dataclasses.replace(job, device="cuda", precision="fp32", tf32=tf32)
    TRACE.convert(gpu_job, tmp_path / "model.pt")
    graph = torch.jit.load(str(tmp_path / "model.pt")).inlined_graph
    (convolution,) = graph.findAllNodes("aten::_convolution")
    _, weight, *_, allow_tf32 = (value.toIValue() for value in convolution.inputs())
    assert allow_tf32 is (tf32 is not False)
    assert weight.is_contiguous(memory_format=torch.channels_last) is bool(tf32)


@pytest.mark.parametrize("model", TRACED, ids=lambda value: value.name)
def test_trace_computes_on_its_loading_device(model: NetworkModel, tmp_path: Path) -> None:
    """With a recorded device an instance on a second GPU would compute on the first, or fail."""
    TRACE.convert(job_of(model), tmp_path / "model.pt")
    assert "torch.device(" not in torch.jit.load(str(tmp_path / "model.pt")).code


OLDEST = "2.5.1"
"""PyPI's PyTorch nearest to that of Triton 24.10, NVIDIA's build between 2.5.0 and 2.6.0."""
COMPUTE = """
import sys
import numpy, torch
assert torch.__version__.split("+")[0] == sys.argv[1]
inputs = [torch.from_numpy(one) for one in numpy.load(sys.argv[3]).values()]
with torch.inference_mode():
    answer = torch.jit.load(sys.argv[2], map_location="cpu")(*inputs)
numpy.savez(sys.argv[4], *([answer] if isinstance(answer, torch.Tensor) else answer))
"""


@pytest.fixture(scope="session")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the oldest PyTorch; PyPI has it for CUDA only, with three gigabytes."""
    folder = tmp_path_factory.mktemp("oldest")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "-q", f"torch=={OLDEST}", "numpy<2"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"needs PyPI: {done.stderr.strip().splitlines()[-1]}")
    return python


@pytest.mark.contract
@pytest.mark.parametrize("format_", FORMATS, ids=lambda value: value.name)
@pytest.mark.parametrize("model", TRACED, ids=lambda value: value.name)
def test_oldest_pytorch_computes_alike(
    model: NetworkModel, format_: Format, oldest: Path, tmp_path: Path
) -> None:
    if format_.name in model.excluded:
        pytest.skip("the model has no such format")
    path = tmp_path / "model.pt"
    format_.convert(job_of(model), path)
    rows = model.samples("evaluation", None, None).read(range(4))
    inputs = {value.name: rows[value.name] for value in model.inputs}
    files = path, tmp_path / "inputs.npz", tmp_path / "outputs.npz"
    np.savez(files[1], **inputs)
    subprocess.run([str(oldest), "-c", COMPUTE, OLDEST, *map(str, files)], check=True)
    with torch.inference_mode():
        answer = torch.jit.load(str(path))(*map(torch.from_numpy, inputs.values()))
    expected = [answer] if isinstance(answer, torch.Tensor) else answer
    for values, right in zip(np.load(files[2]).values(), map(np.asarray, expected), strict=True):
        np.testing.assert_allclose(values, right, rtol=1e-3, atol=1e-3 * np.abs(right).max())
