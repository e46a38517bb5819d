"""Keeps a case under load for the time of --soak, reloads it repeatedly, and watches what its server uses."""

import dataclasses
import functools
import os

from tritonproof.measure.soak import ARENAS_OF_A_CPU, LOADINGS, keep_under_load, reload_repeatedly, soak_entry
from tritonproof.measure.usage import read_usage, read_usage_after_unloading, watch
from tritonproof.record.schema import LoadPoint, Soak
from tritonproof.run.case_run import CaseRun
from tritonproof.run.measuring import check_batch, prepare_to_measure
from tritonproof.run.prepared_case import time_request
from tritonproof.settings.case_settings import load_points


def soak(run: CaseRun) -> Soak:
    """Keep the case under load for the time of --soak, then reload it; returns what its server used."""
    duration_s = run.settings.soak
    assert duration_s is not None
    heaps = ARENAS_OF_A_CPU * (os.cpu_count() or 1)
    point = _soak_point(run)
    say = functools.partial(run.say, "soak")
    with prepare_to_measure(run, [point]) as (job,):
        job = dataclasses.replace(job, request_s=time_request(run.prepared, point.batch)[0])
        watched = watch(job.served.server)
        read = functools.partial(read_usage, watched)
        under_load = keep_under_load(job, duration_s, read, on_progress=say)
        loadings = reload_repeatedly(
            lambda: (run.loader.reload(), time_request(run.prepared, 1)),
            duration_s,
            functools.partial(read_usage_after_unloading, watched),
            most=max(LOADINGS, 2 * heaps),
            on_progress=say,
        )
    return soak_entry(point, under_load, loadings, watched.not_watched, heaps)


def _soak_point(run: CaseRun) -> LoadPoint:
    """The load point: online with the most in flight or the highest rate, else the largest batch."""
    settings = run.settings
    asks_for_online = settings.concurrencies or settings.request_rates or not settings.batches
    points = load_points(run.case, "online" if asks_for_online else "offline", settings)
    point = ([point for point in points if point.batch <= run.deployment.max_batch_size] or points)[-1]
    check_batch(run, point)
    run.progress.note(f"{run.case}: soak at {point.scenario} {point}")
    return point
