"""LJSpeech: symbols of its text, its files, mel spectrograms and their comparison."""

import itertools
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.data.mels import mel_of
from tritonproof.base.errors import InputError
from tritonproof.data import ljspeech, spectrogram
from tritonproof.data import symbols as alphabet
from tritonproof.models import fastpitch


# The output of NVIDIA's text_to_sequence with english_cleaners, from the original code of 2020-06.
@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("Mrs. De Mohrenschildt thought that Oswald,", "misess de mohrenschildt thought that oswald,"),
        ("Dr.  St. Co.\tCapt. Col.", "doctor saint company captain colonel"),
        ("franz Müller's raison d'être", "franz muller's raison d'etre"),
        ("a three hours’ rise", "a three hours' rise"),
        ("1,234 men, the 21st of 1905", "twelve thirty-four men, the twenty-first of nineteen oh five"),
        ("in 1900 and 2000 and 2009", "in nineteen hundred and two thousand and two thousand nine"),
        ("2010 or 999 or 3000", "twenty ten or nine hundred ninety-nine or three thousand"),
        ("$5 $1.50 $0.01 $1", "five dollars one dollar, fifty cents one cent one dollar"),
        ("$0 3.14", "zero dollars three point fourteen"),
        ("½ a mile", " onetwo a mile"),
    ],
)
def test_text_is_cleaned_as_published(text: str, cleaned: str) -> None:
    spoken = "".join(alphabet.SYMBOLS[number] for number in alphabet.encode(text))
    assert spoken == cleaned


def test_text_encodes_to_published_symbols() -> None:
    assert alphabet.clean("£1,200 or £") == "twelve hundred pounds or "
    assert alphabet.encode("Hi, you-all!") == [45, 46, 6, 11, 62, 52, 58, 1, 38, 49, 49, 2]
    assert alphabet.encode('a_b"~*c') == [38, 39, 40], "what is no symbol is left out, and so is the padding"


def test_filterbank_matches_librosa() -> None:
    # librosa 0.11: filters.mel(sr=22050, n_fft=1024, n_mels=80, fmin=0, fmax=8000)
    bank = spectrogram.filterbank()
    assert bank.shape == (80, 513)
    assert bank.dtype == np.float32
    expected = {(0, 1): 0.01552772, (0, 2): 0.02265139, (10, 17): 0.0, (79, 360): 0.00278283}
    for at, value in expected.items():
        assert bank[at] == pytest.approx(value, abs=1e-7), at
    assert bank.max() == pytest.approx(0.026492536, abs=1e-7)
    assert not bank[:, 372:].any()  # nothing above 8 kHz


def test_spectrogram_is_log_of_banded_magnitudes() -> None:
    audio = np.random.default_rng(0).normal(0, 0.1, 5000).astype(np.float32)
    mel = spectrogram.log_mel(audio)
    assert mel.shape == (80, 1 + 5000 // 256)
    assert mel.dtype == np.float32
    padded = np.pad(audio, 512, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(1024) / 1024)
    for frame in (0, 7, 19):
        magnitudes = np.abs(np.fft.rfft(padded[256 * frame : 256 * frame + 1024] * window))
        np.testing.assert_allclose(mel[:, frame], np.log(spectrogram.filterbank() @ magnitudes), atol=1e-4)


def test_missing_frame_is_an_error_even_if_silent() -> None:
    silent = mel_of(0, spectrogram.SILENCE)
    assert spectrogram.frame_by_frame(silent, silent) == 0
    assert spectrogram.frame_by_frame(silent, mel_of(0)) == pytest.approx(spectrogram.SILENCE**2 / 2)
    assert spectrogram.frame_by_frame(mel_of(), silent) == pytest.approx(spectrogram.SILENCE**2)
    assert spectrogram.frame_by_frame(mel_of(1, 2, 3), mel_of(1, 2, 5)) == pytest.approx(4 / 3)
    assert spectrogram.frame_by_frame(mel_of(), mel_of()) == 0


def best_path(cost: np.ndarray) -> float:
    """The mean along the path with the least sum, by trying all paths."""
    rows, columns = cost.shape

    def paths(i: int, j: int) -> list[list[float]]:
        if (i, j) == (rows - 1, columns - 1):
            return [[cost[i, j]]]
        steps = [(i + a, j + b) for a, b in ((1, 0), (0, 1), (1, 1)) if i + a < rows and j + b < columns]
        return [[cost[i, j], *rest] for step in steps for rest in paths(*step)]

    return float(np.mean(min(paths(0, 0), key=sum)))


@pytest.mark.parametrize(("rows", "columns"), list(itertools.product((1, 2, 5), (1, 3, 5))))
def test_alignment_takes_best_of_all_paths(rows: int, columns: int) -> None:
    generator = np.random.default_rng([rows, columns])
    a, b = generator.normal(size=(80, rows)), generator.normal(size=(80, columns))
    cost = np.square(a.T[:, None] - b.T[None]).mean(axis=2)
    assert spectrogram.aligned(a, b) == pytest.approx(best_path(cost))


SHORT, TRAINING = ("LJ001-0015", "LJ045-0096"), ("LJ001-0001", "LJ050-0278")


def write_sound(path: Path, seed: int = 0, rate: int = 22_050) -> None:
    samples = np.random.default_rng(seed).integers(-8000, 8000, 4000)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(samples.astype("<i2").tobytes())


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """LJSpeech's layout: the 500 test sentences, two of them within 128 symbols, and two others."""
    (tmp_path / "wavs").mkdir()
    lines = []
    for name in sorted(ljspeech.test_part() | set(TRAINING)):
        text = f"Sentence {name[3:5]}." if name in (*SHORT, *TRAINING) else "word " * 40
        lines.append(f"{name}|raw 12|{text}")
    (tmp_path / "metadata.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for seed, name in enumerate((*SHORT, *TRAINING)):
        write_sound(tmp_path / "wavs" / f"{name}.wav", seed)
    return tmp_path


def test_test_part_is_published_500() -> None:
    part = ljspeech.test_part()
    assert len(part) == 500
    assert {"LJ045-0096", "LJ049-0022", "LJ001-0015"} <= part
    assert not part & {"LJ050-0234", "LJ019-0373", "LJ022-0023"}  # of the training and validation lists


def test_evaluation_is_test_part_without_long_texts(dataset: Path) -> None:
    """Training is the rest."""
    samples = fastpitch.speech("evaluation", dataset)
    assert tuple(samples.ids) == SHORT
    inputs = samples.read([1, 0])
    assert [inputs[name].shape for name in inputs] == [(2, 128), (2, 1)]
    assert inputs[fastpitch.SYMBOLS][0, :8].tolist() == alphabet.numbers_of("sentence")
    counts = [len(alphabet.encode(f"sentence {n}.")) for n in ("45", "1")]
    assert inputs[fastpitch.SYMBOL_COUNT].ravel().tolist() == counts
    assert tuple(fastpitch.speech("training", dataset).ids) == TRAINING
    (dataset / "around").mkdir()
    (dataset / "around" / "LJSpeech-1.1").symlink_to(dataset)
    assert tuple(fastpitch.speech("evaluation", dataset / "around").ids) == SHORT


def test_references_are_spectrograms_of_recordings(dataset: Path) -> None:
    labels = fastpitch.speech("evaluation", dataset).labels
    assert len(labels) == 2
    expected = np.random.default_rng(1).integers(-8000, 8000, 4000) / 32768
    np.testing.assert_array_equal(labels[1], spectrogram.log_mel(expected.astype(np.float32)))
    assert [mel.shape for mel in labels] == [(80, 16), (80, 16)]


def write_list(dataset: Path, change: Callable[[list[str]], list[str]]) -> None:
    path = dataset / "metadata.csv"
    path.write_text("\n".join(change(path.read_text().splitlines())))


SOUND = Path("wavs", f"{SHORT[0]}.wav")
FAULTS: list[tuple[Callable[[Path], object], str]] = [
    (lambda root: (root / "metadata.csv").unlink(), ""),
    *(
        (lambda root, more=line: write_list(root, lambda all_: [*all_[:20], more, *all_[20:]]), ", line 21")
        for line in ("LJ001-0002|only two", "name|a|b", "LJ001-0002|a| ")
    ),
    (lambda root: write_list(root, lambda all_: [x for x in all_ if SHORT[1] not in x]), "metadata.csv"),
    (lambda root: write_sound(root / SOUND, rate=16_000), SOUND.name),
    (lambda root: (root / SOUND).write_bytes((root / SOUND).read_bytes()[:1000]), SOUND.name),
]
"""Each fault, and what the error's `where` names besides the data set's folder."""


@pytest.mark.parametrize(("spoil", "at"), FAULTS)
def test_other_data_is_refused_as_ljspeech(spoil: Callable[[Path], object], at: str, dataset: Path) -> None:
    spoil(dataset)
    with pytest.raises(InputError, check=lambda e: e.where.startswith(str(dataset)) and at in e.where):
        list(fastpitch.speech("evaluation", dataset).labels)


def test_missing_sound_is_an_error_before_evaluation(dataset: Path) -> None:
    (dataset / SOUND).unlink()
    with pytest.raises(InputError, check=lambda error: error.where == str(dataset / SOUND)):
        fastpitch.speech("evaluation", dataset)
