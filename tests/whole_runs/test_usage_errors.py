"""Wrong usage ends with one readable error and its exit status."""

import re
from pathlib import Path

import numpy as np
import pytest

from reports.run import STATUS
from tests.faults import classifier
from tests.whole_runs.suite import GIVEN, suite


def test_worse_model_fails_gate_and_shows_no_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifier, "WEIGHTS", np.array([[1, -1], [1, -1], [1, -1], [-1, 1]], np.float32))
    case = "cpu-left-onnx-fp32"
    selection = ("-k", f"{case} and (conversion or accuracy or b001-c001)", "--point-budget-s", "0.5")
    done = suite(*classifier.write_two(tmp_path), *selection, repos=tmp_path / "repos", results=tmp_path)
    assert done.status == STATUS["accuracy"]
    assert re.search(r"served accuracy [\d.]+ % is below its floor of 98\.0 %", done.text)
    assert done.record(case).loads
    assert "network.onnx, sha256" in done.record(case).build.weights


def test_bad_checkpoint_stops_run_with_one_error(tmp_path: Path) -> None:
    options = classifier.write_two(tmp_path)
    broken = tmp_path / "network.onnx"
    broken.write_bytes(broken.read_bytes()[:40])
    done = suite(*options, "-k", "left and (fp32 or int8)", repos=tmp_path / "repos", results=tmp_path)
    assert done.status == pytest.ExitCode.USAGE_ERROR
    assert done.text.count(f"where: {broken}") == 1
    assert "Traceback" not in done.text


def test_unreachable_server_is_one_error(given: tuple[str, ...], tmp_path: Path) -> None:
    options = (*given, "-k", f"{GIVEN} and b001-c001", "--triton", "127.0.0.1:1")
    done = suite(*options, repos=tmp_path / "repos", results=tmp_path)
    assert done.status == STATUS["infrastructure"]
    assert "--triton 127.0.0.1:1" in done.text
    assert "Traceback" not in done.text
