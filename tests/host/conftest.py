"""Machine locks that no other run uses, and another process that holds them."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fixtures.host import locks

ROOT = Path(__file__).parents[2]

HOLDER = """\
import sys
from pathlib import Path
from fixtures.host import locks
with locks.hold_machine(folder=Path(sys.argv[1]), exclusive=sys.argv[2] == "exclusive"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder that represents a machine without other runs."""
    folder = tmp_path / "above" / "machine"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def other(place: Path) -> Iterator[Callable[[str], "subprocess.Popen[str]"]]:
    """Let another process hold the machine, "exclusive" or "shared", until its input closes."""
    started: list[subprocess.Popen[str]] = []

    def hold(mode: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(place), mode],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in started:
        with process:
            process.kill()


def is_free(place: Path, *, exclusive: bool) -> bool:
    """Whether the machine can be locked without waiting."""
    waits = []

    class WouldWaitError(Exception):
        pass

    def refuse(_holder: str) -> None:
        waits.append(1)
        raise WouldWaitError

    try:
        with locks.hold_machine(folder=place, exclusive=exclusive, waiting=refuse):
            return True
    except WouldWaitError:
        return False
    finally:
        assert len(waits) <= 1
