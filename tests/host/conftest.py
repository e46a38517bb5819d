"""Programs that run beside a test until it ends, and machine locks that no other run uses."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers import ROOT, present

Beside = Callable[..., "subprocess.Popen[str]"]
"""`beside(code, *arguments, **variables)`: another Python of this checkout, which has a pipe on both sides."""

HOLDER = """\
import sys
from pathlib import Path
from tritonproof.host import locks
with locks.hold_machine(folder=Path(sys.argv[1]), exclusive=sys.argv[2] == "exclusive", on_wait=sys.exit):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def beside() -> Iterator[Beside]:
    with contextlib.ExitStack() as stack:

        def start(code: str, *arguments: object, **variables: str) -> "subprocess.Popen[str]":
            command, own = [sys.executable, "-c", code, *map(str, arguments)], os.environ | variables
            pipe = subprocess.PIPE
            process = subprocess.Popen(command, cwd=ROOT, env=own, stdin=pipe, stdout=pipe, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder that represents a machine without other runs."""
    folder = tmp_path / "above" / "machine"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def other(machine: Path, beside: Beside) -> Callable[[str], "subprocess.Popen[str]"]:
    """Let another process hold the machine, "exclusive" or "shared", until its input closes."""

    def hold(mode: str) -> "subprocess.Popen[str]":
        process = beside(HOLDER, machine, mode)
        assert present(process.stdout).readline() == "held\n"
        return process

    return hold
