"""The machine lock: exclusive for measurements, shared for other work, and waiters learn its holder."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import present, wait_until
from tests.host.conftest import HOLDER, Beside
from tritonproof.host import locks

Other = Callable[[str], "subprocess.Popen[str]"]


def is_free(machine: Path, *, exclusive: bool) -> bool:
    """Whether the machine can be locked without waiting."""
    try:
        with locks.hold_machine(folder=machine, exclusive=exclusive, on_wait=lambda _holder: sys.exit()):
            return True
    except SystemExit:
        return False


def is_free_for_others(machine: Path, beside: Beside) -> bool:
    """Whether another process can share the machine now."""
    return beside(HOLDER, machine, "shared").communicate()[0] == "held\n"


@pytest.mark.parametrize("held", ["exclusive", "shared"])
@pytest.mark.parametrize("exclusive", [True, False])
def test_measurement_locks_the_machine_exclusively(
    machine: Path, other: Other, held: str, exclusive: bool, tmp_path: Path
) -> None:
    other(held)
    assert is_free(machine, exclusive=exclusive) is (held == "shared" and not exclusive)
    elsewhere = tmp_path / "another" / "machine"
    elsewhere.mkdir(parents=True)
    assert is_free(elsewhere, exclusive=True)


def test_shared_requests_do_not_overtake_a_measurement(machine: Path, other: Other, beside: Beside) -> None:
    holder, waits, acquired = other("shared"), threading.Event(), threading.Event()

    def measure() -> None:
        with locks.hold_machine(folder=machine, exclusive=True, on_wait=lambda _holder: waits.set()):
            acquired.set()

    thread = threading.Thread(target=measure)
    thread.start()
    assert waits.wait(30)
    assert not is_free_for_others(machine, beside)
    present(holder.stdin).close()  # it lets go
    assert acquired.wait(30)
    thread.join()
    assert is_free_for_others(machine, beside)


@pytest.mark.parametrize("exclusive", [True, False])
def test_measuring_process_may_load_a_model(machine: Path, exclusive: bool, beside: Beside) -> None:
    with locks.hold_machine(folder=machine, exclusive=True, on_wait=pytest.fail):
        assert is_free(machine, exclusive=exclusive), "for this process"
        assert not is_free_for_others(machine, beside), "after the inner block too"


def test_forked_child_does_not_keep_the_lock(machine: Path) -> None:
    with locks.hold_machine(folder=machine, exclusive=True, on_wait=pytest.fail):
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
    try:
        assert is_free(machine, exclusive=True)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_killed_process_holds_no_lock(machine: Path, other: Other) -> None:
    holder = other("exclusive")
    assert not is_free(machine, exclusive=True)
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert is_free(machine, exclusive=True)


def test_waiting_is_told_with_the_holder(machine: Path, other: Other) -> None:
    holder, holders = other("exclusive"), list[str]()

    def on_wait(who: str) -> None:
        holders.append(who)
        present(holder.stdin).close()  # it lets go

    with locks.hold_machine(folder=machine, exclusive=True, on_wait=on_wait):
        pass
    (who,) = holders
    assert f"process {holder.pid} of" in who


def test_waiting_process_is_not_a_holder(tmp_path: Path) -> None:
    status = tmp_path.stat()
    inode = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    table = (
        f"1: FLOCK  ADVISORY  WRITE 71 {inode} 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 72 {inode} 0 EOF\n"
        f"2: POSIX  ADVISORY  READ 73 {inode} 0 EOF\n3: FLOCK  ADVISORY  WRITE 74 ff:ff:{status.st_ino} 0 EOF\n"
    )
    assert locks.holders(status, table) == [71]


def test_command_of_holder_is_printed_without_control_characters(beside: Beside) -> None:
    process = beside("input()", "\x1b[31mred\n")
    wait_until(lambda: "red" in locks.describe_process(process.pid))
    assert locks.describe_process(process.pid).isprintable()
