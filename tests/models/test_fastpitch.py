"""Metrics of FastPitch by hand, and its behaviour without weights or texts."""

import numpy as np
import pytest

from fixtures.errors import ProofError
from fixtures.models import fastpitch
from fixtures.models.fastpitch import DURATIONS, FRAME_COUNT, MEL, PITCH, SYMBOL_COUNT, SYMBOLS

FULL, MICRO = fastpitch.MODELS


def kept(mels: list[np.ndarray], frames: int = 6) -> dict[str, np.ndarray]:
    padded = [np.pad(mel, ((0, 0), (0, frames - mel.shape[1]))) for mel in mels]
    counts = np.array([[mel.shape[1]] for mel in mels])
    return {
        MEL: np.stack(padded),
        FRAME_COUNT: counts,
        DURATIONS: np.zeros((len(mels), 4), np.int64),
        PITCH: counts * 0.0,
    }


def mel_of(*values: float) -> np.ndarray:
    return np.repeat(np.array([values], np.float32), 80, axis=0)


def test_missing_frames_are_an_error_against_framework() -> None:
    framework = kept([mel_of(-3, -3, -3, -3)])
    shorter = kept([mel_of(-3, -3, -3)])
    missing = np.log(1e-5) ** 2
    for served in (framework, shorter):
        other = shorter if served is framework else framework
        assert fastpitch.to_framework(served, None, other) == pytest.approx([missing / 4])
    assert fastpitch.to_framework(framework, None, framework).tolist() == [0]


def test_only_full_size_aligns_frames_with_reference() -> None:
    served, references = kept([mel_of(1, 1, 2, 4)]), [mel_of(1, 2, 4, 4)]
    assert MICRO.metrics[0].score(served, references, served) == pytest.approx([(0 + 1 + 4 + 0) / 4])
    assert FULL.metrics[0].score(served, references, served).tolist() == [0]


def test_mel_is_in_range_only_if_every_value_is() -> None:
    mels = [mel_of(-15, 3), mel_of(-15.1, 0), mel_of(0, 3.1), mel_of(0, np.nan), mel_of()]
    outputs = kept(mels)
    assert fastpitch.in_range(outputs, None, outputs).tolist() == [1, 0, 0, 0, 0]


def test_random_weights_speak_plausibly() -> None:
    inputs = FULL.samples("evaluation", None, None).load([0, 1])
    outputs = FULL.run(FULL.load(None).network, inputs)
    spoken = outputs[DURATIONS][inputs[SYMBOLS] > 0]
    assert 2 <= np.quantile(spoken, 0.02) < np.quantile(spoken, 0.98) <= 8
    assert fastpitch.in_range(outputs, None, outputs).tolist() == [1, 1]
    assert 1 < outputs[MEL][outputs[MEL] != 0].std() < 3


def test_invented_texts_have_real_symbols_and_many_lengths() -> None:
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


def test_impossible_mel_length_is_refused() -> None:
    for length in (-1, 7):
        outputs = kept([mel_of(1, 2)])
        outputs[FRAME_COUNT][:] = length
        with pytest.raises(ProofError, check=lambda error: FRAME_COUNT in error.where):
            fastpitch.keep(outputs)
    assert set(fastpitch.keep(kept([mel_of(1)]))) == {MEL, FRAME_COUNT, DURATIONS}
