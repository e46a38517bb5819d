"""What a process wrote when it was killed is found and goes; what one writes right now stays."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reports.record import files, half_written

WRITING = """\
import os, sys
from pathlib import Path
from reports.record import files

def wait(_descriptor):
    print("writes", flush=True)
    sys.stdin.read()

os.fsync = wait
files.replace(Path(sys.argv[1]), b"new")
"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A results folder with a file in it."""
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "a.json").write_bytes(b"old")
    return tmp_path


def writer(results: Path) -> "subprocess.Popen[bytes]":
    """A process that is in the middle of writing that file."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITING, str(results / "cpu" / "a.json")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"writes\n"
    return process


def names(results: Path) -> list[str]:
    return [path.name for path in (results / "cpu").iterdir()]


def test_what_a_process_killed_while_it_wrote_has_left_goes(results: Path) -> None:
    with writer(results) as process:
        process.send_signal(signal.SIGKILL)
    assert len(names(results)) == 2

    (left,) = half_written.found(results)
    assert half_written.remove(results) == [left]
    assert names(results) == ["a.json"]


def test_what_is_written_right_now_stays_and_comes_to_its_end(results: Path) -> None:
    with writer(results) as process:
        assert half_written.found(results) == []
        assert half_written.remove(results) == []
        process.communicate()

    assert process.returncode == 0
    assert names(results) == ["a.json"]
    assert (results / "cpu" / "a.json").read_bytes() == b"new"


def test_other_hidden_files_stay(results: Path) -> None:
    hidden = results / "cpu" / ".notes.tmp"
    hidden.touch()
    link = results / "cpu" / f".a-{'0' * 32}.tmp"
    link.symlink_to(hidden)

    assert half_written.remove(results) == []
    assert {hidden.name, link.name} <= set(names(results))


def test_a_file_is_written_though_the_system_has_no_locks(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)

    files.replace(results / "cpu" / "a.json", b"new")

    assert (results / "cpu" / "a.json").read_bytes() == b"new"
    assert names(results) == ["a.json"]
