"""Helper programs: output is captured, and hanging ones are ended."""

import sys
from pathlib import Path

import psutil
import pytest

from fixtures.host.process import ProgramError, run
from tests.helpers import wait_until

ENDED_S = 60.0
"""Bounds a hang; what is waited for takes a second."""


def python(source: str) -> list[str]:
    return [sys.executable, "-S", "-c", source]


def test_output_and_status_of_program_are_kept() -> None:
    ended = run(
        python(r"import os, sys; os.write(1, b'out\xff'); os.write(2, b'err\xff'); sys.exit(3)"),
        limit_s=ENDED_S,
    )
    assert (ended.status, ended.output, ended.text, ended.error_text) == (3, b"out\xff", "out�", "err�")


def test_hanging_program_and_its_children_are_ended(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    source = (
        "import os, time; first = os.getpid(); child = os.fork(); "
        f"open({str(pids)!r}, 'a').write(f'{{os.getpid()}} '); time.sleep(600)"
    )
    with pytest.raises(ProgramError):
        run(python(source), limit_s=2)
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 2
    wait_until(lambda: not any(map(is_running, started)))


def test_missing_program_is_named() -> None:
    with pytest.raises(ProgramError, match="nowhere"):
        run(["/nowhere"], limit_s=ENDED_S)


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
