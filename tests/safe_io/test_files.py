"""Whatever lies in the place of a user's file, and whatever is in it, ends in one sentence, soon and in little memory."""

import contextlib
import functools
import os
import socket
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.consistency import recorded
from fixtures.data.brains import brats
from fixtures.data.speech import ljspeech
from fixtures.data.squad import squad_v1, word_pieces
from fixtures.errors import InputError
from fixtures.frameworks.onnx_files import digest, read_interface
from fixtures.frameworks.pytorch import read_checkpoint
from fixtures.models.bert.network import read_config as read_bert_config
from fixtures.models.resnet50.samples import imagenet, preprocess
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


def pipe(path: Path) -> None:
    os.mkfifo(path)


def without_end(path: Path) -> None:
    path.symlink_to("/dev/zero")


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def link_to_nothing(path: Path) -> None:
    path.symlink_to("nothing")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def far_too_large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 36)


def made_of_noise(path: Path) -> None:
    path.write_bytes(bytes(range(128, 256)) * 4)


@pytest.mark.parametrize(
    "put",
    [pipe, without_end, listening, link_to_nothing, link_to_itself, far_too_large, made_of_noise],
    ids=lambda put: put.__name__,
)
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_such_file_is_refused_by_its_path_with_a_cure(
    name: str, put: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    put(Path(name))  # a socket's path may not be long
    with pytest.raises(InputError) as raised:
        READERS[name](tmp_path / name)
    assert str(tmp_path) in str(raised.value)
    assert raised.value.fix
    assert len(raised.value.what) < 500


def as_another_user(read: Callable[[], Any]) -> str:
    """What `read` raises in a process of a user who owns nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = "another error than the one for readers"
        try:
            os.setuid(65534)
            read()
            said = "it was read"
        except InputError as error:
            said = str(error)
        finally:
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as file:
        return file.read().decode()


@pytest.fixture
def folder_of_root() -> Iterator[Path]:
    """A folder that another user may enter and not list, as home folders are. Each run of pytest that begins closes those
    above `tmp_path` again."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


@pytest.mark.skipif(os.getuid() != 0, reason="takes root, who may become another user")
@pytest.mark.parametrize("name", ["labels.csv", "weights.pt", "network.onnx", "dev-v1.1.json", "sound.wav"])
def test_a_file_that_this_user_may_not_read_is_said_to_be_so(name: str, folder_of_root: Path) -> None:
    path = folder_of_root / name
    path.write_bytes(b"x")
    with contextlib.suppress(InputError):
        READERS[name](path)  # imports what another user may not
    path.chmod(0o600)
    said = as_another_user(lambda: READERS[name](path))
    assert "permission denied" in said.lower()
    assert str(path) in said
    path.chmod(0o644)
    assert "permission denied" not in as_another_user(lambda: READERS[name](path)).lower()


@pytest.mark.skipif(os.getuid() != 0, reason="takes root, who may become another user")
@pytest.mark.parametrize("unreadable", ["imagenet", "imagenet/val"])
def test_a_folder_of_images_that_this_user_may_not_read_is_said_to_be_so(
    unreadable: str, folder_of_root: Path
) -> None:
    (folder_of_root / "imagenet" / "val").mkdir(parents=True)
    (folder_of_root / unreadable).chmod(0o700)
    said = as_another_user(lambda: imagenet("evaluation", folder_of_root / "imagenet"))
    assert "permission denied" in said.lower()
    assert str(folder_of_root / "imagenet") in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a": 1e999}', "1e999 is no finite number"),
        ('{"a": NaN}', "NaN is no finite number"),
        ('{"a": ' + "9" * 5000 + "}", "4300 digits"),
        ('{"a": ', "not JSON"),
        ('[{"b": 1, "a": 1, "b": 2}]', "the key 'b' twice"),
    ],
)
def test_json_that_no_number_or_stack_can_hold_is_refused(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(InputError, match=said):
        files.json_in(tmp_path / "x.json", "the file", "mend it")


def test_what_a_library_says_of_foreign_text_is_one_short_line_without_control_characters() -> None:
    with (
        pytest.raises(InputError) as raised,
        files.readable("the file", "/a", "mend it"),
    ):
        raise LookupError("\x1b[31mred\x1b[0m" + "x" * 10_000 + "\nsecond line")
    assert "\x1b" not in raised.value.what
    assert "second" not in raised.value.what
    assert len(raised.value.what) < 300


def test_no_more_of_a_large_file_is_read_than_its_kind_has(tmp_path: Path) -> None:
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(1 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="larger than 1 MiB"):
            read_bert_config(tmp_path / "config.json")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_nothing_of_a_file_is_read_that_is_larger_than_any_of_its_kind(tmp_path: Path) -> None:
    with (tmp_path / "network.onnx").open("wb") as file:
        file.truncate(64 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="larger than 32 MiB"):
            files.content(tmp_path / "network.onnx", "the network", "export it anew", 32 << 20)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_names_in_toml_that_the_parser_would_take_all_memory_for_are_refused_by_their_line(
    tmp_path: Path,
) -> None:
    path = tmp_path / "thresholds.toml"
    path.write_text("# thresholds\n" + "a." * 20_000 + "b = 1\n")
    with pytest.raises(InputError, match="line 2 has 40,005 characters"):
        files.toml_in(path, "the thresholds", "mend it")


def test_the_digest_of_what_cannot_be_read_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.onnx")

    with pytest.raises(InputError, match=r"model\.onnx"):
        digest(tmp_path / "model.onnx")
