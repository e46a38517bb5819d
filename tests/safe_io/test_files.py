"""User paths and files are read, or refused in a sentence, quickly and in little memory; and ends of logs."""

import functools
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.safe_io.refusals import refusal, within
from tritonproof.base import disk
from tritonproof.base.errors import InputError
from tritonproof.data import brats, ljspeech, squad_v1
from tritonproof.data.images import preprocess
from tritonproof.frameworks.onnx_networks import open_network
from tritonproof.frameworks.pytorch import read_checkpoint
from tritonproof.gates import recorded
from tritonproof.models.bert.network import read_config as read_bert_config
from tritonproof.safe_io import files
from tritonproof.safe_io.files import absolute_path, existing_path
from tritonproof.settings.thresholds import read_thresholds
from tritonproof.spec import Tensor
from tritonproof.user_models.labels import read_labels
from tritonproof.user_models.model_repository import read_config
from tritonproof.user_models.samples import read_samples


@pytest.mark.parametrize("text", ["", "  ", "~no-such-user-here/x", "a\nb", "\x1b[31mred", "bytes-\udcff"])
def test_invalid_path_is_refused_without_control_characters(text: str) -> None:
    error = refusal(lambda: absolute_path("--results", text))
    assert error.where.startswith("--results")
    assert all(character.isprintable() or character == "\n" for character in str(error))


@pytest.mark.parametrize("name", ["gone", "link", "link/x", "self", "fifo", "a" * 300, "a/" * 3000])
def test_nonexistent_or_irregular_path_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nothing")
    (tmp_path / "self").symlink_to("self")
    os.mkfifo(tmp_path / "fifo")
    error = refusal(lambda: existing_path("--dataset", f"{tmp_path}/{name}"))
    assert error.where.startswith(f"--dataset {tmp_path}")
    assert len(error.what) < 200


ROW, PICTURE = Tensor("X", "FP32", (2, 3)), Tensor("X", "FP32", (3, -1, -1))


def sample(path: Path, tensor: Tensor = ROW) -> Any:
    return read_samples(path.parent, (tensor,)).read([0])


def settings_of_samples(path: Path) -> Any:
    np.save(path.with_name("x.npy"), np.ones((2, 3), np.float32))
    return sample(path)


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
    "network.onnx": open_network,
    "weights.pt": read_checkpoint,
    "weights.safetensors": read_checkpoint,
    "config.json": read_bert_config,
    "vocab.txt": squad_v1.read_vocabulary,
    "dev-v1.1.json": squad_v1.read,
    "dataset.json": lambda path: brats.patients(path.parent, "evaluation"),
    "metadata.csv": lambda path: ljspeech.recordings(path.parent, "evaluation", 400),
    "sound.wav": ljspeech.log_mel_of,
    "picture.jpeg": preprocess,
    "config.pbtxt": read_config,
    "answers.npz": recorded.read,
}


def far_too_large(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 36)


# What opens a file is the same for all, so that the others are not put in place of each.
FOR_ALL: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "noise": lambda path: path.write_bytes(bytes(range(128, 256)) * 4),
}
OTHERS: dict[str, Callable[[Path], object]] = {
    "a file without end": lambda path: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "far too large": far_too_large,
}


@pytest.mark.parametrize(
    ("name", "put"),
    [*itertools.product(READERS, FOR_ALL), *itertools.product(("x.npy", "labels.csv", "weights.pt"), OTHERS)],
)
def test_invalid_file_is_refused_by_its_path(name: str, put: str, tmp_path: Path) -> None:
    (FOR_ALL | OTHERS)[put](tmp_path / name)
    error = within(128, lambda: refusal(lambda: READERS[name](tmp_path / name)))
    assert str(tmp_path) in str(error)


@pytest.mark.parametrize(
    "content",
    ["[" * 100_000, '{"a": 1e999}', '{"a": NaN}', '{"a": ' + "9" * 5000 + "}", '{"a": ', '{"a": 1, "a": 1}'],
)
def test_indefinite_json_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(InputError, check=lambda error: error.where == str(path)):
        files.read_json(path, "the file", "mend it")


def test_library_message_is_one_short_printable_line() -> None:
    with pytest.raises(InputError) as raised, files.readable("the file", "/a", "mend it"):
        raise LookupError("\x1b[31mred\x1b[0m" + "x" * 10_000 + "\nsecond line")
    assert raised.value.what.isprintable()
    assert len(raised.value.what) < 300


def test_files_of_an_artifact_are_its_folders_or_itself(tmp_path: Path) -> None:
    graph, index = tmp_path / "saved_model.pb", tmp_path / "variables" / "index"
    index.parent.mkdir()
    graph.touch()
    index.touch()
    assert (disk.files_in(tmp_path), disk.files_in(graph)) == ([graph, index], [graph])


@pytest.mark.parametrize(
    ("change", "max_bytes", "is_other"),
    [
        (lambda path: os.utime(path, (1, 1)), 2, False),
        (lambda path: os.utime(path, (1, 1)), 0, True),
        (lambda path: path.write_text("2"), 2, True),
        (lambda path: path.rename(path.with_name("c")), 2, True),
        (lambda path: path.with_name("link").symlink_to("../other"), 2, True),
        (lambda path: path.with_name("link").symlink_to("nowhere"), 2, False),
        (lambda path: (path.parent / "linked" / "b").write_text("2"), 2, True),
        (lambda path: os.utime(path.parent / "linked" / "b", (1, 1)), 2, False),
    ],
)
def test_digest_of_data_covers_names_and_contents_but_of_much_data_times(
    change: Any, max_bytes: int, is_other: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, behind, other = (tmp_path / name for name in ("given", "behind", "other"))
    for folder in (given, behind, other):
        folder.mkdir()
        (folder / folder.name[0]).write_text("1")
    (given / "linked").symlink_to(behind)
    (behind / "circle").symlink_to(given)
    monkeypatch.setattr(disk, "MAX_BYTES", max_bytes)
    before = files.data_digest(given)
    change(given / "g")
    assert (files.data_digest(given) != before) is is_other
