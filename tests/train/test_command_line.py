"""The training command reports what prevents training or saving."""

import errno
import os
from pathlib import Path

import pytest

from fixtures import train
from fixtures.spec import Model
from reports.record.commands import INPUT


def lacks_a_package(_model: Model, _output: Path) -> float:
    raise ModuleNotFoundError("No module named 'safetensors'", name="safetensors")


def fills_the_disk(_model: Model, output: Path) -> float:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(output))


def trains(_model: Model, _output: Path) -> float:
    pytest.fail("it is trained")


@pytest.mark.parametrize(
    ("training", "output", "named"),
    [
        (lacks_a_package, "weights.safetensors", ".tox/benchmarks/bin/python"),
        (fills_the_disk, "weights.safetensors", "weights.safetensors"),
        (trains, "file/weights.safetensors", "file/weights.safetensors"),
    ],
    ids=["no package", "disk full afterwards", "no place to write to, before the training"],
)
def test_failure_to_train_or_save_is_named(
    training: object,
    output: str,
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(train, "train", training)
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as ended:
        train.main(["resnet50-micro", "--output", f"{tmp_path}/{output}"])

    assert ended.value.code == INPUT
    assert named in capsys.readouterr().err
