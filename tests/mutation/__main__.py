"""Mutation score: how many small faults, put into the code of verdicts one at a time, make a test of it fail.

python -m tests.mutation [--mutants 60] [--seed 0] [FILE ...]; cosmic-ray makes the faults, docs/mutation.md says what is left.
"""

import argparse
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.mutation.faults import Fault, faults_of
from tests.mutation.files import TESTS

_ROOT = Path(__file__).parents[2]
_PACKAGES = (
    *(
        "grpc",
        "tritonclient.grpc",
        "tritonclient.http",
        "torch",
        "scipy.stats",
        "scipy.ndimage",
        "pytest",
        "psutil",
    ),
    *("msgspec", "filelock", "pandas", "matplotlib.pyplot", "jinja2", "markdown_it", "rich"),
)
_LONGEST_S = 120.0
"""Seconds after which the tests of a fault count as hanging, which is a failure too. They take some seconds."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the faults of some files, or of all; returns 1 where the tests fail by themselves, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="default: all of tests/mutation/files.py")
    parser.add_argument(
        "--mutants", type=int, default=60, help="faults of each file, drawn by chance; default: 60"
    )
    parser.add_argument("--seed", type=int, default=0, help="what they are drawn by; default: 0")
    options = parser.parse_args(arguments)
    _import_what_all_need()
    killed = tried = 0
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copy = _copy_of_checkout(Path(folder))
        for file in options.files or TESTS:
            if not _passes(copy, TESTS[file]):
                print(f"{file}: its tests fail without a fault")
                return 1
            source = (copy / file).read_text()
            chosen, there_are = faults_of(source, options.mutants, random.Random(f"{options.seed} {file}"))
            survived = [one for one in chosen if not _is_found(copy, file, source, one)]
            killed, tried = killed + len(chosen) - len(survived), tried + len(chosen)
            print(
                f"{file}: {len(chosen) - len(survived)} of {len(chosen)} found (of {there_are} that there are)",
                flush=True,
            )
            for one in survived:
                print(f"  line {one.line}, {one.operator}:\n{one.difference(source)}", flush=True)
    print(f"{killed} of {tried} found, {killed / max(1, tried):.1%}")
    return 0


def _import_what_all_need() -> None:
    """Packages that take long to import, once for all faults; nothing of this project's."""
    for name in _PACKAGES:
        importlib.import_module(name)


def _copy_of_checkout(folder: Path) -> Path:
    """The files that git knows or would add, so that no fault is ever in the checkout itself."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=_ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (_ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(_ROOT / name, folder / name)
    return folder


def _is_found(copy: Path, file: str, source: str, fault: Fault) -> bool:
    """Whether a test fails with the fault."""
    (copy / file).write_text(fault.source)
    try:
        return not _passes(copy, TESTS[file])
    finally:
        (copy / file).write_text(source)


def _passes(copy: Path, tests: Sequence[str]) -> bool:
    """Whether the tests of a file pass, in a process of their own that has the packages already."""
    child = os.fork()
    if child == 0:
        os.setsid()
        _run_tests(copy, tests)
    ends = time.monotonic() + _LONGEST_S
    while time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


class QuickestFirst:
    """Begins with the tests that took least when no fault was in the code: most faults are found within a second."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / ".seconds.json"
        self._seconds: dict[str, float] = json.loads(self._file.read_text()) if self._file.exists() else {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: self._seconds.get(item.nodeid, 0.0))

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus == 0:
            self._file.write_text(json.dumps(self._seconds))


def _run_tests(copy: Path, tests: Sequence[str]) -> None:
    """Ends this process with pytest's status."""
    import pytest

    os.chdir(copy)
    sys.path[:] = [str(copy), *(one for one in sys.path if one not in ("", str(_ROOT)))]
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "fixtures", "reports")]:
        del sys.modules[name]
    sys.dont_write_bytecode = True
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    status = 1
    try:
        status = int(
            pytest.main(
                ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *tests]
            )
        )
    finally:
        os._exit(status)


if __name__ == "__main__":
    sys.exit(main())
