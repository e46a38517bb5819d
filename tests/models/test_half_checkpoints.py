"""Parity in FP32 detects a checkpoint that was rounded to half precision."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

from fixtures.formats import all_formats
from fixtures.host.targets import CPU
from fixtures.models import all_models
from fixtures.spec import Case, Model
from reports.text.correctness import conversion_failure
from tests.toy import compare_conversion

MICRO = [model for model in all_models() if model.micro and model.name != "nnunet-micro"]
"""Not nnU-Net: its only output is classes, and half the digits change three of 786,432."""
ONNX = next(format_ for format_ in all_formats() if format_.mnemonic == "onnx")


def in_half_digits(network: Any) -> Any:
    """The network in FP32, with weights as a checkpoint in FP16 keeps them."""
    if isinstance(network, torch.nn.Module):
        other = copy.deepcopy(network)
        # Not network.half(), which also rounds tables that no checkpoint has.
        state = {name: value.half().to(value.dtype) for name, value in network.state_dict().items()}
        other.load_state_dict(state)
        return other
    import keras

    other = keras.models.clone_model(network)
    other.set_weights([value.astype(np.float16).astype(value.dtype) for value in network.get_weights()])
    return other


QUICK = "fastpitch-micro"
"""The model of every run; the others take minutes."""
MODELS = [
    pytest.param(model, id=model.name, marks=[] if model.name == QUICK else [pytest.mark.campaign])
    for model in MICRO
]


@pytest.mark.parametrize("model", MODELS)
def test_weights_rounded_to_half_precision_fail_fp32_parity(model: Model) -> None:
    weights = model.load(None)
    case = Case(CPU, model, ONNX, None, "fp32")
    samples = model.samples("evaluation", None, None)

    def converted(network: Any) -> str | None:
        return conversion_failure(
            compare_conversion(case, weights, lambda inputs: model.run(network, inputs), samples, 16)
        )

    assert converted(weights.network) is None
    assert converted(in_half_digits(weights.network)) is not None
