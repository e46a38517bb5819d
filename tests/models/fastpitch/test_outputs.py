"""FastPitch in lower precisions, and what it says without weights or texts of a user's."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

from fixtures.models import fastpitch
from fixtures.models.fastpitch import metrics
from fixtures.models.fastpitch.metrics import DURATIONS, MEL
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
