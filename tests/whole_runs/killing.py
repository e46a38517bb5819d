"""A pytest plugin that kills the real server of a run, once, in the middle of a stage.

The variable that KILLED names has the stage: `load`, the third pass under load, or `accuracy`, before the
evaluation through the server.
"""

import os
from typing import Any

import psutil
import pytest

from fixtures.measure import perf_analyzer
from fixtures.run import proving
from fixtures.serve.server import Server

KILLED = "KILLED_AT"


def kill(server: Server) -> None:
    """Kill Triton, but not its guard."""
    for process in psutil.Process(server.pid).children():
        if process.name() == "tritonserver":
            process.kill()


def pytest_configure(config: pytest.Config) -> None:
    stage = os.environ[KILLED]
    run_pass, evaluate = perf_analyzer.run_pass, proving.evaluate_through_server
    passes = evaluations = 0

    def kill_and_run(job: Any, window_s: float) -> Any:
        nonlocal passes
        passes += 1
        if stage == "load" and passes == 3:
            kill(job.server)
        return run_pass(job, window_s)

    def kill_and_evaluate(server: Server, *arguments: Any, **options: Any) -> Any:
        nonlocal evaluations
        evaluations += 1
        if stage == "accuracy" and evaluations == 1:
            kill(server)
        return evaluate(server, *arguments, **options)

    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.setattr(perf_analyzer, "run_pass", kill_and_run)
    patch.setattr(proving, "evaluate_through_server", kill_and_evaluate)
