"""Measures a case's fastest load points beside the artifact in process, the reference format and the peak."""

import contextlib
import functools
from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from tritonproof.base.errors import NotAvailableError, ProofError
from tritonproof.build import builds
from tritonproof.cases import reference_of
from tritonproof.efficiency import in_turns
from tritonproof.efficiency.worker import Worker, artifact_worker, peak_kind
from tritonproof.record import Record, fields, record_files, setup
from tritonproof.record.speed import Efficiency, PointResult, ReferenceComparison, fastest_closed_loop
from tritonproof.reports.publishable import publishable
from tritonproof.run import record_updates
from tritonproof.run.case_run import CaseRun, MeasuredPoint
from tritonproof.run.converted_case import ConvertedCase
from tritonproof.run.measuring import prepare_to_measure
from tritonproof.run.model_run import Reference
from tritonproof.settings.case_settings import deployment_of
from tritonproof.spec import Case


def measure_efficiency(run: CaseRun) -> list[Efficiency]:
    """Measure the fastest point of each scenario, or of a micro model the fastest of all, in turns with the
    same artifact in process, and the fastest of all also with the model's reference format."""
    best_results = fastest_by_scenario(run.case, known_results(run))
    backend = run.loader.ensure_loaded(best_results[0].point.scenario).backend
    overall = fastest_closed_loop(best_results)
    assert overall is not None
    if run.server.spec.is_remote:
        what = "the artifact in process must run on the server's machine, and this server is remote"
        raise NotAvailableError(what, where=f"--triton {run.server.spec}", fix="run the suite there")
    with contextlib.ExitStack() as stack:
        with run.model_run.hold_machine(exclusive=False):
            run.say("measure efficiency", "load the model in process")
            rows = run.samples.read(range(min(len(run.samples), run.deployment.max_batch_size)))
            resident = run.settings.shared_memory == "cuda"  # tensors lie where the server's do
            process = artifact_worker(run.build, run.deployment, rows, backend=backend, resident=resident)
            worker = stack.enter_context(process)
            # The reference and the count overlap the loading in process. On a GPU the reference's server ends
            # with the block, to free memory.
            until = stack if run.case.target.device == "cuda" else None
            reference = reference_for(run, overall, until)
            flops = run.model_run.flops_per_inference
            worker.wait_ready()
        return [
            _measure(run, best, worker, flops, reference if best is overall else None)
            for best in best_results
        ]


def known_results(run: CaseRun) -> Sequence[PointResult]:
    """The load points measured so far, and others on record for this machine, build, settings and server.
    Raises NotAvailableError if an answer was wrong."""
    record = record_updates.read_stored(record_files.record_path(run.case.key, run.settings.results))
    on_record = results_of(record, run, run.build.facts.digest, run.deployment)
    of_this_run = (each.result for each in run.measured.values() if isinstance(each, MeasuredPoint))
    results = {result.point: result for result in (*on_record, *of_this_run)}
    answers = [result.answers_under_load for result in results.values()]
    if any(part is not None and part.wrong for part in answers):
        what = "the fastest load point is not known: answers under load were wrong"
        raise NotAvailableError(what, where=run.case, fix="see the failed load tests of this case")
    return [*results.values()]


def fastest_by_scenario(case: Case, results: Sequence[PointResult]) -> list[PointResult]:
    """The fastest point of each scenario, offline first, as it is still loaded; of a micro model, which has
    many cases, only the fastest of all. Raises NotAvailableError without a point of requests in flight."""
    by_scenario = (
        [result for result in results if result.point.scenario == name] for name in ("offline", "online")
    )
    fastest = [result for result in map(fastest_closed_loop, by_scenario) if result is not None]
    if (overall := fastest_closed_loop(fastest)) is None:
        what = "the best load point is not known: none was measured with a number of requests in flight"
        raise NotAvailableError(what, where=case, fix="select test_offline or test_online too")
    return [overall] if case.model.micro else fastest


def results_of(
    record: Record | None, run: CaseRun, digest: str, deployment: setup.Deployment
) -> Sequence[PointResult]:
    """The record's load points; none if build, deployment, machine, Triton or transport are not the run's."""
    if record is None or record.serving is None or record.machine != run.machine:
        return ()
    of_this = digest, deployment, run.loader.serving_by(record.serving.backend)
    return record.points if (record.build.digest, record.deployment, record.serving) == of_this else ()


def _measure(
    run: CaseRun, best: PointResult, worker: Worker, flops: float | None, reference: Reference | None
) -> Efficiency:
    """Measure a load point in turns: served, in process and in the reference format; and the peak."""
    peak = peak_flops_per_s(run)
    batch = in_turns.batch_in_process(best, run.deployment, run.case.gpus)
    point = best.point
    with prepare_to_measure(run, [point]) as (job,):
        jobs = {"served": replace(job, request_s=best.request_s)}
        cold = ["served"] if run.loader.is_cold else []
        reference_text = ""
        if reference is not None and str(reference.case) != str(run.case):
            server, request_s = reference.server, reference.best.request_s
            served = replace(job.served, server=server, name=server.name_of(reference.case))
            jobs["reference"] = replace(job, served=served, point=reference.best.point, request_s=request_s)
            reference_text = f", {served.name}"
            if reference.is_cold:
                cold.append("reference")
            reference.is_cold = False
        run.say("measure efficiency", f"{point.scenario} {point}, in process{reference_text}, in turns")
        run.loader.is_cold = False
        turns = in_turns.measure_in_turns(jobs, worker, batch, run.settings.plan(), cold)
    compared = None
    if reference is not None:
        ratio = turns.ratio("reference") if "reference" in jobs else fields.Ratio(1.0, 1.0, 1.0)
        compared = ReferenceComparison(str(reference.case), ratio, reference.build_digest)
    return Efficiency(
        point=point,
        served_per_s=turns.mean_per_s("served"),
        in_process_per_s=turns.mean_per_s("in_process"),
        in_process_batch=batch,
        threads=worker.threads,
        ratio=turns.ratio(),
        turn_count=turns.count,
        flops_per_inference=flops,
        peak_flops_per_s=peak,
        spinning=worker.spinning,
        reference=compared,
        marks=tuple(in_turns.marks_of_turns(turns, best, reference.best if reference else None)),
    )


def peak_flops_per_s(run: CaseRun) -> fields.Estimate:
    """The peak of the CPU, or of as many GPUs as serve the case, one of which is measured. Raises the
    ProofError with which the measurement failed."""
    peak = run.model_run.suite_run.measure_peak(peak_kind(run.case, run.deployment))
    if isinstance(peak, ProofError):
        raise peak
    gpus = run.case.gpus
    return structs.replace(peak, value=gpus * peak.value, low=gpus * peak.low, high=gpus * peak.high)


def reference_for(run: CaseRun, best: PointResult, stack: contextlib.ExitStack | None) -> Reference | None:
    """The model's reference format, loaded for its fastest point. If the case of `run` is the reference, this
    is that case at `best`; else it is served once for all cases of the model, or until `stack` ends if given.
    None if no right record of this machine, build and settings has a fastest point."""
    case = reference_of(run.case)
    references = run.model_run.references if stack is None else {}
    if str(case) == str(run.case):
        return Reference(case, run.build.facts.digest, run.server, best)
    if str(case) not in references:
        references[str(case)] = _served_reference(run, case, stack or run.model_run.stack)
    return references[str(case)]


def _served_reference(run: CaseRun, case: Case, stack: contextlib.ExitStack) -> Reference | None:
    settings, weights_digest = run.settings, run.model_run.framework_model_on_cpu.digest
    deployment = deployment_of(case, settings)
    build = builds.reusable_build(case, weights_digest, deployment, settings.model_repos, settings.dataset)
    record = record_updates.read_stored(record_files.record_path(case.key, settings.results))
    right = None if record is None else publishable(record)  # the speed of a wrong case says nothing
    best = fastest_closed_loop(results_of(right, run, build.facts.digest if build else "", deployment))
    if build is None or best is None:
        run.note(
            f"{run.case.model.name}: no format is compared with its reference {case}, which is not on "
            "record as right, with load points of this build; select all of its tests too (-k)"
        )
        return None
    progress = run.model_run.suite_run.progress
    progress.say(f"{case}: serve the reference format (of {run.case.model.name})")
    used = builds.private_copy(build, on_progress=lambda activity: progress.say(f"{case}: {activity}"))
    prepare = functools.partial(ConvertedCase, building=used)
    reference_run = stack.enter_context(CaseRun(case, run.model_run, settings, prepare, role="reference"))
    reference_run.loader.ensure_loaded(best.point.scenario)
    return Reference(case, build.facts.digest, reference_run.server, best)
