"""The surroundings of a run: full, odd and vanishing folders, users, ports, clocks, locales and standard output."""

import contextlib
import functools
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests import own_machine
from tests.faults.place import (
    ENDED,
    INFRASTRUCTURE,
    OWN_SERVED,
    PASSED,
    PROOF,
    REFUSED,
    SLOW,
    SLOW_PROOF,
    Place,
    ProgramResult,
    Scenario,
)
from tests.faults.signals import reach
from tests.helpers import ROOT

_ODD = "a blank, a 'quote' and an ümlaut"
_FAILED = (INFRASTRUCTURE, REFUSED)
_INTERRUPTED = (ENDED, -signal.SIGINT, *_FAILED)
"""Ended by Ctrl-C, or by the signal itself if it comes between the end of the run and that of its process; or
failed before it came."""


def _mounted(name: str, script: str) -> Scenario:
    """A run with a mount that no other process sees, and a temporary folder of its own."""

    def act(place: Place) -> ProgramResult:
        temporary = place.folder / "tmp"
        temporary.mkdir()
        before = ("unshare", "--mount", "sh", "-c", f'{script}; exec "$@"', "sh")
        return place.run(*PROOF, before=before, environment={"TMPDIR": str(temporary)})

    return Scenario(name, act, (PASSED, *_FAILED), needs=_can_mount)


@functools.cache
def _can_mount() -> str:
    if os.getuid() != 0 or not shutil.which("unshare"):
        return "needs root and the program unshare"
    done = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    )
    return "" if done.returncode == 0 else "must not mount a file system"


def _no_ports(place: Place) -> ProgramResult:
    """A network of its own, which has only two ports to give."""
    limit_ports = (
        "ip link set lo up 2>/dev/null || ifconfig lo up; echo 40000 40001 > "
        "/proc/sys/net/ipv4/ip_local_port_range"
    )
    return place.run(*PROOF, before=("unshare", "--net", "sh", "-c", f'{limit_ports}; exec "$@"', "sh"))


def _odd_checkout(place: Place) -> ProgramResult:
    """A blank, a quote and an umlaut in the path of the checkout."""
    checkout = place.folder / _ODD / "checkout"
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, files.decode().split("\0")):
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, checkout / name)
    return place.run(*OWN_SERVED, folder=checkout)


def _bare_environment(place: Place) -> ProgramResult:
    c_locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    return place.run(*PROOF, environment={"PATH": "", "HOME": None, **c_locale})


def _nobody_reads(place: Place) -> ProgramResult:
    place.quiet = True
    reader, writer = os.pipe()
    os.close(reader)
    return place.run(*PROOF, stdout=writer)


def _clock_jumps(place: Place) -> ProgramResult:
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

    def act(place: Place) -> ProgramResult:
        place.start(*options)
        place.says(stage)
        shutil.rmtree(folder_of(place))
        return place.ends()

    return Scenario(f"{name} is deleted in mid-run", act, (PASSED, *_FAILED))


def _temporary_gone(place: Place) -> ProgramResult:
    """The temporary folder is deleted while a run measures; later the run is interrupted."""
    reach(place, "measuring")
    shutil.rmtree(place.household.temporary, ignore_errors=True)  # the run may put something there meanwhile
    with contextlib.suppress(subprocess.TimeoutExpired):
        place.runs[-1].wait(8)
    place.runs[-1].send_signal(signal.SIGINT)
    ended = place.ends()
    place.household.temporary.mkdir(exist_ok=True)
    return ended


def _memory_fills(place: Place) -> ProgramResult:
    """Shared memory is full for five seconds while a run measures."""
    reach(place, "measuring")
    status = os.statvfs("/dev/shm")
    used = (status.f_blocks - status.f_bfree) * status.f_frsize
    resize = ["mount", "/dev/shm", "-o"]
    try:
        subprocess.run([*resize, f"remount,size={used + 4096}"], check=True)
        time.sleep(5)
    finally:
        subprocess.run([*resize, "remount,size=50%"], check=True)
    place.runs[-1].send_signal(signal.SIGINT)
    return place.ends()


def _needs_own_memory() -> str:
    return "" if own_machine.enter() else "needs root, and a kernel that lets it mount"


def _disk_fills(place: Place) -> ProgramResult:
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


# --- another user of the machine, whom only root can become --------------------------------------------------


_USER = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups")
"""Runs a command as a user who owns nothing."""
_READER = (*_USER, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
"""The same for a user who reads all, as root's folders may hide this environment."""


@functools.cache
def _cannot_become(user: tuple[str, ...]) -> str:
    if os.getuid() != 0 or not shutil.which("setpriv"):
        return "needs root and the program setpriv"
    command = [*user, sys.executable, "-c", "import pytest, fixtures"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    return "another user cannot read this environment" if done.returncode else ""


def _as_another_user(place: Place) -> ProgramResult:
    """A user who does not own the environment proves a case."""
    for path in place.folder.parents:
        if path.stat().st_uid == os.getuid() and not path.stat().st_mode & stat.S_IXOTH:
            path.chmod(0o711)
    for folder in (place.folder, place.household.temporary, place.repos, place.results):
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 12345, 12345)
    return place.run(*PROOF, before=_USER, environment={"HOME": str(place.folder)})


def _holder_is_killed(place: Place) -> ProgramResult:
    """Another user's run that holds the machine is killed, and the waiting run goes on."""
    code = (
        "import time\nfrom fixtures.host import locks\n"
        "with locks.hold_machine(exclusive=True):\n    print('held', flush=True)\n    time.sleep(600)\n"
    )
    holder = place.start(words=[sys.executable, "-c", code], before=_READER)
    place.says("held")
    place.start(*PROOF)
    place.says(f"process {holder.pid}", 60)
    holder.kill()
    return place.ends()


SCENARIOS = [
    _mounted(
        "TMPDIR is full", "mount -t tmpfs -o size=16k none $TMPDIR; head -c 99999 /dev/zero > $TMPDIR/full"
    ),
    _mounted("/dev/shm has 1 MiB", "mount -t tmpfs -o size=1m none /dev/shm"),
    Scenario("odd characters in the path of the checkout", _odd_checkout, (PASSED,)),
    Scenario("an empty PATH, no HOME, and the locale C", _bare_environment, (PASSED,)),
    Scenario("no free port", _no_ports, _FAILED, _can_mount),
    Scenario("nobody reads standard output", _nobody_reads, (PASSED, 1, 3, INFRASTRUCTURE, 120)),
    Scenario("the clock jumps back by a day", _clock_jumps, (PASSED,)),
    _gone("the build", OWN_SERVED, "evaluate through Triton", lambda place: place.build),
    _gone("the folder of records", SLOW_PROOF, "answers without labels", lambda place: place.results),
    Scenario(
        "the temporary folder is deleted while it measures", _temporary_gone, _INTERRUPTED, may_leave=True
    ),
    Scenario("shared memory is full while it measures", _memory_fills, _INTERRUPTED, _needs_own_memory),
    Scenario("the disk is full when a record is written", _disk_fills, _INTERRUPTED, _needs_own_memory),
    Scenario(
        "a user who does not own the environment",
        _as_another_user,
        (PASSED,),
        needs=lambda: _cannot_become(_USER),
    ),
    Scenario(
        "another user's run holds the machine and is killed",
        _holder_is_killed,
        (PASSED,),
        needs=lambda: _cannot_become(_READER),
    ),
]
