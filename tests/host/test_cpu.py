"""The CPU clock: busy time by process, and priority."""

import os
import subprocess
import sys
import time

import pytest

from fixtures.host import cpu


def test_cpu_clock_attributes_busy_time() -> None:
    """This process, watched as the server, keeps a core busy; the clock counts that as the server's share."""
    read = cpu.clock(os.getpid())
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    usage = read()

    assert usage.server_s is not None
    assert 0.25 < usage.server_s <= usage.elapsed_s * len(os.sched_getaffinity(0)) + 0.1
    assert usage.busy_s >= 0.25
    assert usage.children_s == pytest.approx(0, abs=0.05)
    assert cpu.clock(None)().server_s is None


def test_priority_is_of_measuring_process() -> None:
    command = [sys.executable, "-c", "from fixtures.host import cpu; print(cpu.clock(None)().nice)"]

    def of(*nice: str) -> int:
        return int(subprocess.run([*nice, *command], capture_output=True, text=True, check=True).stdout)

    assert of("nice", "-n", "3") == min(19, of() + 3)
