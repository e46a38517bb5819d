"""What perf_analyzer is given and what it gives: its command, environment and schedule, the files that it
writes, and the names of its shared memory."""

import contextlib
import csv
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from tritonproof.base.sanitize import one_line
from tritonproof.host.process import PROXIES, minimal_environment
from tritonproof.host.scratch import report_full_disk
from tritonproof.measure.passes import WINDOWS, LoadJob
from tritonproof.record.speed import COMPONENTS, LoadPoint
from tritonproof.serve import wheels
from tritonproof.serve.connection import is_on_this_host
from tritonproof.serve.server import Server

_WINDOW_OVER_INTERVAL = 1.2
"""The length of perf_analyzer's windows over its interval option; measured with 0.05 to 5 s."""
_ARENAS = "1"
"""With system shared memory, perf_analyzer 2.51 exports tensor values that look like scrambled heap
addresses. If they read as NaN its JSON writer seems to stop, and the file is empty or cut at a multiple of 64
KiB. With one heap for all threads that happened in 0 of 49 runs at concurrency 16, with glibc's many in 5."""
_PROFILE, _TABLE, _SCHEDULE = "profile.json", "table.csv", "intervals_us.txt"
"""The names, in a pass's folder, of the two files that perf_analyzer writes and of that with its schedule."""
_CSV_COLUMNS = {name: name.replace("_", " ").title() for name in COMPONENTS}
_CSV_COLUMNS["network_server_send_recv"] = "Network+Server Send/Recv"
"""Column of perf_analyzer's CSV, in microseconds per request."""
_SHOWN_CHARS = 200
"""Characters shown of a parser's message."""
_PARSING = (msgspec.MsgspecError, csv.Error)

_Nanoseconds = Annotated[int, msgspec.Meta(ge=0)]


class _Request(msgspec.Struct):
    timestamp: _Nanoseconds
    response_timestamps: list[_Nanoseconds]


class _Experiment(msgspec.Struct):
    """The fields of a profile's experiment that are read; it also holds the tensors of every request."""

    requests: list[_Request]
    window_boundaries: list[_Nanoseconds]


class _Profile(msgspec.Struct):
    experiments: list[_Experiment]


class BadPassError(Exception):
    """An attempt left nothing usable; another attempt may."""


class ShortWindowError(BadPassError):
    """An attempt's windows were too short for a request to end in each."""


def command(job: LoadJob, input_file: Path, folder: Path, window_s: float) -> list[str]:
    """perf_analyzer's command with this input file, the pass's folder, and windows of `window_s` seconds."""
    server = job.served.server
    command = [
        str(wheels.perf_analyzer()),
        *("-m", job.served.name, "-u", server.address, "-i", "grpc", "-b", str(job.point.batch)),
        *("--input-data", str(input_file), "--shared-memory", job.shared_memory),
        # Any variation counts as stable: the length of a pass is known, and the statistics are ours.
        *("--stability-percentage", "999", "--max-trials", str(WINDOWS)),
        *("--measurement-interval", str(round(window_s / _WINDOW_OVER_INTERVAL * 1e3))),
        *("--profile-export-file", str(folder / _PROFILE), "-f", str(folder / _TABLE), "--verbose-csv"),
    ]
    if job.point.is_at_rate:
        # Without --async a request waits for a free thread, up to 34 ms past its time.
        command += ["--request-intervals", str(folder / _SCHEDULE), "--async"]
    else:
        command += ["--concurrency-range", str(job.point.concurrency)]
    access = server.spec.access
    if access.tls:
        command += ["--ssl-grpc-use-ssl", "--ssl-grpc-root-certifications-file", str(access.roots)]
    if job.shared_memory != "none":
        sizes = [tensor.row_bytes for tensor in job.served.model.outputs]
        sizes += job.output_bytes[: job.served.data.sample_count(job.point.batch)]
        command += ["--output-shared-memory-size", str(max(sizes) * job.point.batch)]
    return command


def environment(server: Server) -> dict[str, str]:
    """The minimal environment, with proxies only for another host: for a proxy, 127.0.0.1 is its own host."""
    variables = minimal_environment(() if is_on_this_host(server.address) else PROXIES)
    return variables | {"LD_LIBRARY_PATH": wheels.perf_analyzer_libraries(), "MALLOC_ARENA_MAX": _ARENAS}


def write_schedule(point: LoadPoint, pass_s: float, folder: Path) -> np.ndarray:
    """Write to the pass's folder, and return, the intervals between requests in whole microseconds, each at
    least 1, whose sum keeps to the rate; more than a pass of `pass_s` seconds needs, as after the last one
    perf_analyzer would begin again at the first."""
    mean_us = 1e6 / point.level
    indices = np.arange(math.ceil(2 * pass_s * point.level) + 101)
    times_us = mean_us * indices
    if point.arrivals == "poisson":
        times_us[1:] = np.random.default_rng().exponential(mean_us, len(indices) - 1).cumsum()
    intervals_us = np.diff(np.maximum.accumulate(times_us.round().astype(np.int64) - indices) + indices)
    with report_full_disk(folder):
        (folder / _SCHEDULE).write_text("".join(f"{interval}\n" for interval in intervals_us))
    return intervals_us


def read_profile(folder: Path) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """When each request started and ended, [requests] each, and the windows opened and closed, in ns."""
    with _damage_is_a_bad_pass("profile"):
        (experiment,) = msgspec.json.decode((folder / _PROFILE).read_bytes(), type=_Profile).experiments
        requests = [request for request in experiment.requests if request.response_timestamps]
        starts = np.array([request.timestamp for request in requests], np.int64)
        ends = np.array([request.response_timestamps[-1] for request in requests], np.int64)
        opened, closed = experiment.window_boundaries[0], experiment.window_boundaries[-1]
    if len(starts) == 0:
        raise ShortWindowError("its profile is empty: no request ended")
    if (ends <= starts).any() or closed <= opened:
        raise BadPassError("its profile has requests that end before they start")
    return starts, ends, (opened, closed)


def read_table(folder: Path) -> dict[str, float]:
    """The latency's components in microseconds, by name."""
    with _damage_is_a_bad_pass("table"), (folder / _TABLE).open(newline="") as file:
        (row,) = csv.DictReader(file)
        components_us = {name: float(row[column]) for name, column in _CSV_COLUMNS.items()}
    if not 0 < sum(components_us.values()) < math.inf or min(components_us.values()) < 0:
        raise BadPassError(f"its table holds no latency: {components_us}")
    return components_us


@contextlib.contextmanager
def _damage_is_a_bad_pass(name: str) -> Iterator[None]:
    """Raise BadPassError if reading the named file in the block shows that it is damaged."""
    try:
        yield
    except (ArithmeticError, LookupError, OSError, RecursionError, TypeError, ValueError, *_PARSING) as error:
        # A parser's message may repeat the whole file, control characters too.
        text = f"its {name} is damaged ({type(error).__name__}: {one_line(str(error), _SHOWN_CHARS)})"
        raise BadPassError(text) from error


def region_names(job: LoadJob) -> list[str]:
    """Regular expressions that match perf_analyzer's names of shared memory, if any, and hardly any others.

    It names an input's memory after the input with the numbers of the stream and of the step, and an output's
    after the output, both without slashes; no option changes that. If such a name exists, it opens and
    resizes that memory: a server that has more of it mapped dies silently. Source:
    src/infer_data_manager_shm.cc and TensorToRegionName in src/perf_utils.cc of
    github.com/triton-inference-server/perf_analyzer, r24.10.
    """

    def plain(name: str) -> str:
        return re.escape(name.replace("/", "").replace("\\", ""))

    if job.shared_memory != "system":
        return []
    inputs = [rf"{plain(tensor.name)}_\d+_\d+" for tensor in job.served.model.inputs]
    return [*inputs, *(plain(tensor.name) for tensor in job.served.model.outputs)]
