"""MLPerf LoadGen itself, from PyPI: a run of its single stream, and what its early stopping says of it."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_RUN = """
import random, sys, time
import mlperf_loadgen as lg
folder, count, percentile = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
random.seed(count)

def issue(samples):
    for one in samples:
        time.sleep(random.expovariate(20000))
        lg.QuerySamplesComplete([lg.QuerySampleResponse(one.id, 0, 0)])

settings = lg.TestSettings()
settings.scenario, settings.mode = lg.TestScenario.SingleStream, lg.TestMode.PerformanceOnly
settings.min_query_count = settings.max_query_count = count
settings.min_duration_ms = 0
settings.single_stream_target_latency_percentile = percentile / 100
logs = lg.LogSettings()
logs.log_output.outdir, logs.enable_trace = folder, True
system = lg.ConstructSUT(issue, lambda: None)
library = lg.ConstructQSL(8, 8, lambda some: None, lambda some: None)
lg.StartTestWithLogSettings(system, library, settings, logs)
lg.DestroyQSL(library)
lg.DestroySUT(system)
"""


class OutOfReachError(Exception):
    """Why the package cannot be had."""


@dataclass(frozen=True)
class LoadGenRun:
    """What LoadGen measured, and what its early stopping says."""

    latencies_ns: list[int]
    bound_ns: int | None
    """Its estimate of the percentile; None where its requests were too few."""
    needed: int
    """The fewest requests that it says it takes."""


def install(version: str, folder: Path) -> None:
    """Put the package into a folder; raises OutOfReachError."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command = [*pip, "--target", str(folder), f"mlcommons-loadgen=={version}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise OutOfReachError((done.stderr.strip().splitlines() or ["pip says nothing"])[-1])


def run(package: Path, folder: Path, requests: int, percent: float) -> LoadGenRun:
    """So many requests of random length, one after the other, with the log read back."""
    folder.mkdir()
    subprocess.run(
        [sys.executable, "-c", _RUN, str(folder), str(requests), str(percent)],
        env=os.environ | {"PYTHONPATH": str(package)},
        check=True,
        timeout=120,
        stdout=subprocess.DEVNULL,
    )
    trace = (folder / "mlperf_log_trace.json").read_text()
    times = re.findall(r'"issue_start_ns":(\d+),"complete_ns":(\d+)', trace)
    summary = (folder / "mlperf_log_summary.txt").read_text()
    bound = re.search(rf"Early stopping {percent:.1f}th percentile estimate: (\d+)", summary)
    (needed,) = re.findall(r"(?:Processed|process) at least (\d+) queries", summary)
    return LoadGenRun(
        [int(end) - int(start) for start, end in times], int(bound[1]) if bound else None, int(needed)
    )
