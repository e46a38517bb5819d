"""LJSpeech 1.1, one speaker reading 13,100 sentences: its files, and its published test part."""

import functools
import io
import re
import wave
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tritonproof.base.errors import InputError
from tritonproof.base.sanitize import excerpt
from tritonproof.data import spectrogram
from tritonproof.data.symbols import encode
from tritonproof.safe_io import files
from tritonproof.spec import Split

_RESTORE = "unpack LJSpeech-1.1.tar.bz2, and give its folder, which holds metadata.csv and wavs/"
# The 500 utterances of NVIDIA's ljs_audio_text_test_filelist, as chapter:sentences. The published checkpoint
# was trained on 12,500 others, so any other choice would evaluate it on what it has learnt.
_TEST_PART = """
1:15,51,63,72,79,94,96,102,153,173,186 2:96,105,106,171,174,220,225,253,260,261,289,298,299
3:11,88,107,140,159,211,230,282,299,319,324 4:9,24,36,77,83,239 5:19,72,86,99,248,252,253,257,264,265,294
6:21,40,43,44,82,84,88,137,149,202,268 7:71,75,76,85,90,112,125,130,150,158,170,233
8:54,85,98,121,181,182,206,215,228,266 9:37,41,61,74,84,106,124,126,172,184,192,194,276,280,286
10:27,30,38,62,65,83,157,158,219,228,257,281,297 11:41,48,118,141,245
12:15,21,49,54,67,188,189,194,219,230,257,271 13:5,45,55,91,98,104,109,213
14:29,94,121,128,142,146,171,186,194,199,224,233,265,306,326
15:1,5,7,25,27,36,43,52,144,194,218,231,266,289,308
16:7,49,54,77,89,117,125,137,192,205,233,238,241,248,264,274,277,283,314,347,367,380,417,426
17:35,50,59,102,108,133,134,164,183,189,190,226,231
18:31,129,130,159,206,211,215,218,231,244,262,276,278,288,309,349,354
19:42,52,55,129,145,161,169,179,180,201,202,221,241,248,270,289,317,318,335,344,348,355,368,371
20:85,92,93 21:12,25,26,40,78,91,110,115,139,140 23:16,33,47,56,89,122 24:18,19,34,54,102
25:81,98,118,129,157 26:34,52,54,108,140,148 27:6,176,178
28:23,136,138,145,168,212,226,278,289,340,349,357,410,416,421,459,462,494,502 29:4,52,60,96,114,197
30:6,14,21,32,35,63,84,105,125,162,196,197,238 31:8,14,41,58,109,122,165,185,189
32:12,25,27,45,85,103,164,180,204,206,261 33:42,55,56,72,93,120,152,159,174,183,205
34:35,41,72,97,117,123,134,166,197 35:14,82,155,164 36:67,104,169 37:1,2,7,53,61,81,208,248,249,252
38:35,47,264 39:27,59,76,88,96,118,125,139,148,154,192,207,227 40:18,52,97,110,176,201 41:22,70,195,199
42:97,130,133,135,194,198,219,221,230 43:10,16,47,107,140,188 44:4,13,47,105,125,135,137,139,158,224,237
45:15,33,45,82,90,92,96,177,178,190,194,216,228,234 46:16,33,55,92,105,111,113,179,191,226
47:15,22,49,56,73,75,93,97,126,158,197,202,240 48:33,53,69,112,143,197,200,222,252,288,289
49:22,115,154,196,202 50:4,22,29,31,56,69,84,90,118,137,161,162,188,209,223,235
"""


def test_part() -> frozenset[str]:
    """Ids of the published test part, 500 of 13,100."""
    chapters = (entry.split(":") for entry in _TEST_PART.split())
    return frozenset(
        f"LJ{int(chapter):03d}-{int(sentence):04d}"
        for chapter, sentences in chapters
        for sentence in sentences.split(",")
    )


@dataclass(frozen=True)
class Recording:
    """One sentence and its sound file, whose name is the sentence's id: LJ001-0001."""

    text: tuple[int, ...]
    """The numbers of the text's symbols, as the model reads them."""
    path: Path


def recordings(dataset: Path, split: Split, longest: int) -> list[Recording]:
    """The sentences of a split whose text has at most `longest` symbols: the published test part to evaluate,
    about 380 sentences of up to 128 symbols, and all others to train. Longer texts are left out, as half a
    sentence has no reference. Raises InputError unless the folder holds all of LJSpeech."""
    inner = dataset / "LJSpeech-1.1"
    with files.readable("the data set", inner, _RESTORE):
        root = inner if inner.is_dir() else dataset
    texts = _metadata(root / "metadata.csv")
    test = test_part()
    if absent := sorted(test - texts.keys()):
        lacking = f"{len(absent)} of the published test part's 500 sentences, first {absent[0]}"
        fix = "give LJSpeech 1.1 as published, all 13,100 sentences"
        raise InputError(f"the data set lacks {lacking}", where=root / "metadata.csv", fix=fix)
    sentences = []
    for name, text in texts.items():
        if (name in test) == (split == "evaluation") and len(symbols := tuple(encode(text))) <= longest:
            path = root / "wavs" / f"{name}.wav"
            files.check_regular(path, f"the sound of sentence {name}", _RESTORE)
            sentences.append(Recording(symbols, path))
    return sentences


def _metadata(path: Path) -> dict[str, str]:
    """The text of each sentence with numbers written out, the third column, by the sentence's id."""
    lines = files.read_text(path, "the list of sentences", _RESTORE).splitlines()
    texts: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        fields = line.split("|")
        if len(fields) != 3 or not re.fullmatch(r"LJ\d{3}-\d{4}", fields[0]) or not fields[2].strip():
            what = f"a line is not `LJ...|text|text with numbers in words`: {excerpt(line)}"
            raise InputError(what, where=f"{path}, line {number}", fix=_RESTORE)
        texts[fields[0]] = fields[2]
    return texts


@functools.cache
def log_mel_of(path: Path) -> np.ndarray:
    """A sound file's mel spectrogram, [80, frames] FP32. Raises InputError for another format."""
    stream = io.BytesIO(files.read_bytes(path, "a sound file", _RESTORE))
    with files.readable("a sound file", path, _RESTORE), wave.open(stream, "rb") as file:
        kind = (file.getframerate(), file.getnchannels(), 8 * file.getsampwidth())
        if kind != (spectrogram.RATE_HZ, 1, 16):
            raise ValueError("it has {} Hz, {} channels, {} bits; LJSpeech has 22050 Hz, 1, 16".format(*kind))
        count, data = file.getnframes(), file.readframes(file.getnframes())
        if len(data) != 2 * count or count <= spectrogram.WINDOW // 2:
            raise ValueError(f"it is truncated to {len(data) // 2} of {count} samples")
    return spectrogram.log_mel(np.frombuffer(data, "<i2").astype(np.float32) / 32768)


@dataclass(frozen=True)
class Spectrograms:
    """The mel spectrograms of sound files, [80, frames] each, computed on demand."""

    paths: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> np.ndarray:
        return log_mel_of(self.paths[index])
