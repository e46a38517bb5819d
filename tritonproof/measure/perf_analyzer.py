"""Takes one pass with perf_analyzer: in several attempts if it must, none of which leaves anything behind."""

import contextlib
import dataclasses
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tritonproof.base.errors import NotAvailableError, ProofError
from tritonproof.host import guard, processor_use, scratch
from tritonproof.host.machine import free_memory_gib
from tritonproof.host.process import PRIVATE_UMASK, guarded, how_ended, last_lines, wait
from tritonproof.host.scratch import scratch_folder
from tritonproof.measure import perf_analyzer_io
from tritonproof.measure.passes import WINDOWS, LoadJob, Pass, cut_closed_loop, cut_open_loop
from tritonproof.measure.perf_analyzer_io import BadPassError, ShortWindowError, region_names
from tritonproof.serve import connection
from tritonproof.serve.server import Server

_ATTEMPTS = 5
"""Attempts at a pass. Of short passes, 8 in 110 left nothing usable: five in a row is one in 500,000."""
_LENGTHEN = 4
"""The factor for windows that were too short: the last of the attempts reaches 256 times the first."""
_STALL_S = 30.0
"""Seconds beyond four times an attempt's windows after which it counts as hung: requests in flight have to
end. At a rate a third of this, as perf_analyzer may send on all the time, without bound."""
_LOOK_S = 0.5
"""Seconds between looks at the free memory; at 20,000 requests/s, 0.2 GB were taken in between."""
_TOOK_MEMORY = "its requests in flight took half of the free memory"
_STOOD_STILL_S = 1.0
"""Seconds by which windows may overrun; an attempt that overruns more is repeated once (see `run_pass`)."""
_ANSWER_S = 60.0
"""Seconds for a server under load to end its requests, and to answer that it is live. One took 15."""
_STOP_S = 2.0
"""Seconds for perf_analyzer to end by itself."""
_SHOWN_LINES = 8
"""Lines shown of perf_analyzer's output."""
# Any variation counts as stable here, so "unstable" means that a window holds fewer than two requests.
_SHORT_WINDOW = re.compile("No valid requests recorded|Failed to obtain stable measurement")


class OverloadError(BadPassError):
    """An attempt at a rate was ended, as its requests took too much time or memory."""


def check_measurable(server: Server, lacks: Sequence[str] = ()) -> None:
    """Raise NotAvailableError if perf_analyzer cannot reach the server, or needs what the server `lacks`."""
    if server.spec.access.header_file is not None:
        raise NotAvailableError("load is not measured: perf_analyzer sends no headers over gRPC")
    if lacks:
        what = f"perf_analyzer asks for the model's {' and '.join(lacks)}, which the server lacks"
        raise NotAvailableError(f"load is not measured: {what}")


def run_pass(job: LoadJob, window_s: float) -> Pass:
    """Run perf_analyzer until an attempt is good, with windows of `window_s` seconds.

    `Pass.failed_attempts` says why each earlier one did not count. If no request ends in a window, the next
    attempt has longer windows. An attempt that stood still, unless it is the last, is repeated once,
    since the machine may have been suspended; if the repeat stands still too, the load is the cause.
    Raises ProofError if no attempt succeeds, the server has ended, or a rate is far above its capacity.
    """
    failed, stood_still = list[str](), False
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            one_pass, late_s = _attempt_pass(job, window_s)
            if late_s <= _STOOD_STILL_S or stood_still or attempt == _ATTEMPTS:
                return dataclasses.replace(one_pass, failed_attempts=tuple(failed))
            stood_still = True
            failed.append(f"it stood still for {late_s:.1f} s")
        except (BadPassError, FileNotFoundError) as error:  # the folder for its files goes with the server
            _recover(job, error)
            if isinstance(error, OverloadError) and str(error) in (_TOOK_MEMORY, *failed):
                what = f"requests come far faster than they are answered: perf_analyzer was ended, as {error}"
                raise ProofError(what, where=job, fix="give a lower --request-rates") from error
            failed.append(str(error))
            if isinstance(error, ShortWindowError):
                window_s *= _LENGTHEN
    raise ProofError(
        f"perf_analyzer gave no result in {_ATTEMPTS} attempts; the last: {failed[-1]}"
        f"{job.served.server.log_tail()}",
        where=job,
        fix="see its last lines above: if the folder of temporary files is full, give another, TMPDIR=DIR; "
        "for /dev/shm, docker run --shm-size=2g; if an output's size is refused, --shared-memory none",
    )


def _recover(job: LoadJob, error: Exception) -> None:
    """Remove a bad attempt's shared memory, after the server has let go of it, which the server does only
    when its requests are done. Raises ProofError if the server no longer answers."""
    server, until_s = job.served.server, time.monotonic() + _ANSWER_S
    while time.monotonic() < until_s:
        forget_shared_memory(server)
        with contextlib.suppress(ProofError):  # if another process uses the memory, the next attempt says so
            remove_stale_regions(job)
            break
        time.sleep(0.1)
    if not server.is_live(_ANSWER_S):
        text = f"{server.label} no longer answers under load{server.log_tail()}"
        raise ProofError(text, where=job) from error


def forget_shared_memory(server: Server) -> None:
    """Unregister a killed client's regions, whose names would stay taken; not on a remote server."""
    if server.spec.is_remote:
        return
    with contextlib.suppress(Exception):  # a server that is gone has forgotten the regions
        server.client.unregister_system_shared_memory(client_timeout=connection.ANSWER_S)
        server.client.unregister_cuda_shared_memory(client_timeout=connection.ANSWER_S)


def watch_gpu(server: Server) -> contextlib.AbstractContextManager[processor_use.GpuWatch | None]:
    """Watch the server's GPUs during a block; yields None if there are none, or they are unknown."""
    if server.device != "cuda":
        return contextlib.nullcontext()
    return processor_use.watch_gpus(server.visible_pid())


def _attempt_pass(job: LoadJob, window_s: float) -> tuple[Pass, float]:
    """One attempt at a pass, and by how many seconds its windows were longer than asked for."""
    server = job.served.server
    with scratch_folder("load", server.scratch) as folder:
        intervals_us, log = None, folder / "log.txt"
        if job.point.is_at_rate:
            intervals_us = perf_analyzer_io.write_schedule(job.point, WINDOWS * window_s, folder)
        samples = job.served.data.written_file(job.point.batch, job.served.model)
        command = perf_analyzer_io.command(job, samples, folder, window_s)
        read_cpu = processor_use.start_cpu_clock(server.pid)
        started = time.monotonic()
        with watch_gpu(server) as watched:
            status = _run_generator(job, command, log, window_s)
        cpu = read_cpu()
        if status != 0:
            shown = f"it {how_ended(status)}: " + " | ".join(last_lines(log, _SHOWN_LINES))
            raise ShortWindowError(shown) if _SHORT_WINDOW.search(shown) else BadPassError(shown)
        starts_ns, ends_ns, windows_ns = perf_analyzer_io.read_profile(folder)
        if intervals_us is None:
            steady = cut_closed_loop(starts_ns, ends_ns, windows_ns, job.point.concurrency)
        else:
            # The first request comes one interval after the start.
            offsets_ns = (np.cumsum(intervals_us) - intervals_us[0]) * 1000
            steady = cut_open_loop(starts_ns, ends_ns, windows_ns, offsets_ns)
        one_pass = Pass(
            steady,
            all_latencies_ms=(ends_ns - starts_ns)[np.argsort(ends_ns, kind="stable")] / 1e6,
            under_load_s=float(ends_ns.max() - starts_ns.min()) / 1e9,
            components_us=perf_analyzer_io.read_table(folder),
            cpu=cpu,
            gpu=None if watched is None else watched.between(*windows_ns),
            elapsed_s=time.monotonic() - started,
            window_s=window_s,
        )
        return one_pass, (windows_ns[1] - windows_ns[0]) / 1e9 - WINDOWS * window_s


def _run_generator(job: LoadJob, command: Sequence[str], log: Path, window_s: float) -> int:
    """Run perf_analyzer, with its output in the file `log`, and return its exit status. The guard ends it if
    it takes far too long or too much memory, or if this process is killed, and removes its shared memory.
    Raises ProofError if another process uses the names of that memory."""
    remove_stale_regions(job)
    names, variables = region_names(job), perf_analyzer_io.environment(job.served.server)
    is_at_rate = job.point.is_at_rate
    limit_s = WINDOWS * window_s * 4 + (_STALL_S / 3 if is_at_rate else _STALL_S)
    until_s = time.monotonic() + limit_s
    least_gib = free_memory_gib() / 2 if is_at_rate else 0.0
    with (
        log.open("wb") as output,
        guarded(
            command,
            environment=variables,
            output=output,
            grace_s=_STOP_S,
            segments=names,
            umask=PRIVATE_UMASK,
        ) as process,
    ):
        while time.monotonic() < until_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return wait(process, _LOOK_S)
            if free_memory_gib() < least_gib:
                raise OverloadError(_TOOK_MEMORY)
    raise (OverloadError if is_at_rate else BadPassError)(f"it did not end within {limit_s:.0f} s")


def remove_stale_regions(job: LoadJob) -> None:
    """Remove a killed load generator's shared memory. Raises ProofError if it is in use or another user's."""
    for name in sorted(guard.segments_named(region_names(job), str(scratch.SHARED_MEMORY_FOLDER))):
        with contextlib.suppress(FileNotFoundError):
            path = Path(name)
            user = path.lstat().st_uid
            if not guard.remove_segments([name]) and path.exists():
                raise ProofError(
                    "another load generator uses shared memory with the names that this one needs, and both "
                    "would write to it",
                    where=f"{path} of user {user}",
                    fix="let it end; if nothing uses it, remove it; or give --shared-memory none",
                )
