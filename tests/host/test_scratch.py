"""Scratch folders are private, and later runs remove those of killed runs."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fixtures.errors import SetupError
from fixtures.host import scratch
from tests.helpers import theirs

ROOT = Path(__file__).parents[2]
HOLDING = """\
import sys
from fixtures.host.scratch import scratch_folder
with scratch_folder("test") as folder:
    (folder / "file").write_text("content")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def run(temporary: Path) -> Iterator[Callable[[], "tuple[subprocess.Popen[str], Path]"]]:
    """Start a run that has a scratch folder until its input closes; returns the process and the folder."""
    started: list[subprocess.Popen[str]] = []

    def start() -> "tuple[subprocess.Popen[str], Path]":
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDING],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(temporary)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    yield start
    for process in started:
        with process:
            process.kill()


def test_only_folders_of_killed_runs_are_removed(
    run: Callable[[], "tuple[subprocess.Popen[str], Path]"],
) -> None:
    (killed, leftover), (ending, ended), (_, alive) = run(), run(), run()
    assert len({leftover, ended, alive}) == 3
    ending.communicate()
    assert not ended.exists()
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert scratch.remove_left_by_runs() == [leftover]
    assert not leftover.exists()
    assert (alive / "file").is_file()


def test_folders_of_other_names_and_links_stay(temporary: Path) -> None:
    runs = scratch.folder_of_user("runs")
    (temporary / "tritonproof-elsewhere").mkdir()
    (runs / "somebody-elses").mkdir()
    (runs / "tritonproof-link").symlink_to(temporary / "tritonproof-elsewhere")
    assert scratch.remove_left_by_runs() == []
    assert len(list(runs.iterdir())) == 2


def link(path: Path) -> None:
    path.with_name("elsewhere").mkdir(mode=0o700)
    path.symlink_to(path.with_name("elsewhere"))


def open_to_all(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def another_users(path: Path) -> None:
    path.mkdir(mode=0o700)
    theirs(path)


@pytest.mark.parametrize("below", ["", "runs"])
@pytest.mark.parametrize("put", [link, Path.touch, open_to_all, another_users])
def test_unsafe_folder_is_refused_and_unchanged(
    put: Callable[[Path], None], below: str, temporary: Path
) -> None:
    if below:
        scratch.folder_of_user()
    path = scratch.user_folder() / below
    put(path)
    before = path.lstat()
    for use in (scratch.scratch_folder("test").__enter__, scratch.remove_left_by_runs):
        if use is scratch.remove_left_by_runs and not below:
            continue  # it does not create the folder
        with pytest.raises(SetupError, check=lambda error: error.where == str(path)):
            use()
    after = path.lstat()
    assert (after.st_mode, after.st_uid, after.st_mtime) == (before.st_mode, before.st_uid, before.st_mtime)
    assert not list(temporary.rglob("tritonproof-test*"))


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_scratch_folders_are_private_for_any_umask(umask: int, temporary: Path) -> None:
    before = os.umask(umask)
    try:
        with scratch.scratch_folder("test") as folder:
            modes = [
                stat.S_IMODE(path.lstat().st_mode) for path in (folder.parent.parent, folder.parent, folder)
            ]
    finally:
        os.umask(before)
    assert modes == [0o700] * 3


@pytest.mark.parametrize("letter", [" ", "'", '"', "ü", ":", "$"])
def test_temporary_folder_with_special_characters_is_avoided(
    letter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"a{letter}b").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / f"a{letter}b"))
    with scratch.scratch_folder("test") as folder:
        assert letter not in str(folder)
