"""A parametric synthesiser: syllabic text, its durations, pitch and mel spectrogram, all from one seed.

It replaces recorded speech: each symbol has formants, voiced ones also a harmonic ripple from the pitch, and
neighbours run into each other. All of it follows from the text, so a model can learn it.
"""

import functools
from dataclasses import dataclass

import numpy as np

from tritonproof.data.spectrogram import BANDS, SILENCE
from tritonproof.spec import Split

MAX_SYMBOLS = 28
"""The most symbols that a text may have."""
MAX_FRAMES = 128
"""The frames of the micro model's spectrograms; no utterance takes more."""

_SIZES: dict[Split, int] = {"training": 3000, "evaluation": 256}
_SEED = 20200518
_VOWELS = "aeiou"
_VOICED = "bdgmnrlw"
_VOICELESS = "ptksfh"
_STOPS = "bdgptk"
_PAUSES = " ,.?"
SYMBOLS = _VOWELS + _VOICED + _VOICELESS + _PAUSES


@dataclass(frozen=True)
class Utterance:
    """One text and how it is spoken."""

    text: str
    """Characters of SYMBOLS."""
    durations: np.ndarray
    """The frames of each symbol, [symbols] INT64."""
    pitch: np.ndarray
    """The pitch of each symbol, 0 where it is voiceless, [symbols] FP32; about -2 to 2."""
    mel: np.ndarray
    """[80, frames] FP32."""


@functools.cache
def utterances(split: Split) -> tuple[Utterance, ...]:
    """The utterances of a split; no text is in both splits."""
    spoken = []
    for number in range(_SIZES[split]):
        text = _text(np.random.default_rng((_SEED, 0 if split == "training" else 1, number)))
        durations, pitch = _durations(text), _pitch(text)
        spoken.append(Utterance(text, durations, pitch, _mel_of(text, durations, pitch)))
    return tuple(spoken)


def _text(generator: np.random.Generator) -> str:
    """Words of one to three syllables, perhaps a comma, and a full stop or question mark."""

    def syllable() -> str:
        onset = generator.choice(list(_VOICED + _VOICELESS))
        coda = generator.choice(["", "", "n", "s", "l", "k"])
        return f"{onset}{generator.choice(list(_VOWELS))}{coda}"

    end = generator.choice([".", "?"])
    min_length = int(generator.integers(8, MAX_SYMBOLS - 8))
    text = ""
    while len(text) < min_length:
        word = "".join(syllable() for _ in range(generator.integers(1, 4)))
        joint = generator.choice([" ", " ", " ", ", "]) if text else ""
        if len(text) + len(joint) + len(word) + 1 > MAX_SYMBOLS:
            break
        text += joint + word
    return f"{text}{end}"


def _durations(text: str) -> np.ndarray:
    """The frames of each symbol, which depend on the next symbols and on the end of the phrase."""
    durations = []
    for i, symbol in enumerate(text):
        following = text[i + 1 : i + 3]
        if symbol in _VOWELS:
            # Longer before a voiced consonant, and in a phrase's last syllable.
            frames = 4 + (following[:1] in _VOICED) + 2 * any(c in ",.?" for c in following)
        elif symbol in _PAUSES:
            frames = {" ": 2, ",": 5, ".": 6, "?": 6}[symbol]
        else:
            frames = 2 if symbol in _STOPS else 3
        durations.append(frames)
    return np.array(durations, np.int64)


def _pitch(text: str) -> np.ndarray:
    """Each symbol's pitch: it falls, except on a word's first vowel and a question's last two syllables."""
    count = len(text)
    pitch = 1.0 - 2.0 * np.arange(count) / MAX_SYMBOLS
    vowels = [i for i, symbol in enumerate(text) if symbol in _VOWELS]
    starts = [0, *(i + 1 for i, symbol in enumerate(text) if symbol == " ")]
    for start in starts:
        accented = next((i for i in vowels if i >= start), None)
        if accented is not None:
            pitch[accented] += 0.8
    if text.endswith("?"):
        pitch[vowels[-2] if len(vowels) > 1 else 0 :] += 1.2
    pitch[[symbol in _VOICELESS + _PAUSES for symbol in text]] = 0.0
    return pitch.astype(np.float32)


@functools.cache
def _envelope(symbol: str) -> np.ndarray:
    """A symbol's spectral envelope before the harmonics, [80]."""
    if symbol in _PAUSES:
        return np.full(BANDS, SILENCE)
    generator = np.random.default_rng([80, ord(symbol)])
    band = np.arange(BANDS)
    voiced = symbol in _VOWELS + _VOICED
    centres = np.sort(generator.uniform(4, 70, 3)) if voiced else generator.uniform(45, 75, 3)
    widths, gains = generator.uniform(3, 8, 3), generator.uniform(3, 6, 3)
    level = {True: -5.0, False: -8.0}[symbol in _VOWELS] - generator.uniform(0, 1)
    tilt = (-0.04 if voiced else 0.03) * (band - BANDS / 2)
    peaks = sum(g * np.exp(-(((band - c) / w) ** 2)) for c, w, g in zip(centres, widths, gains, strict=True))
    return np.asarray(level + tilt + peaks)


def _mel_of(text: str, durations: np.ndarray, pitch: np.ndarray) -> np.ndarray:
    band = np.arange(BANDS)
    frames = []
    for symbol, duration, height in zip(text, durations, pitch, strict=True):
        envelope = _envelope(symbol)
        if symbol in _VOWELS + _VOICED:
            # Harmonics lie apart by the pitch, and fade towards the higher bands.
            envelope = envelope + 1.2 * np.cos(2 * np.pi * band / (7 + height)) * np.exp(-band / 25)
        attack = np.zeros((duration, 1))
        attack[0] = -2.0 if symbol in _STOPS else -0.4
        frames.append(envelope + attack * (symbol not in _PAUSES))
    padded = np.pad(np.concatenate(frames), ((1, 1), (0, 0)), mode="edge")
    smooth = 0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]
    return smooth.clip(SILENCE, 2.0).T.astype(np.float32)
