"""What is in a TorchScript artifact: the layout of its weights, and no device that it would compute on wherever it is put."""

import dataclasses
from pathlib import Path

import pytest
import torch

from fixtures.formats import all_formats
from fixtures.models import all_models
from fixtures.spec import ConversionJob, Format, Model
from tests.formats.small import Small

FORMATS = [one for one in all_formats() if one.mnemonic in ("ts-trace", "ts-script")]
TRACE = next(one for one in FORMATS if one.mnemonic == "ts-trace")
TRACED = [
    one
    for one in all_models()
    if one.micro and one.framework == "pytorch" and TRACE.mnemonic not in one.excluded
]


@pytest.mark.parametrize("format_", FORMATS, ids=lambda one: one.mnemonic)
def test_the_weights_of_a_convolution_have_their_channels_last_and_the_network_s_own_stay(
    format_: Format, job: ConversionJob, network: Small, tmp_path: Path
) -> None:
    format_.convert(dataclasses.replace(job, network=network), tmp_path / "model.pt")
    script = torch.jit.load(str(tmp_path / "model.pt"))
    graph = script.inlined_graph
    weights = [
        output.toIValue() for node in graph.findAllNodes("prim::Constant") for output in node.outputs()
    ]
    kernels = [one for one in weights if isinstance(one, torch.Tensor) and one.dim() == 4]
    assert kernels
    assert all(one.is_contiguous(memory_format=torch.channels_last) for one in kernels)
    assert network.conv.weight.is_contiguous()


@pytest.mark.parametrize("model", TRACED, ids=lambda one: one.name)
def test_a_trace_computes_on_the_device_that_it_is_loaded_for(model: Model, tmp_path: Path) -> None:
    """A device that was recorded would stay: an instance on a second GPU would compute on the first, or fail."""
    network = model.load(None).network
    job = ConversionJob(model, network, "fp32", None, "cpu", 8, None, lambda _step: None)
    TRACE.convert(job, tmp_path / "model.pt")
    assert "torch.device(" not in torch.jit.load(str(tmp_path / "model.pt")).code
