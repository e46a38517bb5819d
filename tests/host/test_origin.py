"""A measurement records its run, machine and commit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.host import origin
from fixtures.host.origin import commit_of
from tests.helpers import git


def test_new_file_makes_checkout_dirty(tmp_path: Path) -> None:
    assert commit_of.__wrapped__(tmp_path) == (None, None)
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    commit, clean = commit_of.__wrapped__(tmp_path)
    assert (len(str(commit)), clean) == (40, True)
    (tmp_path / "model.py").touch()
    assert commit_of.__wrapped__(tmp_path) == (commit, False)


def test_environment_overrides_host_and_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(origin.COMMIT, "a" * 40 + "-dirty")
    monkeypatch.setenv(origin.HOST, "node7")
    assert commit_of.__wrapped__(tmp_path) == ("a" * 40, False)
    assert origin.origin("cpu").host == "node7"
    assert origin.origin("cpu") == origin.origin("cpu"), "all measurements of a process are of one run"


WORKER = """
import time
from pathlib import Path
from fixtures.plugin.recorder import run_of

def test_one(request, worker_id):
    time.sleep(1.1 * int(worker_id[2:]))  # starts are told in seconds
    Path(f"{worker_id}.txt").write_text(" ".join(run_of(request.config)))
"""


def test_all_workers_share_run_and_start(tmp_path: Path) -> None:
    (tmp_path / "test_workers.py").write_text(WORKER)
    plugins = ("-p", "xdist", "-p", "fixtures.plugin.recorder", "-p", "no:cacheprovider")
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
