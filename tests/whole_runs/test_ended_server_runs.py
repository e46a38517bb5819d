"""Whole runs whose server is killed: its case fails, and the next one has its own server."""

from pathlib import Path

import pytest

from tests.whole_runs.killing import KILLED
from tests.whole_runs.suite import FAST, ONNX, TRACE, Run, suite

pytestmark = pytest.mark.campaign


def killed_run(where: str, selection: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run of the selected stages of two cases, in which the first server to reach a stage is killed."""
    monkeypatch.setenv(KILLED, where)
    repos = Path(__file__).parents[2] / "model_repos"
    cases = f"resnet50-micro and not tf and (ts-trace or onnx) and fp32 and ({selection})"
    plugin = ("-p", "tests.whole_runs.killing")
    return suite(*plugin, "-k", cases, *FAST, repos=repos, results=folder / "results")


@pytest.mark.parametrize("where", ["load", "accuracy"])
def test_killed_server_fails_only_its_case(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = killed_run(where, "conversion or accuracy or offline", tmp_path, monkeypatch)

    assert done.status == 11, done.text
    assert "Triton was ended by SIGKILL" in done.text
    assert "in an earlier test of the case" in done.text
    lost, kept = sorted((done.record(TRACE), done.record(ONNX)), key=lambda record: len(record.loads))
    assert not lost.loads
    assert len(kept.loads) == 2
    assert kept.accuracy is not None
    assert (lost.accuracy is None) == (where == "accuracy"), "it is not repeated in silence"
