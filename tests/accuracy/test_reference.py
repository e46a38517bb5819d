"""The framework's model that others are compared with: on their device, whatever was converted before."""

from typing import Any

import pytest
import torch

from fixtures.accuracy.reference import reference_on
from fixtures.frameworks.pytorch_conversion import network_and_inputs
from fixtures.models import all_models
from fixtures.spec import ConversionJob

ELSEWHERE: Any = "meta"
"""PyTorch's device without memory, which stands for a GPU."""
MODELS = {model.name: model for model in all_models()}


def places(network: torch.nn.Module) -> set[str]:
    return {str(tensor.device) for tensor in network.state_dict().values()}


@pytest.mark.parametrize("is_built_anew", [True, False], ids=["built anew", "reused"])
@pytest.mark.parametrize("device", ["cpu", ELSEWHERE])
def test_the_reference_is_on_the_device_whether_a_build_is_new_or_reused(
    device: Any, is_built_anew: bool
) -> None:
    model = MODELS["resnet50-micro"]
    weights = model.load(None)
    if is_built_anew:
        network_and_inputs(
            ConversionJob(model, weights.network, "fp32", None, ELSEWHERE, 8, None, lambda _step: None)
        )
    reference = reference_on(device, model, weights)
    assert places(reference.network) == {str(device)}
    assert {tensor.dtype for tensor in reference.network.parameters()} == {torch.float32}
    assert places(weights.network) == {"cpu"}
    assert (reference.origin, reference.digest) == (weights.origin, weights.digest)
    assert device != "cpu" or reference.network is weights.network, "a copy would take its memory twice"
