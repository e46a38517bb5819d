"""Programs that call the suite, started by a test and ended in every way a program can end."""

import os
import signal
import subprocess
import sys

from tests.conftest import Household

ENDED_S = 60.0
"""Bounds a hang; what was started is gone within a few tenths of a second, on a busy machine within seconds."""


def end(caller: "subprocess.Popen[bytes]", how: str) -> None:
    """End a caller that leads its own process group."""
    if how == "ctrl-c":
        os.killpg(caller.pid, signal.SIGINT)
    else:
        caller.send_signal(
            {"kill": signal.SIGKILL, "terminate": signal.SIGTERM, "abort": signal.SIGABRT}[how]
        )
    assert caller.wait(ENDED_S) != 0


def start_caller(household: Household, source: str, expected: bytes) -> "subprocess.Popen[bytes]":
    """Run a calling program until it prints the expected line."""
    caller = subprocess.Popen(
        [sys.executable, "-c", source],
        env=household.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    household.callers.append(caller)
    assert caller.stdout is not None
    with caller.stdout as lines:
        for line in lines:
            if line.strip() == expected:
                return caller
    raise AssertionError(f"the caller ended with {caller.wait()} before it said {expected!r}")
