"""A measurement says which run, machine and commit it comes from."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.host import origin
from fixtures.host.origin import commit_of
from tests.helpers import git


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git repository of one commit."""
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    return tmp_path


def test_a_checkout_as_it_was_committed_is_clean(checkout: Path) -> None:
    commit, clean = commit_of.__wrapped__(checkout)
    assert commit is not None
    assert len(commit) == 40
    assert clean


def test_a_file_that_git_does_not_know_makes_it_unclean(checkout: Path) -> None:
    (checkout / "model.py").touch()
    assert commit_of.__wrapped__(checkout)[1] is False


def test_a_folder_outside_any_repository_has_no_commit(tmp_path: Path) -> None:
    assert commit_of.__wrapped__(tmp_path) == (None, None)


def test_the_environment_tells_the_commit_of_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(origin.COMMIT, "a" * 40 + "-dirty")
    assert commit_of.__wrapped__(tmp_path) == ("a" * 40, False)


def test_a_container_may_be_told_the_name_of_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(origin.HOST, "node7")
    assert origin.origin("cpu").host == "node7"


WORKER = """
import time
from pathlib import Path
from fixtures.run.recorder import run_of

def test_one(request, worker_id):
    time.sleep(1.1 * int(worker_id[2:]))  # starts are told in seconds
    Path(f"{worker_id}.txt").write_text(" ".join(run_of(request.config)))
"""


def test_all_workers_of_a_run_say_the_same_run_and_start(tmp_path: Path) -> None:
    (tmp_path / "test_workers.py").write_text(WORKER)
    plugins = ("-p", "xdist", "-p", "fixtures.run.recorder", "-p", "no:cacheprovider")
    options = ("-q", "-n2", "--dist=each", *plugins)
    own = {
        "PYTHONPATH": os.pathsep.join([str(origin.SUITE), *sys.path]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    subprocess.run(
        [sys.executable, "-m", "pytest", f"--rootdir={tmp_path}", *options],
        cwd=tmp_path,
        env=os.environ | own,
        check=True,
    )
    first, second = ((tmp_path / f"gw{number}.txt").read_text() for number in range(2))
    assert first == second


def test_all_measurements_of_a_process_are_of_one_run() -> None:
    assert origin.origin("cpu") == origin.origin("cpu")
