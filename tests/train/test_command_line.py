"""What whoever trains by the command line is told where it cannot begin."""

import pytest

from fixtures import train
from fixtures.spec import Model


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


def test_help_lists_the_models_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        train.main(["--help"])

    assert capsys.readouterr().out.count("bert-dist4l-micro") == 1
