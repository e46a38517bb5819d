"""What a killed Triton leaves in /tmp is removed, and nothing that may still be in use."""

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.host.process import SWEEP
from fixtures.serve import cleanup
from fixtures.serve.launch import Choice
from fixtures.serve.server import serve
from tests.conftest import DEPLOYMENT, DOUBLING, MakeBuild

LONG_AGO_S = 3600.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a backend made an hour ago."""
    made = tmp_path / "python_env_aB3xYz"
    made.mkdir()
    then = time.time() - LONG_AGO_S
    os.utime(made, (then, then))
    return made


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[None]:
    """This process, as one that has the Python backend loaded."""
    library = tmp_path / "libtriton_python.so"
    library.write_bytes(b"\0" * mmap.PAGESIZE)
    with library.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        yield


@pytest.fixture
def no_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which no Triton runs."""
    monkeypatch.setattr(cleanup, "_backends_started", lambda: iter(()))


def test_an_empty_folder_without_a_backend_is_an_orphan(folder: Path, no_backends: None) -> None:
    assert cleanup.orphans(folder.parent) == [folder]


def test_a_folder_older_than_every_backend_is_an_orphan(folder: Path, backend: None) -> None:
    assert cleanup.orphans(folder.parent) == [folder]


def test_a_folder_that_a_backend_alive_may_have_made_stays(folder: Path, backend: None) -> None:
    os.utime(folder)

    assert cleanup.orphans(folder.parent) == []


def test_a_folder_that_holds_something_stays(folder: Path, no_backends: None) -> None:
    (folder / "0").mkdir()

    assert cleanup.orphans(folder.parent) == []


@pytest.mark.parametrize("name", ["python_env_mine", "python_env_backups", "my_python_env_aB3xYz"])
def test_other_names_stay(tmp_path: Path, no_backends: None, name: str) -> None:
    (tmp_path / name).mkdir()

    assert cleanup.orphans(tmp_path) == []


def test_a_folder_of_another_user_stays(
    folder: Path, no_backends: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)

    assert cleanup.orphans(folder.parent) == []


def test_a_link_stays(folder: Path, tmp_path: Path, no_backends: None) -> None:
    link = tmp_path / "python_env_LiNkEd"
    link.symlink_to(folder)

    assert link not in cleanup.orphans(tmp_path)


def test_orphans_are_removed(folder: Path, no_backends: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup.orphans, "__defaults__", (folder.parent,))

    assert cleanup.main() == 0
    assert not folder.exists()


def test_the_age_of_a_backend_is_that_of_its_process(backend: None) -> None:
    import psutil

    own = psutil.Process().create_time()

    assert any(abs(started - own) < cleanup._SLACK_S for started in cleanup._backends_started())


def test_a_server_that_served_leaves_no_folder(make_build: MakeBuild, tmp_path: Path) -> None:
    build = make_build(tmp_path / "models", "swept", DOUBLING)
    before = set(cleanup.FOLDERS.glob("python_env_*"))
    with serve(Choice("embedded"), tmp_path / "models", tmp_path / "log", device="cpu") as server:
        server.load(build, DEPLOYMENT, "online")
        made = set(cleanup.FOLDERS.glob("python_env_*")) - before
    assert made
    assert not made & set(cleanup.orphans())  # where another Triton that is alive may have made it, it stays


def test_the_command_needs_nothing_but_the_standard_library() -> None:
    done = subprocess.run(SWEEP, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert SWEEP[0] == sys.executable
