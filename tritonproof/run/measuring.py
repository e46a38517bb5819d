"""Measures load points in turns, a first request, and a soak, with the machine held exclusively."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence

from msgspec import structs

from tritonproof.base.errors import InputError, NotAvailableError, ProofError
from tritonproof.measure import estimates, sweep
from tritonproof.measure.cache_audit import audit_cache
from tritonproof.measure.called_models import counting_calls
from tritonproof.measure.passes import LoadJob, RunPass
from tritonproof.measure.perf_analyzer import check_measurable, run_pass
from tritonproof.measure.point_result import point_results
from tritonproof.measure.point_state import PointState, Side
from tritonproof.measure.soak import ARENAS_OF_A_CPU, LOADINGS, keep_under_load, reload_repeatedly, soak_entry
from tritonproof.measure.sweep import Save
from tritonproof.measure.usage import read_usage, read_usage_after_unloading, watch
from tritonproof.measure.verifying import verifying
from tritonproof.record import Soak
from tritonproof.record.setup import Scenario
from tritonproof.record.speed import LoadPoint, ModelWarmup, PointResult, fastest_closed_loop
from tritonproof.run import comparing
from tritonproof.run.case_run import CaseRun, MeasuredPoint
from tritonproof.settings.case_settings import load_points
from tritonproof.user_models.model_from_config import warmup_batch

Audit = Callable[[LoadJob, PointResult], PointResult]
"""Takes a job and its result; returns the result with what it finds out about the answers."""
_SLOW_LOADINGS = 3
"""How many loadings in a row must have a slow first request. If that were like the others, it would by chance
be the slowest of 21 three times in one of 9,000 runs, whatever else the machine does."""


@contextlib.contextmanager
def prepare_to_measure(run: CaseRun, points: Sequence[LoadPoint]) -> Iterator[list[LoadJob]]:
    """A job for each of one scenario's `points`, with the case loaded and the machine held exclusively."""
    described = run.described
    check_measurable(run.server, described.unreported if described else ())
    expected = run.expected_answers
    run.loader.ensure_loaded(points[0].scenario)
    with run.model_run.hold_machine(exclusive=True):
        yield [run.job(point, expected) for point in points]


def time_first_request(run: CaseRun, job: LoadJob) -> PointState:
    """A load point before its first pass: its job with the seconds of one request, or an error."""
    run.say(f"measure {job.point.scenario}", "first request of each batch size")
    try:
        request_s, _ = run.loader.time_request(job.point.batch)
    except ProofError as error:
        return PointState((Side(job),), error=error)
    return PointState((Side(dataclasses.replace(job, request_s=request_s)),))


def check_batch(run: CaseRun, point: LoadPoint) -> None:
    """Raise NotAvailableError if the point's batch is larger than the model's largest."""
    if point.batch > (largest := run.deployment.max_batch_size):
        raise NotAvailableError(f"{run.case.model.name} takes batches up to {largest}, not {point.batch}")


def measure_point(run: CaseRun, point: LoadPoint, save: Save = lambda _results: None) -> MeasuredPoint:
    """The result of a load point, by `measure_scenario`. Raises the error with which the point failed."""
    check_batch(run, point)
    if point not in run.points(point.scenario):
        fix = "take one of run.points()"
        raise InputError(f"{point} is no load point of the case", where=run.case, fix=fix)
    measure_scenario(run, point.scenario, save)
    if isinstance(measured := run.measured[point], ProofError):
        raise measured
    return measured


def measure_scenario(
    run: CaseRun, scenario: Scenario, save: Save, run_pass: RunPass = run_pass, audit: Audit = audit_cache
) -> None:
    """Measure all load points of a scenario in turns, once: `run.measured` keeps them. `save` gets the
    results so far. Raises ProofError if the server has ended; then no result counts."""
    if run.measured.keys() >= {*(points := run.points(scenario))}:
        return
    if (baseline := run.baseline) is not None:
        baseline.server.check_running()  # starts it, before the machine is held exclusively
    with prepare_to_measure(run, points) as jobs:
        states = [time_first_request(run, job) for job in jobs]
        try:
            run.measured |= _measure_states(run, states, save, run_pass, audit)
        except Exception:
            save([])  # what was saved meanwhile does not count
            raise


def _measure_states(
    run: CaseRun, states: Sequence[PointState], save: Save, run_pass: RunPass, audit: Audit
) -> dict[LoadPoint, MeasuredPoint | ProofError]:
    """Measure the points of a loaded scenario, audit the fastest, and judge all by their latency budgets."""
    baseline = run.baseline
    plan, described = run.settings.plan(compared=baseline is not None), run.described
    say = functools.partial(run.say, f"measure {states[0].point.scenario}")

    def with_latency_verdict(result: PointResult) -> PointResult:
        budget = run.settings.thresholds.latency_budget(run.case, result)
        return structs.replace(result, latency_budget=budget)

    if baseline is not None:
        states = comparing.add_baselines(run, baseline, states)
    states = sweep.sweep_points(
        states,
        plan,
        run_pass=verifying(counting_calls(run_pass, described.called_names if described else ())),
        on_progress=say,
        save=lambda results: save([*map(with_latency_verdict, results)]),
        reload=None if baseline is None else comparing.reloader(run, baseline),
    )
    results = point_results(states, plan)
    errors = {point: error for point, error in results.items() if isinstance(error, ProofError)}
    if errors and run.server.how_it_ended():
        raise next(iter(errors.values()))  # measurements on a server that has ended do not count
    say("one sample repeated")
    run.loader.is_cold = False
    best = fastest_closed_loop([result for result in results.values() if isinstance(result, PointResult)])
    measured: dict[LoadPoint, MeasuredPoint | ProofError] = {**errors}
    for state in states:
        if isinstance(result := results[state.point], PointResult):
            result = _audited(run, state.current.job, result, audit) if result is best else result
            latencies_s = (estimates.pooled_ms(state.steady_parts) / 1e3).tolist()
            measured[state.point] = MeasuredPoint(with_latency_verdict(result), latencies_s)
    save([each.result for each in measured.values() if isinstance(each, MeasuredPoint)])
    return measured


def _audited(run: CaseRun, job: LoadJob, result: PointResult, audit: Audit) -> PointResult:
    """The result with its cache audit, unless the model refuses the audit's made-up inputs."""
    try:
        return audit(job, result)
    except ProofError as error:
        if run.server.how_it_ended():
            raise
        run.note(f"{run.case}: not checked for cached answers at {job.point}: {error.what}")
        return result


def measure_model_warmup(run: CaseRun) -> ModelWarmup:
    """Compare the first request after loading a model of --repository with the requests after it."""
    run.loader.check_may_reload()
    described = run.described
    assert described is not None, "no conversion has a warm-up of its user's"
    batch = warmup_batch(described.config, run.samples.read([0]))
    if batch is None:
        what = f"the model_warmup of {run.case.model.name} is of another shape than the requests"
        raise NotAvailableError(what, where=run.case, fix="give samples of that shape: --samples")
    run.loader.ensure_loaded("online")
    run.say("load the model again", "time its first request")
    with run.model_run.hold_machine(exclusive=True):
        return time_first_and_later(run.loader.reload, lambda: run.loader.time_request(batch)[0], batch)


def time_first_and_later(load: Callable[[], object], ask: Callable[[], float], batch: int) -> ModelWarmup:
    """Load the model and time requests by `ask`, which returns seconds: the first is compared with the
    slowest of twenty later ones. If the first is slow, load the model again: the machine may be the cause."""
    result = ModelWarmup(batch, (), ())
    while not result.passed and len(result.first_ms) < _SLOW_LOADINGS:
        load()
        first_ms = round(1e3 * ask(), 3)
        later_ms = round(1e3 * max(ask() for _ in range(20)), 3)
        result = ModelWarmup(batch, (*result.first_ms, first_ms), (*result.later_ms, later_ms))
    return result


def soak(run: CaseRun) -> Soak:
    """Keep the case under load for the time of --soak, then reload it; returns what its server used."""
    duration_s = run.settings.soak
    assert duration_s is not None
    heaps = ARENAS_OF_A_CPU * (os.cpu_count() or 1)
    point = _soak_point(run)
    say = functools.partial(run.say, "soak")
    with prepare_to_measure(run, [point]) as (job,):
        job = dataclasses.replace(job, request_s=run.loader.time_request(point.batch)[0])
        watched = watch(job.served.server)
        read = functools.partial(read_usage, watched)
        under_load = keep_under_load(job, duration_s, read, on_progress=say)
        loadings = reload_repeatedly(
            lambda: (run.loader.reload(), run.loader.time_request(1)),
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
    run.note(f"{run.case}: soak at {point.scenario} {point}")
    return point
