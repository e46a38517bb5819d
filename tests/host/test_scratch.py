"""Folders of a run are its own, and those of a killed one go."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fixtures.errors import SetupError
from fixtures.host import private, scratch

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
    """Start a run that has a folder until its input closes; gives the process and the folder."""
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


def test_the_folder_of_a_killed_run_goes_and_that_of_one_that_is_alive_stays(
    run: Callable[[], "tuple[subprocess.Popen[str], Path]"],
) -> None:
    killed, left = run()
    _, alive = run()
    killed.send_signal(signal.SIGKILL)
    killed.wait()

    assert scratch.remove_left_by_runs() == [left]

    assert not left.exists()
    assert (alive / "file").is_file()


def test_a_run_that_ends_leaves_nothing(run: Callable[[], "tuple[subprocess.Popen[str], Path]"]) -> None:
    process, folder = run()
    process.communicate()

    assert not folder.exists()
    assert scratch.remove_left_by_runs() == []


def test_folders_of_other_names_and_links_stay(temporary: Path) -> None:
    runs = private.folder_of_user("runs")
    (temporary / "tritonproof-elsewhere").mkdir()
    (runs / "somebody-elses").mkdir()
    (runs / "tritonproof-link").symlink_to(temporary / "tritonproof-elsewhere")

    assert scratch.remove_left_by_runs() == []
    assert len(list(runs.iterdir())) == 2


def test_where_the_folder_of_runs_leads_elsewhere_nothing_is_removed(temporary: Path) -> None:
    (temporary / "precious" / "tritonproof-work").mkdir(parents=True)
    private.folder_of_user()
    (private.user_folder() / "runs").symlink_to(temporary / "precious")

    with pytest.raises(SetupError, match="symbolic link"):
        scratch.remove_left_by_runs()
    assert (temporary / "precious" / "tritonproof-work").is_dir()


def test_two_folders_for_one_purpose_have_two_names(temporary: Path) -> None:
    with scratch.scratch_folder("test") as one, scratch.scratch_folder("test") as other:
        assert one != other


def test_a_folder_within_another_goes_with_it_at_the_latest(tmp_path: Path) -> None:
    with scratch.scratch_folder("test", tmp_path) as folder:
        assert folder.parent == tmp_path
    assert not folder.exists()
