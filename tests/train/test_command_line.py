"""What whoever trains by the command line is told where it cannot begin."""

import errno
import os
from pathlib import Path

import pytest

from fixtures import train
from fixtures.spec import Model
from reports.record.arguments import INPUT


def test_a_python_without_the_packages_is_told_which_to_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    def lacks(_model: Model, _output: object) -> float:
        raise ModuleNotFoundError("No module named 'safetensors'", name="safetensors")

    monkeypatch.setattr(train, "train", lacks)
    with pytest.raises(SystemExit):
        train.main(["resnet50-micro", "--output", f"{tmp_path}/weights.safetensors"])

    said = capsys.readouterr().err
    assert "safetensors" in said
    assert ".tox/benchmarks/bin/python" in said


def test_a_place_that_cannot_be_written_to_is_refused_before_the_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(train, "train", lambda *_: pytest.fail("it is trained"))
    (tmp_path / "file").touch()

    with pytest.raises(SystemExit) as ended:
        train.main(["resnet50-micro", "--output", f"{tmp_path}/file/weights.safetensors"])

    assert ended.value.code == INPUT
    assert "weights.safetensors cannot be written: " in capsys.readouterr().err


def test_a_disk_that_is_full_after_the_training_is_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fill(_model: Model, output: Path) -> float:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(output))

    monkeypatch.setattr(train, "train", fill)
    with pytest.raises(SystemExit) as ended:
        train.main(["resnet50-micro", "--output", f"{tmp_path}/weights.safetensors"])

    assert ended.value.code == INPUT
    assert (
        "weights.safetensors cannot be written: No space left on device. Make room" in capsys.readouterr().err
    )
