"""Data sets, samples and labels as a user gives them."""

import json
import wave
from pathlib import Path

import numpy as np

from fixtures.data.brains import brats
from fixtures.data.speech import ljspeech
from fixtures.data.squad import invented, squad_v1, text_windows, word_pieces
from fixtures.given.labels import read_labels
from fixtures.given.samples import read_samples, sized_inputs
from fixtures.models.resnet50.samples import preprocess
from fixtures.spec import Tensor
from tests.data.original_bert import VOCABULARY
from tests.fuzz import damage
from tests.fuzz.parsers import Parser
from tests.models import decathlon

_IDS = ("a", "b", "c")
_ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)
_LONG_NAMES = {"image": "x" * 300, "label": "x" * 300}
_PATIENTS = [f"BRATS_{number:03d}" for number in range(1, 6)]


# --- data sets ---------------------------------------------------------------------------------------------


def _write_squad(folder: Path) -> None:
    content = invented.as_squad(invented.paragraphs("evaluation", 1))
    (folder / "dev-v1.1.json").write_text(json.dumps(content), "utf-8")


def _question(text: str) -> bytes:
    """A file of one question, its text as it stands between quotation marks in JSON."""
    answers = '[{"text": "a", "answer_start": 0}]'
    asked = f'{{"id": "1", "question": "{text}", "answers": {answers}}}'
    return f'{{"data": [{{"paragraphs": [{{"context": "a b", "qas": [{asked}]}}]}}]}}'.encode()


def _read_squad(path: Path) -> object:
    return text_windows.prepare(squad_v1.read(path), tuple(VOCABULARY), text_windows.WindowSizes()).questions


def _write_volumes(folder: Path) -> None:
    image, label = decathlon.volume(1, (6, 7, 8))
    for kind, voxels in (("imagesTr", image), ("labelsTr", label)):
        for name in _PATIENTS:
            decathlon.write(folder / kind / f"{name}.nii", voxels)
    decathlon.describe(folder, _PATIENTS)
    path = folder / "dataset.json"
    path.write_text(path.read_text().replace(".nii.gz", ".nii"))


def _read_volume(path: Path) -> object:
    name = path.name
    root = path.parent.parent
    image, label = brats.prepare(
        brats.Patient("one", root / "imagesTr" / name, root / "labelsTr" / name), size=16
    )
    assert image.shape == (4, 16, 16, 16)
    assert label.shape == (16, 16, 16)
    return image


def _write_speech(folder: Path) -> None:
    names = sorted(ljspeech.test_part())
    (folder / "metadata.csv").write_text("".join(f"{name}|One 1.|One one.\n" for name in names), "utf-8")
    (folder / "wavs").mkdir(exist_ok=True)
    with wave.open(str(folder / "wavs" / f"{names[0]}.wav"), "wb") as file:
        file.setparams((1, 2, 22050, 0, "NONE", ""))
        file.writeframes(np.zeros(2000, "<i2").tobytes())
    for name in names[1:]:
        (folder / "wavs" / f"{name}.wav").touch()


def _write_picture(folder: Path) -> None:
    from PIL import Image

    Image.fromarray(np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)).save(folder / "a.png")


# --- samples -----------------------------------------------------------------------------------------------


def _samples(inputs: tuple[Tensor, ...], path: Path) -> object:
    """All samples of the file's folder, read and stacked as for a request."""
    found = read_samples(path.parent, inputs)
    sized_inputs(inputs, found)
    rows = found.load(range(len(found)))
    assert all(len(one) == len(found) for one in rows.values())
    return rows


def _row(path: Path) -> object:
    return _samples((Tensor("x", "FP32", (4,)),), path)


def _picture(path: Path) -> object:
    return _samples((Tensor("x", "FP32", (3, 8, 8)),), path)


def _text(path: Path) -> object:
    return _samples((Tensor("x", "BYTES", (1,)),), path)


def _requests(path: Path) -> object:
    return _samples((Tensor("x", "FP32", (4,)), Tensor("y", "BYTES", (-1,))), path)


def _write_texts(folder: Path) -> None:
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / "b.txt").write_text("three\n")


_REQUESTS = {
    "data": [
        {"x": [1, 2, 3, 4], "y": {"content": ["a", "b"], "shape": [2]}},
        {"x": {"b64": "AACAPwAAAEAAAEBAAACAQA=="}, "y": ["a", "b"]},
    ]
}


def _write_requests(folder: Path) -> None:
    for name in "ab":  # a file without samples is no fault where another has some
        (folder / f"{name}.json").write_text(json.dumps(_REQUESTS))


_SETTINGS = (
    '[image]\nlayout = "CHW"\nsize = [8, 8]\nfit = "crop"\nscale = 0.5\nmean = [0.5, 0.5, 0.5]\nstd = [1.0]\n'
)


def _write_settings(folder: Path) -> None:
    _write_picture(folder)
    (folder / "samples.toml").write_text(_SETTINGS)


def _write_archive(folder: Path) -> None:
    np.savez(folder / "a.npz", x=_ROWS[0])


# --- labels ------------------------------------------------------------------------------------------------


def _labels(path: Path) -> object:
    found = read_labels(path, _IDS, _IDS)
    assert len(found) == len(_IDS)
    assert np.isfinite(found).all()
    return found


def _write_label_archive(folder: Path) -> None:
    np.savez(folder / "labels.npz", **{name: np.array(place) for place, name in enumerate(_IDS)})


_PICTURE_THAT_GOES_ON = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\5\0\0\0\4\x08\2\0\0\0\xc9Qb\x17" + b"A\0\0\0IDAT\0\0"
)
"""Its next part says that it has a gigabyte."""

PARSERS = (
    Parser(
        "squad",
        "dev-v1.1.json",
        _write_squad,
        damage.json_of,
        _read_squad,
        found=(_question(r"\ud800"),),
    ),
    Parser(
        "decathlon",
        "dataset.json",
        _write_volumes,
        damage.json_of,
        lambda path: brats.patients(path.parent, "evaluation"),
        found=(
            json.dumps(
                {"modality": decathlon.MODALITIES, "labels": decathlon.LABELS, "training": [_LONG_NAMES] * 5}
            ).encode(),
        ),
        campaign=True,
    ),
    Parser("volume", f"imagesTr/{_PATIENTS[0]}.nii", _write_volumes, damage.bytes_of, _read_volume),
    Parser("volume's label", f"labelsTr/{_PATIENTS[0]}.nii", _write_volumes, damage.bytes_of, _read_volume),
    Parser(
        "speech",
        "metadata.csv",
        _write_speech,
        damage.text_of,
        lambda path: ljspeech.recordings(path.parent, "evaluation", 200),
        campaign=True,
    ),
    Parser(
        "sound",
        f"wavs/{min(ljspeech.test_part())}.wav",
        _write_speech,
        damage.bytes_of,
        ljspeech.read_sound,
    ),
    Parser(
        "vocabulary",
        "vocab.txt",
        lambda folder: (folder / "vocab.txt").write_text("".join(f"{one}\n" for one in VOCABULARY), "utf-8"),
        damage.text_of,
        word_pieces.read_vocabulary,
    ),
    Parser(
        "picture of a data set",
        "a.png",
        _write_picture,
        damage.bytes_of,
        preprocess,
        found=(_PICTURE_THAT_GOES_ON,),
    ),
    Parser("samples in npy", "a.npy", lambda folder: np.save(folder / "a.npy", _ROWS), damage.bytes_of, _row),
    Parser("samples in npz", "a.npz", _write_archive, damage.archive_of, _row),
    Parser(
        "samples in requests",
        "a.json",
        _write_requests,
        damage.json_of,
        _requests,
    ),
    Parser(
        "samples in texts",
        "a.txt",
        _write_texts,
        damage.text_of,
        _text,
    ),
    Parser("samples in pictures", "a.png", _write_picture, damage.bytes_of, _picture),
    Parser(
        "settings of samples",
        "samples.toml",
        _write_settings,
        damage.text_of,
        _picture,
        found=(_SETTINGS.replace("0.5\n", "1e308\n").encode(),),
    ),
    Parser(
        "labels in csv",
        "labels.csv",
        lambda folder: (folder / "labels.csv").write_text("name,label\na,1\nb.jpg,2\nc,0\n"),
        damage.text_of,
        _labels,
    ),
    Parser(
        "labels in json",
        "labels.json",
        lambda folder: (folder / "labels.json").write_text('{"a": [1, 2], "b": [0, 0], "c": [2, 1]}'),
        damage.json_of,
        _labels,
    ),
    Parser("labels in npz", "labels.npz", _write_label_archive, damage.archive_of, _labels),
    Parser(
        "labels in npy",
        "labels.npy",
        lambda folder: np.save(folder / "labels.npy", np.arange(3)),
        damage.bytes_of,
        _labels,
    ),
)
