"""Tries faults on collected tests, each in a copy of the process that has collected them: most are found within a second."""

import functools
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.mutation.faults import Fault
from tests.mutation.in_place import has_same_decorators, is_in_a_function, put_into

_MOST_CPU_S = 120.0
"""Seconds of CPU after which the tests of a file that is loaded anew count as hanging, which is a failure too. They take some.
Time by the clock would call a test slow where other work keeps the machine busy."""
_SLOWER = 5.0
"""How many times as much CPU as without a fault the tests of one may use, and as many seconds more, before they count so."""
_IDLE_S = 60.0
"""Seconds without any work after which tests count so too: one waits for what never comes."""
_SOME_WORK_S = 0.02
"""Seconds of CPU that are work. A process that waits uses some thousandths now and then."""


class Trial:
    """A pytest plugin: in place of running its tests once it runs them once without a fault, and once with each."""

    def __init__(self, file: str, source: str, faults: Sequence[Fault], answers: Path) -> None:
        self._file, self._source, self._faults, self._answers = file, source, faults, answers
        self._seconds: dict[str, float] = {}
        self._skipped = False
        """Whether a test was skipped, which would have noticed nothing: a fault may have it seem that something is missing."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        """Write which faults were found: null where the file has to be loaded anew for it; where a test fails by itself, its
        id alone."""
        timed = self._answers.with_suffix(".seconds")
        module = sys.modules[self._file.removesuffix(".py").replace("/", ".")]
        # Put in place too, so that nothing counts as found that putting in place does.
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        if not passes(lambda: self._run_with(session, module, self._source, timed)):
            self._answers.write_text(timed.read_text())
            return True
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        most_cpu_s = _SLOWER * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime + 1)
        seconds = json.loads(timed.read_text())
        session.items.sort(key=lambda item: seconds[item.nodeid])
        found: list[bool | None] = []
        for one in self._faults:
            if not has_same_decorators(self._source, one.source):
                found.append(None)
                continue
            is_found = not passes(functools.partial(self._run_with, session, module, one.source), most_cpu_s)
            # What another module made of a constant stays as it was, so that only a fault that is found is known to be.
            is_sure = is_found or is_in_a_function(self._source, one.source)
            found.append(is_found if is_sure else None)
        self._answers.write_text(json.dumps(found))
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        self._skipped |= bool(report.skipped)

    def _run_with(self, session: Any, module: Any, source: str, timed: Path | None = None) -> bool:
        """Whether the tests pass where the functions of the file do what a source says; how long each took goes to a file."""
        if timed is not None:
            timed.write_text(json.dumps("putting the file in place of itself"))
        put_into(module, source)
        for item, following in zip(session.items, [*session.items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed or self._skipped:
                if timed is not None:
                    timed.write_text(json.dumps(item.nodeid))
                return False
        if timed is not None:
            timed.write_text(json.dumps(self._seconds))
        return True


def passes(
    run: Callable[[], bool], most_cpu_s: float | None = _MOST_CPU_S, output: Path = Path(os.devnull)
) -> bool:
    """Whether that is so in a copy of this process, which ends with it, within so many seconds of CPU, and prints to a file."""
    child = os.fork()
    if child == 0:
        passed = False
        try:
            os.setsid()
            file = os.open(output, os.O_WRONLY | os.O_CREAT)
            os.dup2(file, 1)
            os.dup2(file, 2)
            passed = run()
        finally:
            os._exit(0 if passed else 1)
    used_s, worked = 0.0, time.monotonic()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        if most_cpu_s is not None:
            now_s = _cpu_s(child)
            if now_s > used_s + _SOME_WORK_S:
                used_s, worked = now_s, time.monotonic()
            if now_s > most_cpu_s or time.monotonic() > worked + _IDLE_S:
                break
        time.sleep(0.005)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _cpu_s(process: int) -> float:
    """The seconds of CPU that a process has used."""
    times = psutil.Process(process).cpu_times()
    return float(times.user + times.system)
