"""The lock on a machine: measurements exclude everything, the rest goes on together."""

import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fixtures.host import locks

ROOT = Path(__file__).parents[2]

HOLDER = """\
import sys, time
from fixtures.host import locks
with locks.machine(name=sys.argv[1], exclusive=sys.argv[2] == "exclusive"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A machine that no other run knows."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def other(name: str) -> Iterator[Callable[[str], "subprocess.Popen[str]"]]:
    """Let another process hold the machine, "exclusive" or "shared", until its input closes."""
    started: list[subprocess.Popen[str]] = []

    def hold(how: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, name, how],
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


def is_free(name: str, *, exclusive: bool) -> bool:
    """Whether the machine can be had at once."""
    waits = []

    class WouldWaitError(Exception):
        pass

    def refuse() -> None:
        waits.append(1)
        raise WouldWaitError

    try:
        with locks.machine(name=name, exclusive=exclusive, waiting=refuse):
            return True
    except WouldWaitError:
        return False
    finally:
        assert len(waits) <= 1


def is_held(name: str) -> bool:
    """Whether another process cannot share the machine now."""
    code = "import sys; from fixtures.host import locks\nwith locks.machine(name=sys.argv[1], exclusive=False, waiting=sys.exit): pass"
    return (
        subprocess.run(
            [sys.executable, "-c", code + "; print('free')", name],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        == ""
    )


@pytest.mark.parametrize(
    ("held", "exclusive", "free"),
    [
        ("exclusive", True, False),
        ("exclusive", False, False),
        ("shared", True, False),
        ("shared", False, True),
    ],
)
def test_a_measurement_has_the_machine_to_itself(
    name: str, other: Callable[[str], object], held: str, exclusive: bool, free: bool
) -> None:
    other(held)

    assert is_free(name, exclusive=exclusive) is free


def test_other_names_do_not_share_a_lock(name: str, other: Callable[[str], object]) -> None:
    other("exclusive")

    assert is_free(f"{name}-other", exclusive=True)


def test_a_free_machine_is_not_waited_for(name: str) -> None:
    waited: list[bool] = []

    with locks.machine(name=name, exclusive=True, waiting=lambda: waited.append(True)):
        assert waited == []


def test_a_held_machine_is_waited_for_and_then_had(
    name: str, other: Callable[[str], "subprocess.Popen[str]"]
) -> None:
    holder = other("exclusive")
    waiting, had = threading.Event(), threading.Event()

    def wait() -> None:
        with locks.machine(name=name, exclusive=True, waiting=waiting.set):
            had.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(30)
    assert not had.is_set()
    assert holder.stdin is not None
    holder.stdin.close()
    assert had.wait(30)
    thread.join()


def test_the_machine_is_free_after_the_block_even_if_it_fails(name: str) -> None:
    with pytest.raises(KeyError), locks.machine(name=name, exclusive=True):
        raise KeyError

    assert is_free(name, exclusive=True)


@pytest.mark.parametrize("exclusive", [True, False])
def test_who_measures_may_load_a_model_meanwhile(name: str, exclusive: bool) -> None:
    with locks.machine(name=name, exclusive=True):
        assert is_free(name, exclusive=exclusive), "for this process"

        assert is_held(name), "for others, after the inner block too"


def test_a_killed_process_holds_nothing(name: str, other: Callable[[str], "subprocess.Popen[str]"]) -> None:
    holder = other("exclusive")
    assert not is_free(name, exclusive=True)

    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()

    assert is_free(name, exclusive=True)
