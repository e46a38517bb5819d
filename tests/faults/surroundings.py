"""The surroundings of a run: full and odd folders, users, ports, locales and standard output."""

import os
import shutil
import subprocess

from tests.faults.another_user import (
    BECOME,
    cannot_become,
    give,
)
from tests.faults.place import OWN_PROOF, OWN_SERVED, PROOF, Ended, Place
from tests.faults.scenario import INFRASTRUCTURE, PASSED, REFUSED, Scenario, root_and
from tests.whole_runs.suite import ROOT

_ODD = "a blank, a 'quote' and an ümlaut"
_FAILED = (INFRASTRUCTURE, REFUSED)


def _mounted(name: str, script: str, statuses: tuple[int, ...], options: tuple[str, ...] = PROOF) -> Scenario:
    """A run with a mount that no other process sees; `$HERE` is the scenario's folder."""

    def act(place: Place) -> Ended:
        place.repos.mkdir(exist_ok=True)
        place.results.mkdir(exist_ok=True)
        for folder in ("full", "tmp"):
            (place.folder / folder).mkdir()
        return place.run(
            *options,
            before=("unshare", "--mount", "sh", "-c", f'{script}; exec "$@"', "sh"),
            environment={"HERE": str(place.folder), "TMPDIR": str(place.folder / "tmp")},
        )

    return Scenario(name, act, statuses, needs=_can_mount)


def _can_mount() -> str:
    if reason := root_and("unshare")():
        return reason
    done = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    )
    return "" if done.returncode == 0 else "must not mount a file system"


def _no_ports(place: Place) -> Ended:
    """A network of its own, which has only two ports to give."""
    limit_ports = (
        "ip link set lo up 2>/dev/null || ifconfig lo up; echo 40000 40001 > "
        "/proc/sys/net/ipv4/ip_local_port_range"
    )
    return place.run(*PROOF, before=("unshare", "--net", "sh", "-c", f'{limit_ports}; exec "$@"', "sh"))


def _as_another_user(place: Place) -> Ended:
    """A user who does not own the environment proves a case."""
    give(place)
    return place.run(*PROOF, before=BECOME, environment={"HOME": str(place.folder)})


def _odd_checkout(place: Place) -> Ended:
    """A blank, a quote and an umlaut in the path of the checkout."""
    checkout = place.folder / _ODD / "checkout"
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, files.decode().split("\0")):
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, checkout / name)
    return place.run(*OWN_SERVED, folder=checkout)


def _with_environment(name: str, changes: dict[str, str | None]) -> Scenario:
    return Scenario(name, lambda place: place.run(*PROOF, environment=changes), (PASSED,))


def _nobody_reads(place: Place) -> Ended:
    place.quiet = True
    reader, writer = os.pipe()
    os.close(reader)
    return place.run(*PROOF, stdout=writer)


SCENARIOS = [
    _mounted(
        "TMPDIR is full",
        "mount -t tmpfs -o size=16k none $TMPDIR; head -c 99999 /dev/zero > $TMPDIR/full",
        (PASSED, *_FAILED),
    ),
    _mounted("/dev/shm has 1 MiB", "mount -t tmpfs -o size=1m none /dev/shm", (PASSED, *_FAILED)),
    _mounted(
        "the folder of models is read-only", "mount -t tmpfs -o ro none $HERE/repos", _FAILED, OWN_PROOF
    ),
    Scenario("odd characters in the path of the checkout", _odd_checkout, (PASSED,)),
    Scenario("a user who does not own the environment", _as_another_user, (PASSED,), needs=cannot_become),
    _with_environment("an empty PATH and no HOME", {"PATH": "", "HOME": None}),
    _with_environment("the locale C", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    Scenario("no free port", _no_ports, _FAILED, needs=_can_mount),
    Scenario("nobody reads standard output", _nobody_reads, (PASSED, 1, 3, INFRASTRUCTURE, 120)),
]
