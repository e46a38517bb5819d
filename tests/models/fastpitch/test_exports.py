"""FastPitch in lower precisions and other forms, and what it says without weights or texts of a user's."""

import copy
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from fixtures.models import fastpitch
from fixtures.models.fastpitch import metrics
from fixtures.models.fastpitch.metrics import DURATIONS, FRAME_COUNT, MEL, PITCH
from fixtures.models.fastpitch.samples import SYMBOL_COUNT, SYMBOLS

FULL, MICRO = fastpitch.MODELS


@pytest.fixture(scope="module")
def committed() -> Any:
    return MICRO.load(None).network


@pytest.mark.parametrize(("precision", "error"), [(torch.float16, 2e-3), (torch.bfloat16, 2e-2)])
def test_lower_precisions_take_and_give_the_same_types(
    committed: Any, precision: torch.dtype, error: float
) -> None:
    inputs = MICRO.samples("evaluation", None, None).load(range(4))
    expected = MICRO.run(committed, inputs)
    outputs = MICRO.run(copy.deepcopy(committed).to(precision), inputs)
    for name, values in outputs.items():
        assert values.dtype == expected[name].dtype
        largest = np.abs(expected[name]).max()
        np.testing.assert_allclose(values, expected[name], atol=error * largest, err_msg=name)
    assert np.abs(outputs[MEL] - expected[MEL]).max() > 0


@pytest.mark.filterwarnings("ignore:# The axis name")  # the exporter's, of an axis named as it is
@pytest.mark.parametrize("form", ["trace", "script", "export", "onnx"])
def test_every_export_gives_the_networks_outputs_at_another_batch_size(committed: Any, form: str) -> None:
    inputs = MICRO.samples("evaluation", None, None).load(range(5))
    tensors = tuple(torch.from_numpy(array) for array in inputs.values())
    example = tuple(tensor[:2] for tensor in tensors)
    batch = torch.export.Dim("batch", min=1, max=8)
    shapes: Any = ({0: batch}, {0: batch})
    found: Any
    with torch.inference_mode(mode=form != "export"), torch.no_grad():
        if form == "trace":
            found = torch.jit.freeze(torch.jit.trace(committed, example))(*tensors)
        elif form == "script":
            found = torch.jit.freeze(torch.jit.script(committed))(*tensors)
        elif form == "export":
            found = torch.export.export(committed, example, dynamic_shapes=shapes).module()(*tensors)
        else:
            program: Any = torch.onnx.export(
                committed,
                example,
                input_names=[tensor.name for tensor in MICRO.inputs],
                dynamic_shapes=shapes,
                dynamo=True,
                verbose=False,
            )
            session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
            found = session.run(None, dict(inputs))
    outputs = dict(zip((MEL, FRAME_COUNT, DURATIONS, PITCH), map(np.asarray, found), strict=True))
    for tensor, (name, expected) in zip(MICRO.outputs, MICRO.run(committed, inputs).items(), strict=True):
        assert tensor.name == name
        assert outputs[name].shape == expected.shape == (5, *tensor.shape)
        assert outputs[name].dtype == expected.dtype == {"FP32": np.float32, "INT64": np.int64}[tensor.dtype]
        np.testing.assert_allclose(outputs[name], expected, atol=1e-4 * np.abs(expected).max())


def test_random_weights_speak_plausibly() -> None:
    inputs = FULL.samples("evaluation", None, None).load([0, 1])
    outputs = FULL.run(FULL.load(None).network, inputs)
    spoken = outputs[DURATIONS][inputs[SYMBOLS] > 0]
    assert 2 <= np.quantile(spoken, 0.02) < np.quantile(spoken, 0.98) <= 8
    assert metrics.in_range(outputs, None, outputs).tolist() == [1, 1]
    assert 1 < outputs[MEL][outputs[MEL] != 0].std() < 3


def test_texts_without_a_data_set_are_real_symbols_of_many_lengths() -> None:
    splits = {split: FULL.samples(split, None, None) for split in ("evaluation", "training")}
    texts = {}
    for split, samples in splits.items():
        assert samples.labels is None
        inputs = samples.load(range(len(samples)))
        assert inputs[SYMBOLS].dtype == inputs[SYMBOL_COUNT].dtype == np.int64
        assert inputs[SYMBOL_COUNT].shape == (64, 1)
        assert sorted({60, 128} & set(inputs[SYMBOL_COUNT].ravel())) == [60, 128]
        np.testing.assert_array_equal((inputs[SYMBOLS] > 0).sum(axis=1), inputs[SYMBOL_COUNT].ravel())
        texts[split] = {row.tobytes() for row in inputs[SYMBOLS]}
    assert len(texts["evaluation"]) == 64
    assert not texts["evaluation"] & texts["training"]
