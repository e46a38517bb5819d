"""Any user file is read or refused in one sentence, quickly and in little memory."""

import functools
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.consistency import recorded
from fixtures.data.brains import brats
from fixtures.data.speech import ljspeech
from fixtures.data.squad import squad_v1, word_pieces
from fixtures.errors import InputError
from fixtures.frameworks.onnx_files import read_interface
from fixtures.frameworks.pytorch import read_checkpoint
from fixtures.models.bert.network import read_config as read_bert_config
from fixtures.models.resnet50.samples import preprocess
from fixtures.safe_io import files
from fixtures.spec import Tensor
from fixtures.thresholds import read as read_thresholds
from fixtures.user_models.labels import read_labels
from fixtures.user_models.repository import read_config
from fixtures.user_models.samples import read_samples

ROW, PICTURE = Tensor("X", "FP32", (2, 3)), Tensor("X", "FP32", (3, -1, -1))


def sample(path: Path, tensor: Tensor = ROW) -> Any:
    return read_samples(path.parent, (tensor,)).load([0])


def settings_of_samples(path: Path) -> Any:
    np.save(path.with_name("x.npy"), np.ones((2, 3), np.float32))
    return sample(path)


def patients(path: Path) -> Any:
    return brats.patients(path.parent, "evaluation")


READERS: dict[str, Callable[[Path], Any]] = {
    "x.npy": sample,
    "x.npz": sample,
    "x.json": sample,
    "x.txt": functools.partial(sample, tensor=Tensor("X", "BYTES", (1,))),
    "x.png": functools.partial(sample, tensor=PICTURE),
    "samples.toml": settings_of_samples,
    "labels.csv": lambda path: read_labels(path, ["a"], ["a"]),
    "labels.json": lambda path: read_labels(path, ["a"], ["a"]),
    "labels.npz": lambda path: read_labels(path, ["a"], ["a"]),
    "labels.npy": lambda path: read_labels(path, ["a"], ["a"]),
    "thresholds.toml": lambda path: read_thresholds("--thresholds", str(path)),
    "network.onnx": read_interface,
    "weights.pt": read_checkpoint,
    "weights.safetensors": read_checkpoint,
    "config.json": read_bert_config,
    "vocab.txt": word_pieces.read_vocabulary,
    "dev-v1.1.json": squad_v1.read,
    "dataset.json": patients,
    "metadata.csv": lambda path: ljspeech.recordings(path.parent, "evaluation", 400),
    "sound.wav": ljspeech.read_sound,
    "picture.jpeg": preprocess,
    "config.pbtxt": read_config,
    "answers.npz": recorded.read,
}


def far_too_large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 36)


PUT: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "a file without end": lambda path: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "far too large": far_too_large,
    "noise": lambda path: path.write_bytes(bytes(range(128, 256)) * 4),
}


@pytest.mark.parametrize("put", PUT)
@pytest.mark.parametrize("name", READERS)
def test_invalid_file_is_refused_by_its_path(name: str, put: str, tmp_path: Path) -> None:
    PUT[put](tmp_path / name)
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as raised:
            READERS[name](tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < 128 << 20
    finally:
        tracemalloc.stop()
    assert str(tmp_path) in str(raised.value)
    assert raised.value.fix
    assert len(raised.value.what) < 500


@pytest.mark.parametrize(
    "content",
    ["[" * 100_000, '{"a": 1e999}', '{"a": NaN}', '{"a": ' + "9" * 5000 + "}", '{"a": ', '{"a": 1, "a": 1}'],
)
def test_indefinite_json_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(InputError, check=lambda error: error.where == str(path)):
        files.json_in(path, "the file", "mend it")


def test_library_message_is_one_short_printable_line() -> None:
    with pytest.raises(InputError) as raised, files.readable("the file", "/a", "mend it"):
        raise LookupError("\x1b[31mred\x1b[0m" + "x" * 10_000 + "\nsecond line")
    assert "\x1b" not in raised.value.what
    assert "\n" not in raised.value.what
    assert len(raised.value.what) < 300
