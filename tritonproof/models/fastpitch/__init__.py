"""FastPitch 1.0 for text to mel spectrograms: LJSpeech at full size, a parametric synthesiser at micro size.

Architecture, names, text processing and checkpoint layout are those of NVIDIA DeepLearningExamples,
PyTorch/SpeechSynthesis/FastPitch, of May 2020, as published with the Triton deployment of 2021.

Each duration is rounded to whole frames, as in `regulate_len` of the first release (6d72839a,
fastpitch/model.py) and in the TorchScript form that the Triton deployment publishes (afe00719,
fastpitch/model_jit.py). The eager form of that commit adds up unrounded durations plus a half, so the same
text takes 755 frames, not 693, until 8d8c524d fixes it five weeks later. NVIDIA published and measured the
rounded form, the training's whole durations require it, and only in it each frame belongs to one symbol.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from tritonproof.base.errors import ProofError
from tritonproof.data import ljspeech, spectrogram, symbols, synthetic_speech
from tritonproof.frameworks import pytorch
from tritonproof.models import _shared
from tritonproof.models.fastpitch import network
from tritonproof.models.fastpitch.network import FULL, MICRO
from tritonproof.record.correctness import Limit
from tritonproof.record.sample_files import SamplePart
from tritonproof.spec import Arrays, Metric, NetworkModel, Samples, ServingProfile, Split, Tensor

SYMBOLS, SYMBOL_COUNT = "INPUT__0", "INPUT__1"
"""The names of the model's inputs: the numbers of a text's symbols, and their count."""
MEL, FRAME_COUNT, DURATIONS, PITCH = "OUTPUT__0", "OUTPUT__1", "OUTPUT__2", "OUTPUT__3"
LOWEST, HIGHEST = -15.0, 3.0
"""The range NVIDIA's triton/metrics.py allows; LJSpeech's own mels are in -11.5 to 2.06."""

# --- texts -------------------------------------------------------------------------------------------------

_TEXTS = 64
_SENTENCES = (
    "The library closes at seven on weekdays, and at noon on Saturdays.",
    "Would you rather take the early train, or wait for your sister?",
    "Nobody had expected the river to rise so quickly.",
    "She kept the letters in a drawer, tied with a blue ribbon.",
    "After the storm, the harbour was quiet again.",
    "It takes about twenty minutes to walk from the station to the old mill.",
    "Please leave the keys on the table when you go.",
    "His answer, though brief, was enough to settle the question.",
    "Why does the bread from that bakery always taste better?",
    "Most of the village still speaks the dialect of their grandparents.",
    "A thin layer of snow covered the fields; the road was clear.",
    "They measured the depth of the well with a rope and a stone.",
)


def speech(split: Split, dataset: Path | None, _checkpoint: Path | None = None) -> Samples:
    """LJSpeech 1.1 below `dataset`, in texts of at most 128 symbols: the published test part to evaluate, and
    the rest to train. Without a data set: sentences in turn, cut at 60 to 128 symbols, without references."""
    if dataset is None:
        first = 0 if split == "evaluation" else _TEXTS
        ids = [f"text-{first + i:03d}" for i in range(_TEXTS)]
        return Samples(ids, lambda rows: inputs([_text(first + i) for i in rows], FULL.symbols))
    recordings = ljspeech.recordings(dataset, split, FULL.symbols)
    return Samples(
        ids=[recording.path.stem for recording in recordings],
        read=lambda rows: inputs([recordings[i].text for i in rows], FULL.symbols),
        labels=ljspeech.Spectrograms(tuple(recording.path for recording in recordings)),
    )


def _text(number: int) -> Sequence[int]:
    """The symbol numbers of a text. The first 128 texts differ in their first sentence or their length."""
    shortest = 60
    first = number % len(_SENTENCES)
    length = shortest + 37 * number % (FULL.symbols - shortest + 1)
    return symbols.encode(" ".join(_SENTENCES[first:] + _SENTENCES[:first]))[:length]


def inputs(texts: Sequence[Sequence[int]], length: int) -> Arrays:
    """The model's inputs for texts of symbol numbers, padded to `length`."""
    numbers, counts = symbols.padded(texts, length)
    return {SYMBOLS: numbers, SYMBOL_COUNT: counts}


def micro_texts(split: Split) -> Samples:
    """Syllabic texts of at most 28 symbols, with the synthesiser's mel spectrograms as reference."""
    utterances = synthetic_speech.utterances(split)
    texts = [symbols.numbers_of(utterance.text) for utterance in utterances]
    return Samples(
        ids=[f"utterance-{i:04d}" for i in range(len(utterances))],
        read=lambda rows: inputs([texts[i] for i in rows], synthetic_speech.MAX_SYMBOLS),
        labels=tuple(utterance.mel for utterance in utterances),
    )


def keep(outputs: Arrays) -> Arrays:
    """Mels, their lengths and the durations. Raises ProofError for a length that no mel can have."""
    counts, frames = outputs[FRAME_COUNT], outputs[MEL].shape[2]
    wrong = (counts < 0) | (counts > frames)
    if wrong.any():
        raise ProofError(f"a mel of {frames} frames claims {counts[wrong][0]}", where=f"output {FRAME_COUNT}")
    return {name: outputs[name] for name in (MEL, FRAME_COUNT, DURATIONS)}


def mels(kept: Arrays) -> list[np.ndarray]:
    """Each row's mel up to its length, [80, frames]."""
    return [mel[:, :count] for mel, count in zip(kept[MEL], kept[FRAME_COUNT].ravel(), strict=True)]


def _to_reference(
    distance: Callable[[np.ndarray, np.ndarray], float],
    kept: Arrays,
    references: Iterable[np.ndarray],
    _framework: Arrays,
) -> np.ndarray:
    pairs = zip(mels(kept), references, strict=True)
    return np.array([distance(mel, reference) for mel, reference in pairs])


to_reference = functools.partial(_to_reference, spectrogram.frame_by_frame)
"""Mean squared difference to each reference, frame by frame, lengths included."""
to_aligned_reference = functools.partial(_to_reference, spectrogram.aligned)
"""Mean squared difference to each reference along the best alignment in time."""


def to_framework(kept: Arrays, _references: object, framework: Arrays) -> np.ndarray:
    """Mean squared difference to each of the framework's mels, frame by frame, lengths included."""
    return to_reference(kept, mels(framework), framework)


def in_range(kept: Arrays, _references: object, _framework: Arrays) -> np.ndarray:
    """1 for each mel that has frames, all finite and in the range, else 0. NVIDIA's check ignores NaN."""
    within = [mel.size > 0 and ((mel >= LOWEST) & (mel <= HIGHEST)).all() for mel in mels(kept)]
    return np.array(within, np.float64)


# No figure is published for free-running mels against recordings. Between NVIDIA's published samples of a
# sentence, aligned, another tempo makes 0.5, a flattened or inverted pitch 1.7 to 2.3; other words 7.5.
_LJSPEECH_LIMIT = Limit(3.0, "above 2.3, an inverted pitch in NVIDIA's samples, and below 7.5, other words")
# A duration rounded otherwise moves all frames behind it.
_LJSPEECH_TO_FRAMEWORK = {
    "fp32": Limit(0.005, "one duration moved in a hundred utterances; none moved is 1e-10"),
    "fp16": Limit(
        0.5,
        "one duration moved in each utterance: in NVIDIA's published sample 0.31, and 0.24 for the length",
    ),
}
_MICRO_LIMIT = Limit(0.015, "recipe: 0.0120 to 0.0126 on nine evaluation seeds, in FP32 and FP16")
_MICRO_TO_FRAMEWORK = {
    "fp32": Limit(1e-6, "rounding: measured 6e-13 with ONNX Runtime"),
    "tf32": Limit(1e-5, "rounding: measured 2e-7 on an H200; a lost pitch makes 0.02"),
    "fp16": Limit(1e-4, "rounding: measured 3e-6; a lost pitch makes 0.02"),
}
_ALL_IN_RANGE = Limit(1.0, "NVIDIA's triton/metrics.py: every mel within -15 and 3")


def _metrics(
    name: str, score: Callable[..., np.ndarray], limit: Limit, to_mels: Mapping[str, Limit]
) -> tuple[Metric, ...]:
    """The metrics of a size of the model: `score`, the distance to references, with its `limit`; the distance
    to the framework's mels with its limits `to_mels`; and the share of mels in range."""
    precisions = ("fp32", "fp16")
    return (
        Metric(name, score, dict.fromkeys(precisions, limit), "lower"),
        Metric("mel MSE to framework", to_framework, to_mels, "lower", labelled=False),
        Metric("mels in range", in_range, dict.fromkeys(precisions, _ALL_IN_RANGE), labelled=False),
    )


# --- the two sizes -----------------------------------------------------------------------------------------

_PUBLISHED = _shared.published_deployment(8, instances=2)


def _outputs(frames: int, symbols: int) -> tuple[Tensor, ...]:
    """NVIDIA's four outputs in NVIDIA's order. Durations are whole frames. NVIDIA's are FP32 and unrounded,
    from which neither a client nor a comparison can tell which frame belongs to which symbol."""
    return (
        Tensor(MEL, "FP32", (spectrogram.BANDS, frames)),
        Tensor(FRAME_COUNT, "INT64", (1,)),
        Tensor(DURATIONS, "INT64", (symbols,)),
        Tensor(PITCH, "FP32", (symbols,)),
    )


def _show(samples: Samples, item: int, framework: Arrays, served: Arrays) -> list[SamplePart]:
    """The text, the reference mel (or the framework's) and the served one, in one range of colours."""
    from matplotlib import colormaps

    inputs, row = samples.read([item]), np.array([item])
    spoken = inputs[SYMBOLS][0, : int(inputs[SYMBOL_COUNT][0, 0])]
    shown = {"Served": mels(_shared.picked(served, row))[0]}
    if samples.labels is None:
        shown = {"Framework": mels(_shared.picked(framework, row))[0], **shown}
    else:
        shown = {"Reference": samples.labels[item], **shown}
    low = min(mel.min(initial=0) for mel in shown.values())
    high = max(mel.max(initial=-99) for mel in shown.values())
    longest = max(mel.shape[1] for mel in shown.values())
    parts = [SamplePart("text", "Text", "".join(symbols.SYMBOLS[number] for number in spoken))]
    for name, mel in shown.items():
        padded = np.full((len(mel), longest, 3), 128.0)
        share = (mel[::-1] - low) / max(high - low, 1e-6)
        padded[:, : mel.shape[1]] = 255 * colormaps["inferno"](share)[:, :, :3]
        parts.append(_shared.picture(f"{name}, {mel.shape[1]} frames", padded))
    return parts


_FULL_SIZE = NetworkModel(
    name="fastpitch",
    inputs=(Tensor(SYMBOLS, "INT64", (FULL.symbols,)), Tensor(SYMBOL_COUNT, "INT64", (1,))),
    outputs=_outputs(FULL.frames, FULL.symbols),
    load_weights=network.load_full,
    infer=pytorch.runner(MEL, FRAME_COUNT, DURATIONS, PITCH),
    samples=speech,
    keep=keep,
    decide=lambda kept: kept[DURATIONS],
    show=_show,
    # Aligned in time: the text does not tell how long the speaker took over each sound.
    metrics=_metrics("aligned mel MSE", to_aligned_reference, _LJSPEECH_LIMIT, _LJSPEECH_TO_FRAMEWORK),
    profiles=_shared.full_size_profiles(
        ServingProfile(_PUBLISHED, (1, 2, 4, 8), tuple(range(1, 17)), ("ts-trace-fp16", "ts-trace-fp32")),
        # An utterance takes most of a second; a longer delay lets the batcher find another.
        cpu=ServingProfile.batching(4, (1, 2, 4), (2, 4), preferred=(2, 4), max_queue_delay_us=20_000),
    ),
    defined_in=Path(__file__),
)
MODELS = (
    _FULL_SIZE,
    _shared.micro_size(
        _FULL_SIZE,
        read=lambda path: network.from_checkpoint(network.network(MICRO), path),
        train=network.train_micro,
        weights=network.MICRO_WEIGHTS,
        samples=micro_texts,
        inputs=(Tensor(SYMBOLS, "INT64", (MICRO.symbols,)), Tensor(SYMBOL_COUNT, "INT64", (1,))),
        outputs=_outputs(MICRO.frames, MICRO.symbols),
        # Frame by frame: the synthesiser's durations follow from the text.
        metrics=_metrics("mel MSE", to_reference, _MICRO_LIMIT, _MICRO_TO_FRAMEWORK),
        profiles={"gpu": ServingProfile(_PUBLISHED, (1, 8), (1, 4, 16)), "cpu": _shared.MICRO_ON_CPU},
    ),
)
