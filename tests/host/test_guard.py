"""No process under the guard outlives its caller."""

import contextlib
import mmap
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import ENDED_S, ROOT, Household, command_line, end, give_to_another_user, wait_until
from tritonproof.host import guard, scratch
from tritonproof.host.process import guarded

STAY = "\ntime.sleep(600)"
STUBBORN = (
    f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True){STAY}"
)
DAEMON = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    os._exit(0)
os.wait()
print("up", flush=True)
"""
MAPPING = """
import mmap, sys, time
file = open(sys.argv[1], "wb+")
file.truncate(4096)
kept = mmap.mmap(file.fileno(), 4096)
print("up", flush=True)
time.sleep(600)
"""
MANY = """
import subprocess, time
kept = [subprocess.Popen(["sleep", "600"]) for _ in range(50)]
print("up", flush=True)
time.sleep(600)
"""

CALLER = """
import os, pathlib, sys, time
sys.path.insert(0, {root!r})
from tritonproof.host.process import guarded
with open({output!r}, "wb") as output:
    with guarded({command!r}, environment=os.environ, output=output, grace_s=0.2) as process:
        while b"up" not in pathlib.Path({output!r}).read_bytes():
            time.sleep(0.01)
        {then}
"""


def python(source: str, *arguments: str) -> list[str]:
    """The command that runs a piece of Python."""
    return [sys.executable, "-S", "-c", source, *arguments]


@contextlib.contextmanager
def running(household: Household, command: list[str], **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """The command under the guard, once it has printed that it is up."""
    log = household.temporary / "output"
    options = {"environment": household.environment, "grace_s": 0.2, **options}
    with log.open("wb") as output, guarded(command, output=output, **options) as process:
        wait_until(lambda: b"up" in log.read_bytes(), ENDED_S, log.read_text)
        yield process


@pytest.fixture
def segment() -> Iterator[Path]:
    """The name of a shared-memory segment that no other test uses."""
    path = scratch.SHARED_MEMORY_FOLDER / f"test-{uuid.uuid4().hex}"
    yield path
    path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("end_of_program", "status"),
    [("raise SystemExit(3)", 3), ("import os; os.abort()", 128 + signal.SIGABRT)],
)
def test_guard_exits_with_shell_status(household: Household, end_of_program: str, status: int) -> None:
    with running(household, python(f"print('up', flush=True); {end_of_program}")) as process:
        assert process.wait(ENDED_S) == status


@pytest.mark.parametrize(
    "source",
    [STUBBORN, DAEMON, DAEMON + STAY, MANY],
    ids=["ignores-sigterm", "daemon-of-the-dead", "daemon-of-the-living", "50-children"],
)
def test_block_end_leaves_no_process(household: Household, source: str) -> None:
    with running(household, python(source)) as process:
        # If the command has ended by itself, the guard ends its leftover processes at once.
        assert household.processes() or process.wait(ENDED_S) == 0
    assert household.left(0) == []


def test_command_may_end_on_sigterm(household: Household, tmp_path: Path) -> None:
    farewell = "lambda *_: (open(sys.argv[1], 'w').close(), sys.exit())"
    polite = f"import signal, sys, time; signal.signal(signal.SIGTERM, {farewell}); print('up', flush=True)"
    with running(household, python(polite + STAY, str(tmp_path / "farewell")), grace_s=ENDED_S):
        pass
    assert (tmp_path / "farewell").exists()


def test_command_that_cannot_start_is_named(household: Household, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with (
        log.open("wb") as output,
        guarded(["/nowhere/server"], environment=household.environment, output=output, grace_s=1) as process,
    ):
        assert process.wait(ENDED_S) == 127
    assert "/nowhere/server" in log.read_text()


def test_folder_is_removed_and_cleanup_runs_after_an_error(household: Household, tmp_path: Path) -> None:
    folder, touched = tmp_path / "its", tmp_path / "with blank"
    (folder / "own").mkdir(parents=True)
    with (
        pytest.raises(KeyboardInterrupt, match=r"\(True, False\)"),
        running(household, python(STUBBORN), remove=folder, cleanup=["touch", str(touched)]),
    ):
        raise KeyboardInterrupt(folder.exists(), touched.exists())
    assert not folder.exists()
    assert touched.exists()
    assert household.left(0) == []


def test_segments_with_given_names_or_used_by_command_are_removed(
    household: Household, segment: Path
) -> None:
    with running(household, python(STUBBORN), segments=[f"{segment.name[:-3]}.*"]):
        segment.write_bytes(b"left behind")
    assert not segment.exists()
    with running(household, python(MAPPING, str(segment))):
        assert segment.exists()
    assert not segment.exists()


def test_segment_of_another_process_or_older_than_the_command_stays(
    household: Household, segment: Path
) -> None:
    command = python(MAPPING, str(segment))
    with running(household, command, segments=[segment.name]), segment.open("rb+") as file:
        mapping = mmap.mmap(file.fileno(), 4096)
    assert segment.exists()
    mapping.close()
    hour_ago = time.time() - 3600
    os.utime(segment, (hour_ago, hour_ago))
    with running(household, python(STUBBORN), segments=[segment.name]):
        pass
    assert segment.exists()


def test_segment_of_another_user_stays(segment: Path) -> None:
    segment.touch()
    give_to_another_user(segment)
    assert guard.remove_segments([str(segment)]) == []
    assert segment.exists()


def start_caller(household: Household, source: str) -> "subprocess.Popen[bytes]":
    """Run a calling program until it prints that it is ready."""
    log = household.temporary / "caller"
    caller = household.start([sys.executable, "-c", source], log)
    wait_until(lambda: b"ready\n" in log.read_bytes(), ENDED_S, log.read_text)
    return caller


def calling(household: Household, source: str, then: str) -> str:
    """A program that runs a piece of Python under the guard, and then does something else."""
    output = str(household.temporary / "output")
    return CALLER.format(root=str(ROOT), output=output, command=python(source), then=then)


@pytest.mark.parametrize("how", ["kill", "ctrl-c", "terminate", "abort"])
@pytest.mark.parametrize("source", [STUBBORN, DAEMON + STAY], ids=["ignores-sigterm", "daemon"])
def test_caller_end_leaves_no_process(household: Household, how: str, source: str) -> None:
    code = calling(household, source, "print('ready', flush=True); time.sleep(600)")
    end(start_caller(household, code), how)
    assert household.left(ENDED_S) == []


def test_forked_child_of_caller_does_not_keep_the_command(household: Household) -> None:
    then = "pid = os.fork(); pid and print('ready', flush=True); time.sleep(600)"
    code = calling(household, STUBBORN, then)
    end(start_caller(household, code), "kill")
    wait_until(lambda: len(household.processes()) == 1, ENDED_S)
    assert [command_line(process)[2] for process in household.processes()] == [code]


def test_terminal_ctrl_c_reaches_only_the_caller(household: Household) -> None:
    with running(household, python(STUBBORN)):
        groups = {os.getpgid(process.pid) for process in household.processes()}
    assert len(groups) == 1
    assert os.getpgrp() not in groups


def test_command_dies_with_its_guard(household: Household) -> None:
    with running(household, python(STUBBORN)) as process:
        process.kill()
        assert household.left(ENDED_S) == []


def test_block_end_cleans_up_after_a_killed_guard(
    household: Household, segment: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "its"
    folder.mkdir()
    with running(household, python(MANY), segments=[segment.name], remove=folder) as process:
        segment.write_bytes(b"left behind")
        process.kill()
    assert household.left(ENDED_S) == []
    assert not segment.exists()
    assert not folder.exists()


def test_guard_ignores_signals(household: Household) -> None:
    with running(household, python(STUBBORN)) as process:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process.send_signal(number)
        time.sleep(0.3)
        assert process.poll() is None
