"""FastPitch: its arithmetic, the checkpoints it loads, its exports, its metrics, and its micro size."""

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention

from fixtures.data.speech import spectrogram, symbols, synthesiser
from fixtures.errors import InputError, ProofError
from fixtures.models import fastpitch
from fixtures.models.fastpitch import metrics
from fixtures.models.fastpitch import samples as evaluation_data
from fixtures.models.fastpitch.metrics import DURATIONS, FRAME_COUNT, MEL, PITCH
from fixtures.models.fastpitch.samples import SYMBOL_COUNT, SYMBOLS
from fixtures.spec import Arrays, Metric

State = dict[str, torch.Tensor]
FULL, MICRO = fastpitch.MODELS


def reference(
    state: Mapping[str, torch.Tensor], ids: torch.Tensor, count: int, frames: int, heads: int
) -> Any:
    """NVIDIA's network of 2020-05 for one utterance, written apart from the product: ids [T] with padding
    behind `count`, to mel [80, its frames], durations before rounding [count] and pitch [count].

    As in a batch with another utterance of `frames` frames: convolutions see what they themselves make of the
    padding, attention does not.
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


def published_state(width: int = 384, inner: int = 1536, predictor: int = 256, layers: int = 6) -> State:
    """Every key of the published layout in its shape, with random values."""
    generator = torch.Generator().manual_seed(0)
    found: State = {}

    def weight(name: str, outer: int, *inner: int, bias: bool = True) -> None:
        fan_in = int(np.prod(inner))
        found[f"{name}.weight"] = torch.randn(outer, *inner, generator=generator) / fan_in**0.5
        if bias:
            found[f"{name}.bias"] = torch.randn(outer, generator=generator) * 0.1

    def norm(name: str, size: int) -> None:
        found[f"{name}.weight"] = torch.rand(size, generator=generator) * 0.5 + 0.75
        found[f"{name}.bias"] = torch.randn(size, generator=generator) * 0.1

    found["encoder.word_emb.weight"] = torch.randn(148, width, generator=generator)
    for side in ("encoder", "decoder"):
        found[f"{side}.pos_emb.inv_freq"] = 1 / (10000 ** (torch.arange(0.0, width, 2.0) / width))
        for i in range(layers):
            at = f"{side}.layers.{i}"
            weight(f"{at}.dec_attn.qkv_net", 192, width)
            weight(f"{at}.dec_attn.o_net", width, 64, bias=False)
            norm(f"{at}.dec_attn.layer_norm", width)
            weight(f"{at}.pos_ff.CoreNet.0", inner, width, 3)
            weight(f"{at}.pos_ff.CoreNet.2", width, inner, 3)
            norm(f"{at}.pos_ff.layer_norm", width)
    for name in ("duration_predictor", "pitch_predictor"):
        for i, size in enumerate((width, predictor)):
            weight(f"{name}.layers.{i}.conv", predictor, size, 3)
            norm(f"{name}.layers.{i}.norm", predictor)
        weight(f"{name}.fc", 1, predictor)
    weight("pitch_emb", width, 1, 3)
    weight("proj", 80, width)
    found["pitch_mean"], found["pitch_std"] = torch.zeros(1), torch.zeros(1)
    found["duration_predictor.fc.bias"] += 1.5
    return found


def saved(value: object, path: Path) -> Path:
    torch.save(value, path)
    return path


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


# --- arithmetic and checkpoints ----------------------------------------------------------------------------


def test_the_published_layout_gives_the_reference_networks_outputs(tmp_path: Path) -> None:
    state = published_state()
    averaged = {key: value + 1 for key, value in state.items()}
    layout = {
        "epoch": 1500,
        "config": {"n_mel_channels": 80},
        "state_dict": {f"module.{key}": value for key, value in state.items()},
        "ema_state_dict": averaged,
        "optimizer": {"state": {}},
    }
    path = saved(layout, tmp_path / "nvidia_fastpitch_200518.pt")
    weights = fastpitch.load_full(path)
    assert weights.trained
    assert weights.origin == f"nvidia_fastpitch_200518.pt, sha256 {weights.digest[:12]}"
    with torch.inference_mode():
        inputs = evaluation_data.inputs([symbols.encode("Good day, Mrs. Lee!")], 128)
        agrees_with_the_reference(weights.network, state, inputs, heads=1)


@pytest.fixture(scope="module")
def committed() -> Any:
    return MICRO.load(None).network


@pytest.fixture(scope="module")
def state(committed: Any) -> State:
    """The committed weights, by their keys."""
    return {key: value.clone() for key, value in committed.state_dict().items()}


def test_a_batch_gives_what_the_reference_gives_for_each_of_its_texts(committed: Any, state: State) -> None:
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


def refused(path: Path) -> str:
    with pytest.raises(InputError) as raised:
        fastpitch.load_micro(path)
    assert str(path) in str(raised.value)
    return str(raised.value)


def test_a_missing_key_is_named(state: State, tmp_path: Path) -> None:
    lacking = {key: value for key, value in state.items() if key != "proj.bias"}
    assert "misses proj.bias" in refused(saved(lacking, tmp_path / "x.pt"))


def test_an_unexpected_key_is_named(small: Callable[[State], Path]) -> None:
    assert "unexpected speaker_emb.weight" in refused(small({"speaker_emb.weight": torch.zeros(2, 64)}))


def test_a_wrong_shape_is_named(small: Callable[[State], Path]) -> None:
    assert "proj.bias is (40,), expected (80,)" in refused(small({"proj.bias": torch.zeros(40)}))


def test_other_frequencies_of_positions_are_refused(small: Callable[[State], Path]) -> None:
    key = "decoder.pos_emb.inv_freq"
    right = 1 / (10000 ** (torch.arange(0.0, 64, 2.0) / 64))
    assert fastpitch.load_micro(small({key: right, "pitch_mean": torch.zeros(1)})).trained
    assert key in refused(small({key: right * 1.1}))


# --- lengths -----------------------------------------------------------------------------------------------


def one_text(text: str, repeat: int = 1) -> dict[str, np.ndarray]:
    return dict(evaluation_data.inputs([symbols.numbers_of(text)] * repeat, synthesiser.LONGEST))


def test_a_row_without_symbols_gives_no_frames_and_leaves_its_neighbours_alone(committed: Any) -> None:
    inputs = one_text("madin guso.", repeat=3)
    alone = MICRO.run(committed, inputs)
    inputs[SYMBOLS][1], inputs[SYMBOL_COUNT][1] = 0, 0
    outputs = MICRO.run(committed, inputs)
    for name, values in outputs.items():
        assert not values[1].any(), name
        np.testing.assert_allclose(values[[0, 2]], alone[name][[0, 2]], atol=1e-5)


def test_symbols_past_the_given_number_are_not_spoken(committed: Any) -> None:
    more, less = one_text("madin guso."), one_text("madin")
    more[SYMBOL_COUNT][:] = 5
    for name, values in MICRO.run(committed, more).items():
        np.testing.assert_allclose(values, MICRO.run(committed, less)[name], atol=1e-5)


def test_speech_longer_than_the_frames_is_cut_and_its_length_with_it(committed: Any) -> None:
    slow = copy.deepcopy(committed)
    torch.nn.init.zeros_(slow.duration_predictor.fc.weight)
    torch.nn.init.constant_(slow.duration_predictor.fc.bias, np.log(200.0))
    outputs = MICRO.run(slow, one_text("madin"))
    assert outputs[DURATIONS][0, :6].tolist() == [75] * 5 + [0]
    assert outputs[FRAME_COUNT].tolist() == [[128]]
    assert outputs[MEL][0].any(axis=0).all()


@pytest.mark.parametrize(("duration", "frames"), [(2.49, 2), (2.51, 3), (0.4, 0)])
def test_durations_are_rounded(committed: Any, duration: float, frames: int) -> None:
    even = copy.deepcopy(committed)
    torch.nn.init.zeros_(even.duration_predictor.fc.weight)
    torch.nn.init.constant_(even.duration_predictor.fc.bias, np.log1p(duration))
    outputs = MICRO.run(even, one_text("madin"))
    assert outputs[DURATIONS][0, :5].tolist() == [frames] * 5
    assert outputs[FRAME_COUNT].tolist() == [[5 * frames]]


# --- precisions and exports --------------------------------------------------------------------------------


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


# --- random weights and texts ------------------------------------------------------------------------------


def test_random_weights_speak_plausibly_and_are_the_same_every_time() -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first = fastpitch.load_full(None)
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(6)
    second = fastpitch.load_full(None)
    assert not first.trained
    for a, b in zip(first.network.state_dict().values(), second.network.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    inputs = FULL.samples("evaluation", None, None).load([0, 1])
    outputs = FULL.run(first.network, inputs)
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


def test_each_published_gpu_has_the_published_matrix() -> None:
    assert set(FULL.matrices) == {"a40", "a100", "v100", "t4", "gpu", "cpu"}
    for gpu in ("a40", "a100", "v100", "t4"):
        matrix = FULL.matrices[gpu]
        assert matrix.published == ("ts-trace-fp16", "ts-trace-fp32")
        assert (matrix.batches, matrix.concurrencies) == ((1, 2, 4, 8), tuple(range(1, 17)))
        assert (matrix.deployment.max_batch_size, matrix.deployment.instances) == (8, 2)


# --- metrics -----------------------------------------------------------------------------------------------


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


def test_a_length_that_differs_from_the_frameworks_is_an_error_of_the_missing_frames() -> None:
    framework = kept([mel_of(-3, -3, -3, -3)])
    shorter = kept([mel_of(-3, -3, -3)])
    missing = np.log(1e-5) ** 2
    for served in (framework, shorter):
        other = shorter if served is framework else framework
        assert metrics.to_framework(served, None, other) == pytest.approx([missing / 4])
    assert metrics.to_framework(framework, None, framework).tolist() == [0]


def test_frames_past_the_length_do_not_count() -> None:
    a, b = kept([mel_of(1, 2)]), kept([mel_of(1, 2)])
    b[MEL][0, :, 2:] = 7
    assert metrics.to_framework(b, None, a).tolist() == [0]


def test_the_reference_is_compared_frame_by_frame_at_micro_size_and_aligned_at_full_size() -> None:
    served, references = kept([mel_of(1, 1, 2, 4)]), [mel_of(1, 2, 4, 4)]
    metric = {model.name: model.metrics[0] for model in fastpitch.MODELS}
    assert metric["fastpitch-micro"].score(served, references, served) == pytest.approx([(0 + 1 + 4 + 0) / 4])
    assert metric["fastpitch"].score(served, references, served).tolist() == [0]


def test_a_mel_is_in_range_only_if_each_of_its_values_is() -> None:
    mels = [mel_of(-15, 3), mel_of(-15.1, 0), mel_of(0, 3.1), mel_of(0, np.nan), mel_of()]
    outputs = kept(mels)
    assert metrics.in_range(outputs, None, outputs).tolist() == [1, 0, 0, 0, 0]


def test_a_length_that_no_mel_can_have_is_refused() -> None:
    for length in (-1, 7):
        outputs = kept([mel_of(1, 2)])
        outputs[FRAME_COUNT][:] = length
        with pytest.raises(ProofError, match=f"6 frames is said to have {length}"):
            metrics.keep(outputs)
    assert set(metrics.keep(kept([mel_of(1)]))) == {MEL, FRAME_COUNT, DURATIONS}


# --- the micro size ----------------------------------------------------------------------------------------


def test_held_out_utterances_are_never_trained_on_and_fit() -> None:
    splits = {split: evaluation_data.synthesised(split) for split in ("training", "evaluation")}
    assert len(splits["evaluation"]) == 256
    assert len(splits["training"]) == 3000
    assert not {u.text for u in splits["training"]} & {u.text for u in splits["evaluation"]}
    for utterance in (*splits["training"], *splits["evaluation"]):
        assert len(utterance.text) == len(utterance.durations) == len(utterance.pitch) <= 28
        assert utterance.durations.sum() == utterance.mel.shape[1] <= 128


def test_the_synthesiser_speaks_as_its_rules_say() -> None:
    spoken = synthesiser.speak("tadan?")
    assert spoken.durations.tolist() == [2, 5, 2, 7, 3, 6]
    assert spoken.pitch[[0, 5]].tolist() == [0, 0]
    flat = synthesiser.speak("tadan.")
    assert spoken.pitch[3] == pytest.approx(flat.pitch[3] + 1.2)
    # A question sounds different from where its pitch rises on.
    differs = np.abs(spoken.mel - flat.mel).max(axis=0) > 0.1
    assert differs[2:].any()
    assert not differs[0]
    assert spoken.mel.min() == pytest.approx(spectrogram.SILENCE)


def test_the_micro_size_takes_no_data_set(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="takes no data set"):
        MICRO.samples("evaluation", tmp_path, None)


def scores(outputs: Arrays, framework: Arrays) -> dict[str, float]:
    labels = MICRO.samples("evaluation", None, None).labels
    return {m.name: float(m.score(MICRO.keep(outputs), labels, framework).mean()) for m in MICRO.metrics}


def is_met(metric: Metric, score: float, slack: float = 1) -> bool:
    """Whether a score keeps its FP32 limit, multiplied by `slack` where lower is better."""
    limit = metric.limits["fp32"].value
    return score >= limit if metric.better == "higher" else score <= slack * limit


@pytest.fixture(scope="module")
def evaluated(committed: Any) -> Arrays:
    """The committed network's outputs for the whole evaluation part."""
    samples = MICRO.samples("evaluation", None, None)
    return MICRO.run(committed, samples.load(range(len(samples))))


def test_the_committed_weights_keep_every_limit_with_exact_durations(evaluated: Arrays) -> None:
    found = scores(evaluated, evaluated)
    for metric in MICRO.metrics:
        assert is_met(metric, found[metric.name]), metric.name
    for i, utterance in enumerate(evaluation_data.synthesised("evaluation")):
        spoken = evaluated[DURATIONS][i, : len(utterance.text)]
        np.testing.assert_array_equal(spoken, utterance.durations, err_msg=utterance.text)


def faults() -> dict[str, Callable[[dict[str, np.ndarray]], None]]:
    def lost(outputs: dict[str, np.ndarray]) -> None:
        outputs[FRAME_COUNT] = outputs[FRAME_COUNT] - 1

    return {
        "rows in another order": lambda o: o.update({k: np.roll(v, 1, axis=0) for k, v in o.items()}),
        "bands in another order": lambda o: o.update({MEL: o[MEL][:, ::-1]}),
        "one frame late": lambda o: o.update({MEL: np.roll(o[MEL], 1, axis=2)}),
        "one frame lost": lost,
        "louder": lambda o: o.update({MEL: o[MEL] + 0.2}),
    }


@pytest.mark.parametrize("fault", faults())
def test_a_fault_in_the_outputs_misses_the_limits_widely(evaluated: Arrays, fault: str) -> None:
    faulty = dict(evaluated)
    faults()[fault](faulty)
    found = scores(faulty, evaluated)
    first, second, _ = MICRO.metrics
    assert not is_met(first, found[first.name], slack=1.5)
    assert not is_met(second, found[second.name], slack=1000)


def test_weights_perturbed_by_a_twentieth_miss_parity_and_the_limits_widely(
    committed: Any, evaluated: Arrays
) -> None:
    perturbed = copy.deepcopy(committed)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in perturbed.parameters():
            parameter += 0.05 * parameter.std(correction=0) * torch.randn_like(parameter)
    samples = MICRO.samples("evaluation", None, None)
    outputs = MICRO.run(perturbed, samples.load(range(len(samples))))
    found = scores(outputs, evaluated)
    first, second, _ = MICRO.metrics
    assert not is_met(first, found[first.name])
    assert not is_met(second, found[second.name], slack=1000)
    # Conversion parity's relative error may be 1e-4 in FP32.
    assert np.abs(outputs[MEL] - evaluated[MEL]).max() > 1e-2 * np.abs(evaluated[MEL]).max()


def test_a_lost_pitch_is_seen(committed: Any, evaluated: Arrays) -> None:
    monotonous = copy.deepcopy(committed)
    torch.nn.init.zeros_(monotonous.pitch_emb.weight)
    samples = MICRO.samples("evaluation", None, None)
    found = scores(MICRO.run(monotonous, samples.load(range(len(samples)))), evaluated)
    for metric in MICRO.metrics[:2]:
        assert not is_met(metric, found[metric.name], slack=2), metric.name
