"""Metrics of FastPitch by hand, and its behaviour without weights or texts."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.data.mels import mel_of
from tests.models import nvidia_checkpoints
from tritonproof.base.errors import ProofError
from tritonproof.data import symbols, synthetic_speech
from tritonproof.frameworks import pytorch
from tritonproof.models import fastpitch
from tritonproof.models.fastpitch import DURATIONS, FRAME_COUNT, MEL, PITCH, SYMBOL_COUNT, SYMBOLS
from tritonproof.models.fastpitch import network as architecture

FULL, MICRO = fastpitch.MODELS


@pytest.mark.parametrize("heads", [1, 2])
def test_published_layout_matches_recorded_outputs(heads: int, tmp_path: Path) -> None:
    """Narrower than published, 64 wide and two layers of six, for a batch of texts of different lengths."""
    published, sizes = nvidia_checkpoints.layout("fastpitch"), {384: 64, 1536: 128, 256: 64}
    layout = nvidia_checkpoints.shrunk(published, sizes, layers=2)
    state = {key: value for key, value in nvidia_checkpoints.drawn(layout).items() if "inv_freq" not in key}
    state["duration_predictor.fc.bias"] += 1.5  # some frames for each symbol
    small = {"frames": 256, "width": 64, "inner": 128, "predictor": 64, "layers": 2}
    network = architecture.network(architecture.FULL._replace(**small, heads=heads, head_width=64 // heads))
    weights = {key: value for key, value in state.items() if key not in ("pitch_mean", "pitch_std")}
    pytorch.load_strictly(network, weights, tmp_path)
    texts = ("Good day, Mr. Lee!", "a", "In 1900 they were here.")
    inputs = fastpitch.inputs([symbols.encode(text) for text in texts], 128)
    outputs = MICRO.infer(network.eval(), inputs)
    for row, recorded in enumerate(nvidia_checkpoints.RECORDED[f"fastpitch, heads {heads}"]):
        durations, count = recorded["durations"], len(recorded["durations"])
        frames = sum(durations)
        assert outputs[FRAME_COUNT][row].tolist() == [frames]
        assert outputs[DURATIONS][row, :count].tolist() == durations
        np.testing.assert_allclose(outputs[PITCH][row, :count:4], recorded["pitch"], atol=1e-3)
        np.testing.assert_allclose(outputs[MEL][row, ::20, :frames:7], recorded["mel"], atol=2e-3)
        assert not outputs[MEL][row, :, frames:].any()
        assert not outputs[DURATIONS][row, count:].any()


@pytest.fixture(scope="module")
def committed() -> Any:
    return MICRO.load_weights(None).network


def one_text(text: str, repeat: int = 1) -> dict[str, np.ndarray]:
    return dict(fastpitch.inputs([symbols.numbers_of(text)] * repeat, synthetic_speech.MAX_SYMBOLS))


def test_empty_row_gives_no_frames(committed: Any) -> None:
    inputs = one_text("madin guso.", repeat=3)
    alone = MICRO.infer(committed, inputs)
    inputs[SYMBOLS][1], inputs[SYMBOL_COUNT][1] = 0, 0
    outputs = MICRO.infer(committed, inputs)
    for name, values in outputs.items():
        assert not values[1].any(), name
        np.testing.assert_allclose(values[[0, 2]], alone[name][[0, 2]], atol=1e-5)


@pytest.mark.parametrize(
    ("duration", "frames", "total"), [(2.49, 2, 10), (2.51, 3, 15), (0.4, 0, 0), (199, 75, 128)]
)
def test_durations_are_rounded_before_summing_and_too_long_speech_is_cut(
    committed: Any, duration: float, frames: int, total: int
) -> None:
    """As in NVIDIA's TorchScript form; the eager form of its commit sums durations with a half added."""
    even = copy.deepcopy(committed)
    torch.nn.init.zeros_(even.duration_predictor.fc.weight)
    torch.nn.init.constant_(even.duration_predictor.fc.bias, np.log1p(duration))
    outputs = MICRO.infer(even, one_text("madin"))
    assert outputs[DURATIONS][0, :6].tolist() == [frames] * 5 + [0]
    assert outputs[FRAME_COUNT].tolist() == [[total]]
    assert outputs[MEL][0].any(axis=0).sum() == total


def kept(mels: list[np.ndarray], frames: int = 6) -> dict[str, np.ndarray]:
    padded = [np.pad(mel, ((0, 0), (0, frames - mel.shape[1]))) for mel in mels]
    counts = np.array([[mel.shape[1]] for mel in mels])
    durations = np.zeros((len(mels), 4), np.int64)
    return {MEL: np.stack(padded), FRAME_COUNT: counts, DURATIONS: durations, PITCH: counts * 0.0}


def test_missing_frames_are_an_error_against_framework() -> None:
    framework, shorter = kept([mel_of(-3, -3, -3, -3)]), kept([mel_of(-3, -3, -3)])
    missing = pytest.approx([np.log(1e-5) ** 2 / 4])
    assert fastpitch.to_framework(framework, None, shorter) == missing
    assert fastpitch.to_framework(shorter, None, framework) == missing


def test_only_full_size_aligns_frames_with_reference() -> None:
    served, references = kept([mel_of(1, 1, 2, 4)]), [mel_of(1, 2, 4, 4)]
    assert MICRO.metrics[0].score(served, references, served) == pytest.approx([(0 + 1 + 4 + 0) / 4])
    assert FULL.metrics[0].score(served, references, served).tolist() == [0]


def test_mel_is_in_range_only_if_every_value_is() -> None:
    mels = [mel_of(-15, 3), mel_of(-15.1, 0), mel_of(0, 3.1), mel_of(0, np.nan), mel_of()]
    outputs = kept(mels)
    assert fastpitch.in_range(outputs, None, outputs).tolist() == [1, 0, 0, 0, 0]


def test_impossible_mel_length_is_refused() -> None:
    for length in (-1, 7):
        outputs = kept([mel_of(1, 2)])
        outputs[FRAME_COUNT][:] = length
        with pytest.raises(ProofError, check=lambda error: FRAME_COUNT in error.where):
            fastpitch.keep(outputs)
    assert set(fastpitch.keep(kept([mel_of(1)]))) == {MEL, FRAME_COUNT, DURATIONS}


def test_random_weights_speak_plausibly() -> None:
    inputs = FULL.samples("evaluation", None, None).read([0, 1])
    outputs = FULL.infer(FULL.load_weights(None).network, inputs)
    spoken = outputs[DURATIONS][inputs[SYMBOLS] > 0]
    assert 2 <= np.quantile(spoken, 0.02) < np.quantile(spoken, 0.98) <= 8
    assert fastpitch.in_range(outputs, None, outputs).tolist() == [1, 1]
    assert 1 < outputs[MEL][outputs[MEL] != 0].std() < 3


def test_synthetic_texts_have_real_symbols_and_many_lengths() -> None:
    texts = {}
    for split in ("evaluation", "training"):
        samples = FULL.samples(split, None, None)
        assert samples.labels is None
        inputs = samples.read(range(len(samples)))
        counts = inputs[SYMBOL_COUNT].ravel()
        assert (len(counts), counts.min(), counts.max()) == (64, 60, 128)
        np.testing.assert_array_equal((inputs[SYMBOLS] > 0).sum(axis=1), counts)
        texts[split] = {row.tobytes() for row in inputs[SYMBOLS]}
    assert len(texts["evaluation"]) == 64
    assert not texts["evaluation"] & texts["training"]
