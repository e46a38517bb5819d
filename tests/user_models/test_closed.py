"""What a user gives and may not read, by another's modes, is refused by its path: no part of it is taken for all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.data.brains import brats
from fixtures.data.speech import ljspeech
from fixtures.errors import InputError
from fixtures.model_files.adding import with_models_of
from fixtures.models.bert.network import checkpoint_files
from fixtures.models.bert.samples import squad
from fixtures.models.resnet50_tf.tf1_checkpoint import read_checkpoint
from fixtures.spec import Tensor
from fixtures.user_models.linked import link_repository
from fixtures.user_models.onnx_file import GivenNetwork, model_of
from fixtures.user_models.repository import called_by, models_in
from fixtures.user_models.samples import read_samples
from tests.helpers import closed
from tests.models import decathlon
from tests.user_models.networks import linear
from tests.user_models.repositories import config, write_model


def samples(folder: Path) -> Callable[[], Any]:
    for name in ("a", "more/b", "more/deep/c"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{name}.npy", np.ones(3, np.float32))
    (folder / "samples.toml").touch()
    return lambda: read_samples(folder, (Tensor("x", "FP32", (3,)),)).ids


def network(folder: Path) -> Callable[[], Any]:
    (folder / "onnx").mkdir(parents=True)
    linear(folder / "onnx" / "model.onnx")
    return lambda: model_of("net", GivenNetwork(folder)).inputs


def repository(folder: Path) -> Callable[[], Any]:
    write_model(folder, "calling", "NAME = 'called'\n", config())
    (folder / "calling" / "1" / "parts").mkdir()
    (folder / "calling" / "1" / "parts" / "more.py").write_text("NAME = 'bare'\n")
    write_model(folder, "called", "", config())
    (folder / "bare" / "1").mkdir(parents=True)
    (folder / "bare" / "1" / "model.onnx").touch()
    places = iter(range(100))

    def read() -> Any:
        found = {one.name: one for one in models_in(folder, "--repository")}
        if problems := [one.problem for one in found.values() if one.problem]:
            raise InputError(problems[0], fix=problems[0])
        place = folder.parent / f"links-{next(places)}"
        place.mkdir()
        link_repository(found.values(), place)
        linked = sorted(str(path.relative_to(place)) for path in place.rglob("*"))
        return [(one.backend, called_by(one, found)) for one in found.values()], linked

    return read


def bert(folder: Path) -> Callable[[], Any]:
    folder.mkdir()
    for name in ("config.json", "pytorch_model.bin", "vocab.txt"):
        (folder / name).touch()
    return lambda: checkpoint_files(folder)


def sentences(folder: Path) -> Callable[[], Any]:
    root, names = folder / "LJSpeech-1.1", sorted(ljspeech.test_part())
    (root / "wavs").mkdir(parents=True)
    (root / "metadata.csv").write_text("".join(f"{name}|a|a b c\n" for name in names))
    for name in names:
        (root / "wavs" / f"{name}.wav").touch()
    return lambda: ljspeech.recordings(folder, "evaluation", 200)


def brains(folder: Path) -> Callable[[], Any]:
    names = [f"patient{number}" for number in range(5)]
    for part in ("imagesTr", "labelsTr"):
        (folder / part).mkdir(parents=True)
        for name in names:
            (folder / part / f"{name}.nii.gz").touch()
    decathlon.describe(folder, names)
    return lambda: brats.patients(folder, "evaluation")


def models(folder: Path) -> Callable[[], Any]:
    (folder / "package").mkdir(parents=True)
    for path in (folder / "own.py", folder / "package" / "__init__.py"):
        path.write_text("MODELS = []\n")

    def read() -> Any:
        with with_models_of([folder], ()) as models:
            return models

    return read


KINDS = {one.__name__: one for one in (samples, network, repository, bert, sentences, brains)}


def said_or(read: Callable[[], Any]) -> Any:
    """What is read, or the error for the reader."""
    try:
        return read()
    except InputError as error:
        return error


@pytest.mark.parametrize("mode", [0, 0o444, 0o111])
@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_another_s_is_refused_or_read_as_if_it_were_open(
    kind: str, mode: int, tmp_path: Path
) -> None:
    given = tmp_path / "given"
    read = KINDS[kind](given)
    whole = read()
    for folder in (given, *(path for path in sorted(given.rglob("*")) if path.is_dir())):
        with closed(folder, mode):
            found = said_or(read)
        if isinstance(found, InputError):
            assert str(folder) in str(found)
            assert "permission denied" in str(found)
            assert "namei -l" in found.fix
        else:
            assert found == whole


@pytest.mark.parametrize("mode", [0, 0o111])
def test_a_folder_of_checkpoints_that_may_not_be_listed_is_not_one_of_none(mode: int, tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "model.ckpt-1.index").touch()
    for path in (folder, folder / "model.ckpt-1"):
        with closed(folder, mode), pytest.raises(InputError, match=f"permission denied\n.*{folder}"):
            read_checkpoint(path)


@pytest.mark.parametrize("split", ["evaluation", "training"])
def test_a_data_set_of_questions_is_refused_by_its_file(split: Any, tmp_path: Path) -> None:
    read = bert(tmp_path / "checkpoint")
    assert read()
    (tmp_path / "checkpoint" / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    data = tmp_path / "data"
    data.mkdir()
    for name in ("dev-v1.1.json", "train-v1.1.json"):
        (data / name).write_text('{"data": []}')
    with closed(data), pytest.raises(InputError, match=f"permission denied\n.*{data}"):
        squad(split, data, tmp_path / "checkpoint")


def test_a_package_beside_files_of_models_is_refused_by_its_file(tmp_path: Path) -> None:
    read = models(tmp_path / "given")
    with (
        closed(tmp_path / "given" / "package"),
        pytest.raises(InputError, match=r"denied\n.*package/__init__\.py"),
    ):
        read()
