"""A table of the scenarios at the end: how often each was survived, what it took, and what was wrong."""

from collections import defaultdict
from typing import Any

import pytest


def pytest_terminal_summary(terminalreporter: Any) -> None:
    seconds: dict[str, list[float]] = defaultdict(list)
    passed: dict[str, int] = defaultdict(int)
    said: dict[str, str] = {}
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, ()):
            name = dict(getattr(report, "user_properties", ())).get("scenario")
            if name is None or (report.when != "call" and outcome == "passed"):
                continue
            seconds[name].append(report.duration)
            passed[name] += outcome == "passed"
            if outcome != "passed":
                said.setdefault(name, _first_line(report))
    if not seconds:
        return
    terminalreporter.section("scenarios")
    width = max(map(len, seconds))
    for name in sorted(seconds):
        count = len(seconds[name])
        verdict = said.get(name, "survived")
        mean_s = sum(seconds[name]) / count
        terminalreporter.write_line(f"{name:{width}}  {passed[name]} of {count}  {mean_s:5.1f} s  {verdict}")
    survived = sum(passed[name] == len(seconds[name]) for name in seconds)
    terminalreporter.write_line(f"{survived} of {len(seconds)} scenarios survived each time")


def _first_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    text = str(crash.message if crash is not None else report.longrepr)
    return " ".join(text.split())[:160]
