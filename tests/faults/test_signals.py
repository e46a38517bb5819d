"""An interrupted run reports its results, cleans up and ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers import ROOT, Household, junit, pytest_command, wait_until

HANG_S = 60.0
"""Bounds a hang; the awaited events take one to three seconds."""
TESTS = """
import pathlib, time
import pytest

@pytest.fixture(scope="session")
def server():
    yield
    time.sleep(1)  # a second signal comes meanwhile
    pathlib.Path("cleaned-up").touch()

def test_first(server):
    pass

def test_second(server):
    pathlib.Path("begun").touch()
    time.sleep(600)
"""
TOX = """
import os, subprocess, sys
environment = os.environ | {"TOX_ENV_NAME": "benchmarks"}
run = subprocess.Popen(sys.argv[1:], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
for line in run.stdout:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
sys.exit(run.wait())
"""
"""Starts a command and prints its output, as tox does."""


def command(folder: Path) -> list[str]:
    """The command of a run of two tests, the second of which waits for a signal."""
    (folder / "test_it.py").write_text(TESTS)
    options = ("--noconftest", "-c", os.devnull, "--rootdir", ".", "--junit-xml", "junit.xml")
    return pytest_command("-v", *options, "-p", "fixtures.interrupts", "test_it.py")


def start(words: list[str], household: Household, folder: Path) -> "subprocess.Popen[bytes]":
    """Start a run outside of tox, which writes to `folder`/log."""
    without_tox = dict.fromkeys([name for name in household.environment if name.startswith("TOX_")])
    return household.start(words, folder / "log", cwd=folder, PYTHONPATH=str(ROOT), **without_tox)


def has_told_and_cleaned_up(folder: Path) -> bool:
    """Whether a run that ended in its second test wrote JUnit's file and cleaned up."""
    outcomes = {test.outcome for test in junit(folder / "junit.xml").values()}
    return (folder / "cleaned-up").exists() and outcomes == {"passed"}


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM], ids=lambda value: value.name)
def test_signal_ends_run_with_summary(sign: signal.Signals, household: Household, tmp_path: Path) -> None:
    """A second signal does no harm."""
    run = start(command(tmp_path), household, tmp_path)
    wait_until((tmp_path / "begun").exists, HANG_S, (tmp_path / "log").read_text)
    run.send_signal(sign)
    time.sleep(0.3)
    run.send_signal(sign)

    assert run.wait(HANG_S) == pytest.ExitCode.INTERRUPTED
    text = (tmp_path / "log").read_text()
    assert f"ended by {sign.name}" in text
    assert "1 passed" in text
    assert "Traceback" not in text
    assert has_told_and_cleaned_up(tmp_path)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL], ids=lambda value: value.name)
def test_run_ends_with_its_tox(sign: signal.Signals, household: Household, tmp_path: Path) -> None:
    through_a_shell = ["sh", "-c", '"$@"; exit $?', "sh", *command(tmp_path)]
    tox = start([sys.executable, "-c", TOX, *through_a_shell], household, tmp_path)
    wait_until((tmp_path / "begun").exists, HANG_S, (tmp_path / "log").read_text)
    tox.send_signal(sign)
    tox.wait(HANG_S)
    assert household.left(HANG_S) == []
    assert has_told_and_cleaned_up(tmp_path)
