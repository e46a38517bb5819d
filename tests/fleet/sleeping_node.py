"""pytest's plugin for nodes of a stand-in cluster: a test sleeps and leaves a record, whatever it needs.

Nodes load it by PYTEST_ADDOPTS. The suite itself does all else: it collects, reports and records.
"""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures.items import parameters_of
from fixtures.steps import step_of
from tests.sample_records import accuracy, measured, record
from tritonproof.record import Record, record_files, setup
from tritonproof.run import record_updates

SLEEP_S, DIES_IN = "STAND_IN_SLEEP_S", "STAND_IN_DIES_IN"
FAILS_IN, STOPS_IN, TRACE = "STAND_IN_FAILS_IN", "STAND_IN_STOPS_IN", "STAND_IN_TRACE"
"""Variables: how long a test sleeps, a part of the names of tests that end their run without a word, fail, or
stop it, and a folder in which each test leaves a file when it begins."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool:
    """Sleep in place of the test, and report that it passed, unless the variables make it fail or die."""
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    name = item.nodeid.partition("::")[2]
    (Path(os.environ[TRACE]) / f"{name}.{os.getpid()}").touch()
    time.sleep(float(os.environ.get(SLEEP_S, "0.1")))
    if (part := os.environ.get(DIES_IN)) and part in name:
        print("the last words of a run", flush=True)
        os._exit(9)
    has_failed = os.environ.get(FAILS_IN, "no test") in name
    properties = [("failure", "accuracy")] if has_failed else [("record", str(_record(item)))]
    for when in ("setup", "call", "teardown"):
        failed = has_failed and when == "call"
        ended: tuple[Any, Any] = ("failed", "it failed") if failed else ("passed", None)
        report = pytest.TestReport(item.nodeid, item.location, {}, *ended, when, user_properties=properties)
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    if os.environ.get(STOPS_IN, "no test") in name:
        item.session.shouldfail = "stopped"
    return True


def _record(item: pytest.Item) -> Path:
    """Record what the test would have measured: its load point, or the accuracy of its case."""
    results = Path(item.config.option.results)
    case, point = parameters_of(item)["case"], parameters_of(item).get("point")
    fresh = record(case=case.key, accuracy=None, conversion=None, points=(), updated="")

    def change(stored: Record) -> Record:
        if point is None:
            return structs.replace(stored, accuracy=accuracy()) if step_of(item) == "accuracy" else stored
        origin = setup.Origin("run", "host", (), None, None, "2026-03-04T05:06:07+00:00")
        result = measured(point.scenario, max(point.batch, point.concurrency), 100.0)
        start = setup.Start(point.scenario, 1.0, 1.0, 1.0)
        points = (structs.replace(result, origin=origin),)
        return record_updates.with_results(stored, starts=(start,), points=points)

    record_updates.update(fresh, results, change)
    path = record_files.record_path(fresh.case, results)
    record_updates.write_beside(path.with_suffix(record_files.CONFIG_SUFFIX), b"name: ''\n")
    return path.relative_to(results)
