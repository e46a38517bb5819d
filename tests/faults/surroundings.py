"""What a run finds around it: folders, limits, terminals, clocks, and other programs on the machine."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.given import ANOTHER_USER, can_become, give
from tests.faults.place import DOUBLER, OWN_PROOF, OWN_SERVED, PROOF, SLOW_PROOF, Ended, Place
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
    return place.run(*PROOF, before=("prlimit", "--nproc=12:12", *ANOTHER_USER))


def _as_another_user(place: Place) -> Ended:
    """Who does not own the environment proves a case."""
    give(place)
    return place.run(*PROOF, before=ANOTHER_USER, environment={"HOME": str(place.folder)})


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


def _clock_jumps(hours: int) -> Scenario:
    """The system's clock is set while the case is evaluated; a stand-in, as setting it needs the machine."""

    def act(place: Place) -> Ended:
        place.file(
            "jumping.py",
            "import threading, time\n"
            "real, since, jump = time.time, time.monotonic(), 0.0\n"
            f"time.time = lambda: real() + ({hours * 3600} if time.monotonic() - since > 3 else 0)\n"
            f"time.time_ns = lambda: int(time.time() * 1e9)\n",
        )
        return place.run(*SLOW_PROOF, "-p", "jumping", environment={"PYTHONPATH": str(place.folder)})

    return Scenario(f"the clock jumps by {hours:+d} h", act, (PASSED,))


def _other_work(place: Place) -> Ended:
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"], env=place.household.environment)
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        return place.run(*PROOF)
    finally:
        for process in busy:
            process.kill()
            process.wait()


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

    return Scenario(f"the record is {name} at the end", act, (PASSED, INFRASTRUCTURE))


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


def _told_of_the_holder(place: Place) -> Ended:
    """Another run holds the machine: who waits says so again and again, and for whom."""
    holder = place.start(
        words=[
            sys.executable,
            "-c",
            "import time\nfrom fixtures.host import locks\n"
            "with locks.hold_machine(exclusive=True):\n    print('held', flush=True)\n    time.sleep(40)\n",
        ],
    )
    place.says("held")
    place.start(*PROOF)
    place.says(str(holder.pid), 60)
    time.sleep(33)
    lines = [line for line in place.log.read_text().splitlines() if "wait" in line]
    assert len(lines) >= 2, "it says so once alone"
    return place.ends()


def _stale_lock(place: Place) -> Ended:
    """A run that was killed held the locks of the machine and of the build."""
    place.start(*SLOW_PROOF)
    place.says("answers without labels")
    place.runs[-1].send_signal(signal.SIGKILL)
    place.runs[-1].wait()
    return place.run(*PROOF)


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
    Scenario("a user who does not own the environment", _as_another_user, (PASSED,), needs=can_become),
    _limited("ulimit -v, 3 GiB", {resource.RLIMIT_AS: 3 << 30}, (PASSED, 1, *_FAILED, -signal.SIGABRT)),
    _limited("ulimit -n 64", {resource.RLIMIT_NOFILE: 64}, (PASSED, *_FAILED)),
    _limited("ulimit -f, 100 kB", {resource.RLIMIT_FSIZE: 100_000}, (PASSED, *_FAILED)),
    Scenario(
        "ulimit -u 12",
        _few_processes,
        (PASSED, 1, 3, *_FAILED, -signal.SIGABRT, -signal.SIGSEGV),
        needs=lambda: can_become() or program("prlimit")(),
    ),
    _with_environment("an empty PATH", {"PATH": ""}),
    _with_environment("no HOME", {"HOME": None}),
    _with_environment("the locale C", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    _with_environment("a locale that is not there", {"LC_ALL": "xx_XX.UTF-8"}),
    _with_environment("COLUMNS=0", {"COLUMNS": "0"}),
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
    _clock_jumps(+24),
    _clock_jumps(-24),
    Scenario("other work on all cores", _other_work, (PASSED,)),
    _gone("the build", OWN_SERVED, "evaluate through Triton", lambda place: place.build),
    _gone("the folder of records", SLOW_PROOF, "answers without labels", lambda place: place.results),
    _record_spoilt("deleted", "path.unlink()"),
    _record_spoilt("made unreadable", "path.write_text('[')"),
    Scenario("a record of another machine is there", _superseded, (PASSED,)),
    Scenario("another run holds the machine", _told_of_the_holder, (PASSED,)),
    Scenario("a killed run held the locks", _stale_lock, (PASSED,)),
]
