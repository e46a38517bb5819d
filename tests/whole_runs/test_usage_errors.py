"""Wrong usage ends with one readable error and its exit status, without measurements."""

import re
from pathlib import Path

import numpy as np
import pytest

from reports.run.outcomes import STATUS
from tests.faults import classifier
from tests.whole_runs.suite import GIVEN, suite

OWN = """\
from tests.faults import classifier

classifier.SAMPLE_S = 0.0
MODELS = classifier.MODELS
"""
"""A file of a model whose samples take no time."""


def test_worse_model_fails_gate_and_shows_no_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, worse = tmp_path / "own.py", tmp_path / "worse.onnx"
    own.write_text(OWN)
    monkeypatch.setattr(classifier, "WEIGHTS", np.array([[1, -1], [1, -1], [1, -1], [-1, 1]], np.float32))
    classifier.write_network(worse)
    done = suite(
        *("--models", str(own), "--checkpoint", f"classifier={worse}", "--point-budget-s", "0.5"),
        *("-k", f"{GIVEN} and (conversion or accuracy or b001-c001)"),
        repos=tmp_path / "repos",
        results=tmp_path,
    )
    assert done.status == STATUS["accuracy"]
    assert re.search(r"served accuracy [\d.]+ % is below its floor of 98\.0 %", done.text)
    assert done.record(GIVEN).loads
    assert "worse.onnx, sha256" in done.record(GIVEN).build.weights


def test_bad_checkpoint_stops_run_with_one_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.pt"
    broken.write_bytes(b"PK\x03\x04 cut short")
    options = ("-k", "resnet50-micro and onnx", "--checkpoint", f"resnet50-micro={broken}")
    done = suite(*options, repos=tmp_path / "repos", results=tmp_path)
    assert done.status == pytest.ExitCode.USAGE_ERROR
    assert done.text.count(f"where: {broken}") == 1
    assert "Traceback" not in done.text


def test_unreachable_server_is_one_error(given: tuple[str, ...], tmp_path: Path) -> None:
    options = (*given, "-k", f"{GIVEN} and b001-c001", "--triton", "127.0.0.1:1")
    done = suite(*options, repos=tmp_path / "repos", results=tmp_path)
    assert done.status == STATUS["infrastructure"]
    assert "--triton 127.0.0.1:1" in done.text
    assert "Traceback" not in done.text
