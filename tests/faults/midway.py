"""Faults around a run: vanishing files, full disks, clocks, and other users of the machine."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests import own_machine
from tests.faults.another_user import become, cannot_become_one_who_reads
from tests.faults.place import OWN_SERVED, PROOF, SLOW, SLOW_PROOF, Ended, Place
from tests.faults.scenario import ENDED, INFRASTRUCTURE, PASSED, REFUSED, Scenario
from tests.faults.signals import reach

_FAILED = (INFRASTRUCTURE, REFUSED)
_INTERRUPTED = (ENDED, -signal.SIGINT)
"""Ended by Ctrl-C, or by the signal itself if it comes between the end of the run and that of its process."""


def _clock_jumps(place: Place) -> Ended:
    """The clock is set back during the evaluation, by a stand-in: the real one is the whole machine's."""
    place.file(
        "jumping.py",
        "import sys, time\n"
        "real, since = time.time, time.monotonic()\n"
        "def jumped():\n"
        # gRPC passes times to its core in C, which has the real clock.
        "    asks = sys._getframe(1).f_globals.get('__name__', '')\n"
        "    late = time.monotonic() - since > 3 and not asks.startswith('grpc')\n"
        "    return real() - (86400 if late else 0)\n"
        "time.time = jumped\n"
        "time.time_ns = lambda: int(jumped() * 1e9)\n",
    )
    return place.run(*SLOW_PROOF, "-p", "jumping", environment={"PYTHONPATH": str(place.folder)})


def _gone(name: str, options: tuple[str, ...], stage: str, folder_of: Callable[[Place], Path]) -> Scenario:
    """A folder that a run needs is deleted while it evaluates."""

    def act(place: Place) -> Ended:
        place.start(*options)
        place.says(stage)
        shutil.rmtree(folder_of(place))
        return place.ends()

    return Scenario(f"{name} is deleted in mid-run", act, (PASSED, *_FAILED))


def _temporary_gone(place: Place) -> Ended:
    """The temporary folder is deleted while a run measures; later the run is interrupted."""
    reach(place, "measuring")
    shutil.rmtree(place.household.temporary, ignore_errors=True)  # the run may put something there meanwhile
    with contextlib.suppress(subprocess.TimeoutExpired):
        place.runs[-1].wait(8)
    place.runs[-1].send_signal(signal.SIGINT)
    ended = place.ends()
    place.household.temporary.mkdir(exist_ok=True)
    return ended


def _memory_fills(place: Place) -> Ended:
    """Shared memory is full for five seconds while a run measures."""
    reach(place, "measuring")
    status = os.statvfs("/dev/shm")
    used = (status.f_blocks - status.f_bfree) * status.f_frsize
    try:
        _resize("/dev/shm", str(used + 4096))
        time.sleep(5)
    finally:
        _resize("/dev/shm", "50%")
    place.runs[-1].send_signal(signal.SIGINT)
    return place.ends()


def _resize(memory: str, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", memory], check=True)


def _needs_own_memory() -> str:
    return "" if own_machine.enter() else "needs root, and a kernel that lets it mount"


def _disk_fills(place: Place) -> Ended:
    """The disk is full when a record is written again; the record from before stays readable."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place.results)], check=True)
    try:
        reach(place, "measuring")
        subprocess.run(
            ["sh", "-c", "cat /dev/zero > full"], cwd=place.results, stderr=subprocess.DEVNULL, check=False
        )
        time.sleep(3)
        place.runs[-1].send_signal(signal.SIGINT)
        ended = place.ends()
        assert place.record(SLOW).loads, "what was measured before is gone"
    finally:
        subprocess.run(["umount", "--lazy", str(place.results)], check=True)
    return ended


def _hold(place: Place, seconds: float, before: "tuple[str, ...]" = ()) -> int:
    """The process id of another run that holds the machine for some seconds."""
    holder = place.start(
        words=[
            sys.executable,
            "-c",
            "import time\nfrom fixtures.host import locks\nwith locks.hold_machine(exclusive=True):\n    "
            f"print('held', flush=True)\n    time.sleep({seconds})\n",
        ],
        before=before,
    )
    place.says("held")
    return holder.pid


def _holder_is_killed(place: Place, before: "tuple[str, ...]" = ()) -> Ended:
    """The run that holds the machine is killed, and the waiting run goes on."""
    holder = _hold(place, 600, before)
    place.start(*PROOF)
    place.says(f"process {holder}", 60)
    os.kill(holder, signal.SIGKILL)
    return place.ends()


SCENARIOS = [
    Scenario("the clock jumps back by a day", _clock_jumps, (PASSED,)),
    _gone("the build", OWN_SERVED, "evaluate through Triton", lambda place: place.build),
    _gone("the folder of records", SLOW_PROOF, "answers without labels", lambda place: place.results),
    Scenario(
        "the temporary folder is deleted while it measures",
        _temporary_gone,
        (*_INTERRUPTED, *_FAILED),
        may_leave=True,
    ),
    Scenario(
        "shared memory is full while it measures",
        _memory_fills,
        (*_INTERRUPTED, *_FAILED),
        "",
        _needs_own_memory,
    ),
    Scenario(
        "the disk is full when a record is written",
        _disk_fills,
        (*_INTERRUPTED, *_FAILED),
        "",
        _needs_own_memory,
    ),
    Scenario("another run holds the machine and is killed", _holder_is_killed, (PASSED,)),
    Scenario(
        "another user's run holds the machine and is killed",
        lambda place: _holder_is_killed(place, become()),
        (PASSED,),
        needs=cannot_become_one_who_reads,
    ),
]
