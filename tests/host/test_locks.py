"""The lock on a machine: measurements exclude everything, the rest goes on together."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.host import locks
from tests.host.conftest import is_free

ROOT = Path(__file__).parents[2]


def is_held(place: Path) -> bool:
    """Whether another process cannot share the machine now."""
    code = (
        "import sys; from pathlib import Path; from fixtures.host import locks\n"
        "with locks.hold_machine(folder=Path(sys.argv[1]), exclusive=False, waiting=lambda _: sys.exit()): pass"
    )
    return (
        subprocess.run(
            [sys.executable, "-c", code + "; print('free')", str(place)],
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
    place: Path, other: Callable[[str], object], held: str, exclusive: bool, free: bool
) -> None:
    other(held)

    assert is_free(place, exclusive=exclusive) is free


def test_what_other_folders_stand_for_is_not_shared(other: Callable[[str], object], tmp_path: Path) -> None:
    other("exclusive")

    elsewhere = tmp_path / "another" / "machine"
    elsewhere.mkdir(parents=True)
    assert is_free(elsewhere, exclusive=True)


def test_a_free_machine_is_not_waited_for(place: Path) -> None:
    waited: list[bool] = []

    with locks.hold_machine(folder=place, exclusive=True, waiting=lambda _holder: waited.append(True)):
        assert waited == []


def test_a_held_machine_is_waited_for_and_then_had(
    place: Path, other: Callable[[str], "subprocess.Popen[str]"]
) -> None:
    holder = other("exclusive")
    waiting, had = threading.Event(), threading.Event()

    def wait() -> None:
        with locks.hold_machine(folder=place, exclusive=True, waiting=lambda _holder: waiting.set()):
            had.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(30)
    assert not had.is_set()
    assert holder.stdin is not None
    holder.stdin.close()
    assert had.wait(30)
    thread.join()


def test_the_machine_is_free_after_the_block_even_if_it_fails(place: Path) -> None:
    with pytest.raises(KeyError), locks.hold_machine(folder=place, exclusive=True):
        raise KeyError

    assert is_free(place, exclusive=True)


@pytest.mark.parametrize("exclusive", [True, False])
def test_who_measures_may_load_a_model_meanwhile(place: Path, exclusive: bool) -> None:
    with locks.hold_machine(folder=place, exclusive=True):
        assert is_free(place, exclusive=exclusive), "for this process"

        assert is_held(place), "for others, after the inner block too"


def test_a_child_that_was_forked_meanwhile_does_not_keep_the_machine(place: Path) -> None:
    with locks.hold_machine(folder=place, exclusive=True):
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
    try:
        assert is_free(place, exclusive=True)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_killed_process_holds_nothing(place: Path, other: Callable[[str], "subprocess.Popen[str]"]) -> None:
    holder = other("exclusive")
    assert not is_free(place, exclusive=True)

    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()

    assert is_free(place, exclusive=True)


def test_who_comes_later_to_share_does_not_overtake_who_waits_to_measure(
    place: Path, other: Callable[[str], "subprocess.Popen[str]"]
) -> None:
    holder = other("shared")
    waiting, had = threading.Event(), threading.Event()

    def measure() -> None:
        with locks.hold_machine(folder=place, exclusive=True, waiting=lambda _holder: waiting.set()):
            had.set()

    thread = threading.Thread(target=measure)
    thread.start()
    assert waiting.wait(30)

    assert is_held(place)

    assert holder.stdin is not None
    holder.stdin.close()
    assert had.wait(30)
    thread.join()
    assert not is_held(place)


def test_time_is_counted_as_waited_only_where_another_process_has_what_is_asked_for(
    place: Path, other: Callable[[str], "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    holder = other("exclusive")
    began_s, before, own_before_s = time.monotonic(), locks.waited_s(), locks.own_time_s()

    def let_go(_holder: str) -> None:
        assert holder.stdin is not None
        holder.stdin.close()

    with locks.hold_machine(folder=place, exclusive=True, waiting=let_go):
        pass
    waited = locks.waited_s()
    with locks.hold_machine(folder=place, exclusive=True):
        pass

    assert locks.waited_s() == waited > before
    own_s, all_s = locks.own_time_s() - own_before_s, time.monotonic() - began_s
    assert 0 < own_s <= all_s - (waited - before)
