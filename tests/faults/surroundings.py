"""What a run finds around it: folders, limits, terminals, clocks, and other programs on the machine."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.another_user import (
    BECOME,
    become,
    cannot_become,
    cannot_become_one_who_reads,
    give,
)
from tests.faults.place import OWN_PROOF, OWN_SERVED, PROOF, Ended, Place
from tests.faults.scenario import INFRASTRUCTURE, PASSED, REFUSED, Scenario, program, root_and
from tests.whole_runs.suite import ROOT

_ODD = "a blank, a 'quote' and an ümlaut"
_FAILED = (INFRASTRUCTURE, REFUSED)


def _temporary(
    name: str, make: Callable[[Path], object], statuses: tuple[int, ...], says: str = ""
) -> Scenario:
    """TMPDIR is such a folder."""

    def act(place: Place) -> Ended:
        path = place.household.temporary / name
        make(path)
        ended = place.run(*PROOF, environment={"TMPDIR": str(path)})
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.is_symlink() or path.exists():
            path.unlink()
        return ended

    return Scenario(f"TMPDIR: {name}", act, statuses, says=says)


def _mounted(
    name: str, script: str, statuses: tuple[int, ...], says: str = "", options: tuple[str, ...] = PROOF
) -> Scenario:
    """What a file system of its own does, which no other process sees; `$HERE` is the scenario's folder."""

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

    return Scenario(name, act, statuses, says=says, needs=_can_mount)


def _can_mount() -> str:
    if said := root_and("unshare")():
        return said
    done = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    )
    return "" if done.returncode == 0 else "must not mount a file system"


def _no_ports(place: Place) -> Ended:
    """A network of its own, in which two ports alone are given to who asks for any."""
    few = "ip link set lo up 2>/dev/null || ifconfig lo up; echo 40000 40001 > /proc/sys/net/ipv4/ip_local_port_range"
    return place.run(*PROOF, before=("unshare", "--net", "sh", "-c", f'{few}; exec "$@"', "sh"))


def _limited(name: str, limits: dict[int, int], statuses: tuple[int, ...]) -> Scenario:
    def act(place: Place) -> Ended:
        def lower() -> None:
            for which, value in limits.items():
                resource.setrlimit(which, (value, value))

        place.quiet = True
        return place.run(*PROOF, preexec_fn=lower)

    return Scenario(name, act, statuses)


def _few_processes(place: Place) -> Ended:
    """`ulimit -u` holds for a user without privileges."""
    give(place)
    place.quiet = True
    return place.run(*PROOF, before=("prlimit", "--nproc=12:12", *become()))


def _as_another_user(place: Place) -> Ended:
    """Who does not own the environment proves a case."""
    give(place)
    return place.run(*PROOF, before=BECOME, environment={"HOME": str(place.folder)})


def _odd_paths(place: Place) -> Ended:
    """A blank, a quote and an umlaut in the path of the builds, the records and the temporary folder."""
    temporary = place.household.temporary / _ODD
    temporary.mkdir()
    repos = place.folder / _ODD / "repos"
    shutil.copytree(place.builds, repos)
    ended = place.run(
        *OWN_SERVED,
        repos=repos,
        results=place.folder / _ODD / "results",
        environment={"TMPDIR": str(temporary)},
    )
    shutil.rmtree(temporary)
    return ended


def _odd_checkout(place: Place) -> Ended:
    """The same in the path of the checkout."""
    checkout = place.folder / _ODD / "checkout"
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, files.decode().split("\0")):
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, checkout / name)
    return place.run(*OWN_SERVED, folder=checkout)


def _with_environment(name: str, changes: dict[str, str | None]) -> Scenario:
    return Scenario(name, lambda place: place.run(*PROOF, environment=changes), (PASSED,))


def _terminal(columns: int) -> Scenario:
    def act(place: Place) -> Ended:
        run = ["stty", "cols", str(columns), "2>/dev/null", ";", sys.executable, "-m", "pytest", "benchmarks"]
        run += ["-p", "no:cacheprovider", *PROOF[:3], "--repository", str(place.repository)]
        run += ["-k", f"'{PROOF[-1]}'", "--results", str(place.results)]
        return place.run(words=["script", "-qec", " ".join(run), os.devnull])

    return Scenario(f"a terminal of {columns} columns", act, (PASSED,), needs=program("script"))


def _output(name: str, streams: Callable[[], dict[str, Any]], statuses: tuple[int, ...]) -> Scenario:
    def act(place: Place) -> Ended:
        place.quiet = True
        return place.run(*PROOF, **streams())

    return Scenario(name, act, statuses)


def _nobody_reads() -> dict[str, Any]:
    reader, writer = os.pipe()
    os.close(reader)
    return {"stdout": writer}


SCENARIOS = [
    _temporary("that is not there", lambda _path: None, (PASSED, *_FAILED)),
    _temporary("a file", lambda path: path.write_text(""), (PASSED, *_FAILED)),
    _temporary("a dangling link", lambda path: path.symlink_to("nowhere"), (PASSED, *_FAILED)),
    _mounted(
        "TMPDIR is full",
        "mount -t tmpfs -o size=16k none $TMPDIR; head -c 99999 /dev/zero > $TMPDIR/full",
        (PASSED, *_FAILED),
    ),
    _mounted(
        "TMPDIR has no inodes",
        "mount -t tmpfs -o nr_inodes=2 none $TMPDIR; : > $TMPDIR/one",
        (PASSED, *_FAILED),
    ),
    _mounted("TMPDIR is read-only", "mount -t tmpfs -o ro none $TMPDIR", (PASSED, *_FAILED)),
    _mounted("/dev/shm has 1 MiB", "mount -t tmpfs -o size=1m none /dev/shm", (PASSED, *_FAILED)),
    _mounted(
        "/dev/shm is read-only", "mount -t tmpfs -o ro none /dev/shm", _FAILED, "/dev/shm|shared memory"
    ),
    _mounted(
        "the folder of records is on a full disk",
        "mount -t tmpfs -o size=16k none $HERE/results; head -c 99999 /dev/zero > $HERE/results/full",
        (INFRASTRUCTURE, REFUSED),
        "space|results",
    ),
    _mounted(
        "the folder of records is read-only", "mount -t tmpfs -o ro none $HERE/results", _FAILED, "results"
    ),
    _mounted(
        "the folder of models is on a full disk",
        "mount -t tmpfs -o size=16k none $HERE/repos; head -c 99999 /dev/zero > $HERE/repos/full",
        _FAILED,
        "space|repos",
        OWN_PROOF,
    ),
    _mounted(
        "the folder of models is read-only",
        "mount -t tmpfs -o ro none $HERE/repos",
        _FAILED,
        "repos",
        OWN_PROOF,
    ),
    Scenario("odd characters in the paths of builds, records and TMPDIR", _odd_paths, (PASSED,)),
    Scenario("odd characters in the path of the checkout", _odd_checkout, (PASSED,)),
    Scenario(
        "a user who does not own the environment",
        _as_another_user,
        (PASSED,),
        needs=cannot_become,
    ),
    _limited("ulimit -v, 3 GiB", {resource.RLIMIT_AS: 3 << 30}, (PASSED, 1, *_FAILED, -signal.SIGABRT)),
    _limited("ulimit -n 64", {resource.RLIMIT_NOFILE: 64}, (PASSED, *_FAILED)),
    _limited("ulimit -f, 100 kB", {resource.RLIMIT_FSIZE: 100_000}, (PASSED, *_FAILED)),
    Scenario(
        "ulimit -u 12",
        _few_processes,
        (PASSED, 1, 3, *_FAILED, -signal.SIGABRT, -signal.SIGSEGV),
        needs=lambda: cannot_become_one_who_reads() or program("prlimit")(),
    ),
    _with_environment("an empty PATH", {"PATH": ""}),
    _with_environment("no HOME", {"HOME": None}),
    _with_environment("the locale C", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    _with_environment("a locale that is not there", {"LC_ALL": "xx_XX.UTF-8"}),
    _with_environment("COLUMNS=0", {"COLUMNS": "0"}),
    Scenario(
        "one core",
        lambda place: place.run(*PROOF, before=("taskset", "--cpu-list", "0")),
        (PASSED,),
        needs=program("taskset"),
    ),
    Scenario("no free port", _no_ports, _FAILED, says="ports", needs=_can_mount),
    Scenario(
        "ONNX Runtime, served and in process, is not told whom to report to",
        lambda place: place.run(*OWN_SERVED, environment={"ORT_DISABLE_TELEMETRY": None, "CI": None}),
        (PASSED,),
    ),
    _terminal(0),
    _terminal(10),
    _output(
        "standard output is closed",
        lambda: {"preexec_fn": lambda: os.close(1)},
        (PASSED, 1, 3, INFRASTRUCTURE),
    ),
    _output(
        "standard output is full",
        lambda: {"stdout": os.open("/dev/full", os.O_WRONLY)},
        (PASSED, 1, 3, INFRASTRUCTURE, 120),
    ),
    _output("nobody reads standard output", _nobody_reads, (PASSED, 1, 3, INFRASTRUCTURE, 120)),
]
