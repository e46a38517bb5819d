"""Metrics of FastPitch by hand, and its behaviour without weights or texts."""

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention

from fixtures.data import symbols, synthesiser
from fixtures.errors import InputError, ProofError
from fixtures.frameworks import pytorch
from fixtures.models import fastpitch
from fixtures.models.fastpitch import DURATIONS, FRAME_COUNT, MEL, PITCH, SYMBOL_COUNT, SYMBOLS
from fixtures.models.fastpitch import network as architecture
from fixtures.spec import Arrays
from tests.models import published
from tests.models.published import State, saved

FULL, MICRO = fastpitch.MODELS


def reference(
    state: Mapping[str, torch.Tensor], ids: torch.Tensor, count: int, frames: int, heads: int
) -> Any:
    """NVIDIA's network of 2020-05 for one utterance, written independently of the product: ids [T] with
    padding behind `count`, to mel [80, its frames], durations before rounding [count] and pitch [count].

    As in a batch with another utterance of `frames` frames, convolutions see the padding, attention does not.
    """

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return x @ state[f"{name}.weight"].T + state.get(f"{name}.bias", torch.zeros(1))

    def conv(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.conv1d(x.T[None], state[f"{name}.weight"], state[f"{name}.bias"], padding=1)[0].T

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        centred = x - x.mean(1, keepdim=True)
        scaled = centred / torch.sqrt(centred.square().mean(1, keepdim=True) + 1e-5)
        return scaled * state[f"{name}.weight"] + state[f"{name}.bias"]

    def padded(x: torch.Tensor, length: int) -> torch.Tensor:
        return F.pad(x, (0, 0, 0, length - len(x)))

    def transformer(x: torch.Tensor, length: int, name: str) -> torch.Tensor:
        frequencies = 1 / (10000 ** (torch.arange(0.0, x.size(1), 2.0) / x.size(1)))
        angles = torch.arange(float(len(x)))[:, None] * frequencies
        x = x + torch.cat([angles.sin(), angles.cos()], 1)
        for i in range(sum(key.startswith(f"{name}.layers.") and "qkv_net.bias" in key for key in state)):
            at = f"{name}.layers.{i}"
            q, k, v = linear(x, f"{at}.dec_attn.qkv_net").chunk(3, 1)
            size = q.size(1) // heads
            parts = [slice(h * size, (h + 1) * size) for h in range(heads)]
            mixed = [torch.softmax(q[:, p] @ k[:, p].T / size**0.5, 1) @ v[:, p] for p in parts]
            x = norm(x + linear(torch.cat(mixed, 1), f"{at}.dec_attn.o_net"), f"{at}.dec_attn.layer_norm")
            inner = torch.relu(conv(padded(x, length), f"{at}.pos_ff.CoreNet.0"))
            x = x + conv(inner, f"{at}.pos_ff.CoreNet.2")[: len(x)]
            x = norm(x, f"{at}.pos_ff.layer_norm")
        return x

    def predictor(x: torch.Tensor, name: str) -> torch.Tensor:
        for i in range(2):
            x = norm(torch.relu(conv(x, f"{name}.layers.{i}.conv")), f"{name}.layers.{i}.norm")
        return linear(x, f"{name}.fc")[:count, 0]

    x = transformer(state["encoder.word_emb.weight"][ids[:count]], len(ids), "encoder")
    durations = (predictor(padded(x, len(ids)), "duration_predictor").exp() - 1).clamp(0, 75)
    pitch = predictor(padded(x, len(ids)), "pitch_predictor")
    x = x + conv(padded(pitch[:, None], len(ids)), "pitch_emb")[:count]
    spoken = torch.repeat_interleave(x, (durations + 0.5).long(), dim=0)
    return linear(transformer(spoken, frames, "decoder"), "proj").T, durations, pitch


def agrees_with_the_reference(network: Any, state: State, inputs: Arrays, heads: int) -> None:
    outputs = MICRO.run(network, inputs)
    for row, (ids, [count]) in enumerate(zip(inputs[SYMBOLS], inputs[SYMBOL_COUNT], strict=True)):
        mel, durations, pitch = reference(
            state, torch.from_numpy(ids), int(count), outputs[MEL].shape[2], heads
        )
        frames = mel.shape[1]
        assert outputs[FRAME_COUNT][row].tolist() == [frames]
        np.testing.assert_array_equal(outputs[DURATIONS][row, :count], (durations + 0.5).long())
        np.testing.assert_allclose(outputs[PITCH][row, :count], pitch, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(outputs[MEL][row, :, :frames], mel, rtol=1e-3, atol=1e-3)
        assert not outputs[MEL][row, :, frames:].any()
        assert not outputs[DURATIONS][row, count:].any()


def test_published_layout_matches_reference_outputs(tmp_path: Path) -> None:
    """With the published network's one head, and narrower: 64 wide, two layers of six."""
    layout = published.shrunk(published.layout("fastpitch"), {384: 64, 1536: 128, 256: 64}, layers=2)
    state = {key: value for key, value in published.drawn(layout).items() if "inv_freq" not in key}
    state["duration_predictor.fc.bias"] += 1.5  # some frames for each symbol
    small = architecture.FULL | {"frames": 256, "width": 64, "inner": 128, "predictor": 64, "layers": 2}
    network = architecture.network(**small)
    weights = {key: value for key, value in state.items() if key not in ("pitch_mean", "pitch_std")}
    pytorch.load_strictly(network, weights, tmp_path)
    with torch.inference_mode():
        inputs = fastpitch.inputs([symbols.encode("Good day, Mrs. Lee!")], 128)
        agrees_with_the_reference(network.eval(), state, inputs, heads=1)


@pytest.fixture(scope="module")
def committed() -> Any:
    return MICRO.load(None).network


@pytest.fixture(scope="module")
def state(committed: Any) -> State:
    """The committed weights, by their keys."""
    return {key: value.clone() for key, value in committed.state_dict().items()}


def test_batch_matches_reference_for_each_text(committed: Any, state: State) -> None:
    """Two heads, texts of different lengths."""
    with torch.inference_mode():
        agrees_with_the_reference(
            committed, state, MICRO.samples("evaluation", None, None).load(range(6)), heads=2
        )


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, state: State) -> Callable[[State], Path]:
    """Saves changes to the committed weights as a checkpoint."""
    folder = tmp_path_factory.mktemp("checkpoints")
    return lambda changes: saved({"state_dict": {**state, **changes}}, folder / "x.pt")


def test_other_position_frequencies_are_refused(small: Callable[[State], Path]) -> None:
    key = "decoder.pos_emb.inv_freq"
    right = 1 / (10000 ** (torch.arange(0.0, 64, 2.0) / 64))
    assert fastpitch.load_micro(small({key: right, "pitch_mean": torch.zeros(1)})).trained
    path = small({key: right * 1.1})
    with pytest.raises(InputError, check=lambda error: error.where == str(path) and key in error.what):
        fastpitch.load_micro(path)


# --- lengths -----------------------------------------------------------------------------------------------


def one_text(text: str, repeat: int = 1) -> dict[str, np.ndarray]:
    return dict(fastpitch.inputs([symbols.numbers_of(text)] * repeat, synthesiser.LONGEST))


def test_empty_row_gives_no_frames(committed: Any) -> None:
    inputs = one_text("madin guso.", repeat=3)
    alone = MICRO.run(committed, inputs)
    inputs[SYMBOLS][1], inputs[SYMBOL_COUNT][1] = 0, 0
    outputs = MICRO.run(committed, inputs)
    for name, values in outputs.items():
        assert not values[1].any(), name
        np.testing.assert_allclose(values[[0, 2]], alone[name][[0, 2]], atol=1e-5)


def test_too_long_speech_and_its_length_are_cut(committed: Any) -> None:
    slow = copy.deepcopy(committed)
    torch.nn.init.zeros_(slow.duration_predictor.fc.weight)
    torch.nn.init.constant_(slow.duration_predictor.fc.bias, np.log(200.0))
    outputs = MICRO.run(slow, one_text("madin"))
    assert outputs[DURATIONS][0, :6].tolist() == [75] * 5 + [0]
    assert outputs[FRAME_COUNT].tolist() == [[128]]
    assert outputs[MEL][0].any(axis=0).all()


@pytest.mark.parametrize(("duration", "frames"), [(2.49, 2), (2.51, 3), (0.4, 0)])
def test_durations_are_rounded_before_summing(committed: Any, duration: float, frames: int) -> None:
    """As in NVIDIA's TorchScript form; the eager form of its commit sums durations with a half added."""
    even = copy.deepcopy(committed)
    torch.nn.init.zeros_(even.duration_predictor.fc.weight)
    torch.nn.init.constant_(even.duration_predictor.fc.bias, np.log1p(duration))
    outputs = MICRO.run(even, one_text("madin"))
    assert outputs[DURATIONS][0, :5].tolist() == [frames] * 5
    assert outputs[FRAME_COUNT].tolist() == [[5 * frames]]


# --- metrics, random weights and invented texts --------------------------------------------------------------


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


def test_impossible_mel_length_is_refused() -> None:
    for length in (-1, 7):
        outputs = kept([mel_of(1, 2)])
        outputs[FRAME_COUNT][:] = length
        with pytest.raises(ProofError, check=lambda error: FRAME_COUNT in error.where):
            fastpitch.keep(outputs)
    assert set(fastpitch.keep(kept([mel_of(1)]))) == {MEL, FRAME_COUNT, DURATIONS}


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
