"""A server that is killed in the middle of a case, in whole runs: what met its end, what went on, and what is said of it."""

from pathlib import Path

import pytest

from tests.whole_runs.killing import KILLED
from tests.whole_runs.suite import FAST, TRACE, Run, suite

pytestmark = pytest.mark.campaign
ENDED = "Triton was ended by SIGKILL, as where memory runs out"


def killed_run(where: str, selection: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run of a case, the stages of the selection alone, whose server is killed."""
    monkeypatch.setenv(KILLED, where)
    repos = Path(__file__).parents[2] / "model_repos"
    of_case = f"resnet50-micro and ts-trace and fp32 and ({selection})"
    plugin = ("-p", "tests.whole_runs.killing")
    return suite(*plugin, "-k", of_case, *FAST, repos=repos, results=folder / "results")


def test_load_points_that_a_server_did_not_outlive_are_measured_again_and_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = killed_run("load", "conversion or accuracy or offline", tmp_path, monkeypatch)

    assert done.status == 0, done.text
    record = done.record(TRACE)
    assert [(one.stage, one.how) for one in record.server_ends] == [
        ("offline", ENDED.removeprefix("Triton "))
    ]
    assert record.server_ends[0].log
    assert len(record.loads) == 2
    assert any(mark.code == "server-restarted" for load in record.loads for mark in load.marks)
    assert f"{ENDED} in the stage offline" in done.text, "in the summary"


def test_a_gate_that_meets_the_end_of_a_server_fails_and_the_next_stage_has_another_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = killed_run("accuracy", "conversion or accuracy or offline", tmp_path, monkeypatch)

    assert done.status == 11, done.text
    assert "2 failed" not in done.text
    record = done.record(TRACE)
    assert record.accuracy is None, "it is not repeated in silence"
    assert [one.stage for one in record.server_ends] == ["accuracy"]
    assert len(record.loads) == 2
    assert not any(mark.code == "server-restarted" for load in record.loads for mark in load.marks)


def test_a_case_that_ends_two_servers_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = killed_run("load-always", "online or offline", tmp_path, monkeypatch)

    assert done.status == 11, done.text
    assert "3 failed" in done.text
    assert "in an earlier test of the case" in done.text
    assert done.text.count("another is started in its place") == 1
