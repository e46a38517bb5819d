"""What goes wrong around a run while it is under way: files that go or fill up, clocks, and who holds the machine."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from reports.record.arguments import UNREADABLE
from tests.faults import own_machine
from tests.faults.another_user import become, cannot_become_one_who_reads
from tests.faults.place import DOUBLER, OWN, OWN_SERVED, PROOF, SLOW, SLOW_PROOF, Ended, Place
from tests.faults.scenario import ENDED, INFRASTRUCTURE, PASSED, REFUSED, Scenario
from tests.faults.signals import reach

_FAILED = (INFRASTRUCTURE, REFUSED)
_INTERRUPTED = (ENDED, -signal.SIGINT)
"""Ended by a Ctrl-C; by the signal itself where that comes when the run has ended and its process has not."""


def _clock_jumps(hours: int) -> Scenario:
    """The system's clock is set while the case is evaluated; a stand-in, as setting it needs the machine."""

    def act(place: Place) -> Ended:
        place.file(
            "jumping.py",
            "import sys, time\n"
            "real, since = time.time, time.monotonic()\n"
            "def jumped():\n"
            # gRPC hands times to its core, which is written in C and has the real clock.
            "    asks = sys._getframe(1).f_globals.get('__name__', '')\n"
            f"    late = time.monotonic() - since > 3 and not asks.startswith('grpc')\n"
            f"    return real() + ({hours * 3600} if late else 0)\n"
            "time.time = jumped\n"
            "time.time_ns = lambda: int(jumped() * 1e9)\n",
        )
        return place.run(*SLOW_PROOF, "-p", "jumping", environment={"PYTHONPATH": str(place.folder)})

    return Scenario(f"the clock jumps by {hours:+d} h", act, (PASSED,))


def _gone(name: str, options: tuple[str, ...], said: str, what: Callable[[Place], Path]) -> Scenario:
    """What a run needs is deleted while it evaluates."""

    def act(place: Place) -> Ended:
        place.start(*options)
        place.says(said)
        shutil.rmtree(what(place))
        return place.ends()

    return Scenario(f"{name} is deleted in mid-run", act, (PASSED, *_FAILED))


def _record_spoilt(name: str, statement: str) -> Scenario:
    """The record is no record any more when the run comes to its end."""

    def act(place: Place) -> Ended:
        path = place.results / "cpu" / f"{DOUBLER}.json"
        place.file(
            "spoiling.py",
            f"from pathlib import Path\npath = Path({str(path)!r})\ndef pytest_sessionfinish():\n    {statement}\n",
        )
        summary = place.folder / "run.md"
        ended = place.run(
            *PROOF, "-p", "spoiling", "--summary", str(summary), environment={"PYTHONPATH": str(place.folder)}
        )
        assert summary.is_file(), "there is no summary of what ran"
        return ended

    return Scenario(f"the record is {name} at the end", act, (UNREADABLE,))


def _superseded(place: Place) -> Ended:
    """A record of another machine is put aside and stays readable."""
    place.run(*PROOF)
    path = place.results / "cpu" / f"{DOUBLER}.json"
    path.write_text(path.read_text().replace('"cpu": "', '"cpu": "Another '))
    ended = place.run(*PROOF)
    kept = [
        one for one in place.results.rglob("*.json") if "superseded" in str(one) and "samples" not in one.name
    ]
    assert kept, "the other machine's record is gone"
    assert place.reports("tables", "--results", str(place.results)).status == PASSED
    return ended


def _gone_while_measuring(name: str, what: Callable[[Place], Path]) -> Scenario:
    """What a run needs is deleted while it measures, and a while after it is told to end."""

    def act(place: Place) -> Ended:
        reach(place, "measuring")
        shutil.rmtree(what(place), ignore_errors=True)  # the run may put something there meanwhile
        with contextlib.suppress(subprocess.TimeoutExpired):
            place.runs[-1].wait(8)
        place.runs[-1].send_signal(signal.SIGINT)
        ended = place.ends()
        place.household.temporary.mkdir(exist_ok=True)
        return ended

    return Scenario(f"{name} is deleted while it measures", act, (*_INTERRUPTED, *_FAILED), may_leave=True)


def _memory_fills(place: Place) -> Ended:
    """Nothing more fits into shared memory while a run measures; then there is room again."""
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
    """The disk of the records is full when one is written again; what was written before stays readable."""
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


def _two_cases(place: Place) -> Ended:
    """Two cases at once in one checkout, with one folder of records."""
    one = place.start(*SLOW_PROOF)
    log = place.log
    two = place.run(*OWN_SERVED)
    assert one.wait(240) == PASSED, log.read_text()
    assert place.record(SLOW)
    assert place.record(OWN)
    return two


def _hold(place: Place, seconds: float, before: "tuple[str, ...]" = ()) -> int:
    """The process id of another run that holds the machine for so long."""
    holder = place.start(
        words=[
            sys.executable,
            "-c",
            "import time\nfrom fixtures.host import locks\n"
            f"with locks.hold_machine(exclusive=True):\n    print('held', flush=True)\n    time.sleep({seconds})\n",
        ],
        before=before,
    )
    place.says("held")
    return holder.pid


def _told_of_the_holder(place: Place) -> Ended:
    """Another run holds the machine: who waits says so again and again, and for whom."""
    holder = _hold(place, 40)
    place.start(*PROOF)
    place.says(str(holder), 60)
    place.wait_for(lambda: place.log.read_text().count(f"process {holder}") >= 2, "a second line")
    return place.ends()


def _holder_is_killed(place: Place, before: "tuple[str, ...]" = ()) -> Ended:
    """Who is waited for is killed, and the run goes on."""
    holder = _hold(place, 600, before)
    place.start(*PROOF)
    place.says(f"process {holder}", 60)
    os.kill(holder, signal.SIGKILL)
    return place.ends()


def _stale_lock(place: Place) -> Ended:
    """A run that was killed held the locks of the machine and of the build."""
    place.start(*SLOW_PROOF)
    place.says("answers without labels")
    place.runs[-1].send_signal(signal.SIGKILL)
    place.runs[-1].wait()
    return place.run(*PROOF)


SCENARIOS = [
    _clock_jumps(+24),
    _clock_jumps(-24),
    _gone("the build", OWN_SERVED, "evaluate through Triton", lambda place: place.build),
    _gone("the folder of records", SLOW_PROOF, "answers without labels", lambda place: place.results),
    _gone_while_measuring("the folder of records", lambda place: place.results),
    _gone_while_measuring("the folder of models", lambda place: place.repos),
    _gone_while_measuring("the temporary folder", lambda place: place.household.temporary),
    Scenario(
        "shared memory is full while it measures",
        _memory_fills,
        (*_INTERRUPTED, *_FAILED),
        needs=_needs_own_memory,
    ),
    Scenario(
        "the disk is full when a record is written",
        _disk_fills,
        (*_INTERRUPTED, *_FAILED),
        needs=_needs_own_memory,
    ),
    _record_spoilt("deleted", "path.unlink()"),
    _record_spoilt("made unreadable", "path.write_text('[')"),
    _record_spoilt("a folder", "path.unlink(); path.mkdir()"),
    _record_spoilt("a FIFO", "path.unlink(); __import__('os').mkfifo(path)"),
    Scenario("a record of another machine is there", _superseded, (PASSED,)),
    Scenario("two cases at once in one checkout", _two_cases, (PASSED,)),
    Scenario("another run holds the machine", _told_of_the_holder, (PASSED,)),
    Scenario("another run holds the machine and is killed", _holder_is_killed, (PASSED,)),
    Scenario(
        "another user's run holds the machine and is killed",
        lambda place: _holder_is_killed(place, become()),
        (PASSED,),
        says="user 12345",
        needs=cannot_become_one_who_reads,
    ),
    Scenario("a killed run held the locks", _stale_lock, (PASSED,)),
]
