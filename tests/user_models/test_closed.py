"""What a user gives and may not read, by its modes, is refused by its path: no part of it is taken for all."""

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
    for name in ("a", "more/b"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{name}.npy", np.ones(3, np.float32))
    (folder / "samples.toml").touch()
    return lambda: read_samples(folder, (Tensor("x", "FP32", (3,)),)).ids


def network(folder: Path) -> Callable[[], Any]:
    linear(folder / "onnx" / "model.onnx")
    return lambda: model_of("net", GivenNetwork(folder)).inputs


def repository(folder: Path) -> Callable[[], Any]:
    write_model(folder, "calling", "NAME = 'called'\n", config())
    (folder / "calling" / "1" / "parts").mkdir()
    (folder / "calling" / "1" / "parts" / "more.py").write_text("NAME = 'called'\n")
    write_model(folder, "called", "", config())
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


KINDS = {one.__name__: one for one in (samples, network, repository, bert, sentences, brains)}


@pytest.mark.parametrize("mode", [0, 0o111])
@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_folder_is_refused_or_read_as_if_it_were_open(kind: str, mode: int, tmp_path: Path) -> None:
    given = tmp_path / "given"
    read = KINDS[kind](given)
    whole = read()
    for folder in (given, *(path for path in sorted(given.rglob("*")) if path.is_dir())):
        with closed(folder, mode):
            try:
                found = read()
            except InputError as error:
                found = error
        if isinstance(found, InputError):
            assert str(folder) in str(found)
            assert "namei -l" in found.fix
        else:
            assert found == whole


@pytest.mark.parametrize("name", ["", "model.ckpt-1"])
def test_a_folder_of_checkpoints_that_may_not_be_listed_is_not_one_of_none(name: str, tmp_path: Path) -> None:
    (tmp_path / "model.ckpt-1.index").touch()
    with closed(tmp_path, 0o111), pytest.raises(InputError, check=lambda error: "namei -l" in error.fix):
        read_checkpoint(tmp_path / name)


def test_a_package_beside_files_of_models_is_refused_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    for path in (tmp_path / "own.py", tmp_path / "package" / "__init__.py"):
        path.write_text("MODELS = []\n")
    with (
        closed(tmp_path / "package"),
        pytest.raises(InputError, check=lambda error: "package/__init__.py" in error.where),
        with_models_of([tmp_path], ()),
    ):
        pass
