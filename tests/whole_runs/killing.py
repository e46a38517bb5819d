"""A pytest plugin for runs that are to lose their server: it kills the real one in the middle of a stage.

The variable that KILLED names holds what is met, a word each: `load` the third pass under load, `load-always` each pass from
the third on, `accuracy` the evaluation through the server.
"""

import os
from typing import Any

import psutil
import pytest

from fixtures.measure import perf_analyzer
from fixtures.plugin import proving
from fixtures.serve.server import Server

KILLED = "KILLED_AT"


def kill(server: Server) -> None:
    """Kill Triton, but not the guard that it runs under."""
    for process in psutil.Process(server.pid).children():
        if process.name() == "tritonserver":
            process.kill()


def pytest_configure(config: pytest.Config) -> None:
    asked = os.environ[KILLED].split()
    take, evaluate = perf_analyzer.take, proving.evaluate_through_server
    passes = 0

    def kill_and_take(job: Any, window_s: float) -> Any:
        nonlocal passes
        passes += 1
        if ("load" in asked and passes == 3) or ("load-always" in asked and passes >= 3):
            kill(job.server)
        return take(job, window_s)

    def kill_and_evaluate(server: Server, *arguments: Any, **options: Any) -> Any:
        kill(server)
        return evaluate(server, *arguments, **options)

    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.setattr(perf_analyzer, "take", kill_and_take)
    if "accuracy" in asked:
        patch.setattr(proving, "evaluate_through_server", kill_and_evaluate)
