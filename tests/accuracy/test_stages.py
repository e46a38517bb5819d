"""Evaluation in process: every sample counts, and wrong outputs are errors."""

from typing import Any

import numpy as np
import pytest
import torch

from fixtures.accuracy.stages import evaluate_in_process, reference_on
from fixtures.errors import AccuracyError
from fixtures.frameworks.pytorch_conversion import network_and_inputs
from fixtures.models import all_models
from fixtures.spec import Arrays, ConversionJob
from tests import toy

COUNT = 40
ELSEWHERE: Any = "meta"
"""PyTorch's device without memory, in place of a GPU."""


@pytest.mark.parametrize("batch", [1, 7, 40, 64])
def test_every_sample_counts_at_any_batch_size(batch: int) -> None:
    samples = toy.samples(COUNT)

    stage = evaluate_in_process("framework", toy.model(), toy.network, samples, batch)

    assert stage.decisions.tolist() == samples.labels.tolist()
    assert len(stage.kept["classes"]) == COUNT


def test_dropped_sample_is_an_error() -> None:
    def dropping(inputs: Arrays) -> Arrays:
        return {toy.OUTPUT: inputs[toy.INPUT][1:]}

    with pytest.raises(AccuracyError, check=lambda error: toy.OUTPUT in error.where):
        evaluate_in_process("converted", toy.model(), dropping, toy.samples(COUNT), 8)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("stage", ["framework", "converted"])
def test_nonfinite_value_names_stage_output_and_sample(stage: str, value: float) -> None:
    with pytest.raises(AccuracyError) as caught:
        evaluate_in_process(stage, toy.model(), toy.spoilt(value), toy.samples(8), 8)

    assert stage in caught.value.what
    assert (toy.OUTPUT in caught.value.where, "toy-007" in caught.value.where) == (True, True)


def test_changed_row_length_names_output_and_sample() -> None:
    """The network selects by its data, so the first samples do not show it."""

    def selecting(inputs: Arrays) -> Arrays:
        width = 2 if (inputs[toy.INPUT] == last).all() else 3
        return {toy.OUTPUT: inputs[toy.INPUT][:, :width]}

    samples = toy.samples(9)
    last = samples.load([8])[toy.INPUT]
    with pytest.raises(AccuracyError) as caught:
        evaluate_in_process("framework", toy.model(), selecting, samples, 8, with_outputs=True)

    assert toy.OUTPUT in caught.value.where
    assert str(samples.ids[8]) in caught.value.what


@pytest.mark.parametrize("is_built_anew", [True, False], ids=["built anew", "reused"])
@pytest.mark.parametrize("device", ["cpu", ELSEWHERE])
def test_reference_runs_on_device_for_new_and_reused_builds(device: Any, is_built_anew: bool) -> None:
    def places(network: torch.nn.Module) -> set[str]:
        return {str(tensor.device) for tensor in network.state_dict().values()}

    model = next(model for model in all_models() if model.name == "resnet50-micro")
    weights = model.load(None)
    if is_built_anew:
        job = ConversionJob(model, weights.network, "fp32", None, ELSEWHERE, 8, None, lambda _step: None)
        network_and_inputs(job)
    reference = reference_on(device, model, weights)
    assert places(reference.network) == {str(device)}
    assert {tensor.dtype for tensor in reference.network.parameters()} == {torch.float32}
    assert places(weights.network) == {"cpu"}
    assert (reference.origin, reference.digest) == (weights.origin, weights.digest)
    assert device != "cpu" or reference.network is weights.network, "a copy would take its memory twice"
