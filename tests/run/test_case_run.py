"""A case runs without pytest, as in CONTRIBUTING.md, and computes each value once."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from fixtures.against import other_builds
from fixtures.run.case_run import CaseRun
from fixtures.run.models import ModelRun, known, once
from tests.helpers import ROOT


def test_contributing_example_converts_serves_and_measures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (lines,) = re.findall(
        r"```python\n(from fixtures\.cases.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S
    )
    arguments = f'model_repos="{tmp_path}/repos", results="{tmp_path}/results", triton="embedded", '
    namespace: dict[str, Any] = {}

    exec(lines.replace("Settings.of(", f"Settings.of({arguments}"), namespace)

    built, scores, speed = capsys.readouterr().out.splitlines()
    assert built.startswith(f"{tmp_path}/repos/cpu/")
    assert "cpu-resnet50-micro-onnx-fp32 2.51.0 " in built
    assert "metric='top-1'" in scores
    assert speed.startswith("Estimate(value=")
    assert namespace["run"].server.process.poll() is not None, "it ends with the block"

    earlier = dataclasses.replace(namespace["settings"], against=other_builds.parse(f"{tmp_path}/repos"))
    case = namespace["case"]
    with ModelRun(case.model, case.target, earlier) as of_model, CaseRun(case, of_model) as run:
        other = run.other
        assert other is not None
        config = (other.build.folder / "config.pbtxt").resolve()
        assert config == tmp_path / "repos" / "cpu" / str(case) / "config.pbtxt"
        assert other.keeps_config


class Found:
    """Counts the computations of its values."""

    asked = 0

    @once
    def value(self) -> int:
        self.asked += 1
        return self.asked

    @once
    def broken(self) -> int:
        self.asked += 1
        raise ValueError(self.asked)


def test_value_and_error_are_computed_once() -> None:
    counter = Found()
    assert known(counter, "value") is None
    assert counter.value == counter.value == known(counter, "value") == 1
    for _ in range(2):
        with pytest.raises(ValueError, match="2"):
            assert counter.broken
    assert Found().value == 1, "each object has its own"
