"""Compares a case with its baseline: the same case in a run of its own, with the build or repository of
`--against`, or with this build on the Triton of `--against-triton`."""

import contextlib
import dataclasses
import itertools
import random
from collections.abc import Callable, Sequence

from msgspec import structs

from tritonproof.accuracy.answer_comparison import AnswerFinding
from tritonproof.accuracy.outputs import inferred_precision
from tritonproof.base.errors import InputError, NotAvailableError
from tritonproof.base.paths import CONFIG_FILE
from tritonproof.build import baseline_builds
from tritonproof.client.input_data import InputData, input_data, remaining_data
from tritonproof.gates.conversations import compare_server_conversations
from tritonproof.gates.same_answers import compare_servers
from tritonproof.measure.point_state import PointState, Side, with_baseline
from tritonproof.measure.slowdown import ComparisonTerms
from tritonproof.measure.usage import Usage, read_usage, watch
from tritonproof.measure.verifying import with_expected
from tritonproof.ratios import MAX_LOADINGS, loading_is_slower
from tritonproof.record.correctness import GateResult
from tritonproof.record.speed import BaselineComparison, ServedSide
from tritonproof.run.case_run import BaselineResult, CaseRun
from tritonproof.serve.loading import warnings_in
from tritonproof.spec import ANY, fits


class NewModelError(NotAvailableError):
    """The model replaces none of the baseline's, so there is nothing to compare it with."""


def add_baselines(run: CaseRun, baseline: CaseRun, states: Sequence[PointState]) -> list[PointState]:
    """The unmeasured load points of one scenario, each with the baseline's job unless the baseline takes no
    such batch. Raises InputError if the baseline is a build that does not take the largest batch."""
    scenario = states[0].point.scenario
    if baseline.described is None:  # a build, whose own configuration may serve it
        needed = max(state.point.batch for state in states)
        largest_there = max(1, baseline_builds.config_of(baseline.build.folder).max_batch_size)
        if needed > largest_there:
            what = f"the other build takes batches up to {largest_there}, not {needed}"
            fix = "give smaller --batches, or build it with the same --deployment max_batch_size"
            raise InputError(what, where=baseline.build.folder / CONFIG_FILE, fix=fix)
    backend = baseline.loader.ensure_loaded(scenario).backend
    largest = baseline.deployment.max_batch_size
    settings, name = run.settings, str(run.settings.baseline)
    if settings.against_triton is not None:
        name = f"Triton {baseline.server.version}, {name}"
        run.note(f"{run.case} against {name}: served by its {backend} backend")
    data = _shared_data(run, baseline)
    if data is not (own := run.loader.served).data:
        run.note(f"{run.case} against {name}: load of the shapes that it takes too")
        served = dataclasses.replace(own, data=data)
        expected = run.expected_answers_to(data)
        jobs = [dataclasses.replace(state.current.job, served=served) for state in states]
        sides = [(Side(with_expected(job, expected)),) for job in jobs]
        states = [dataclasses.replace(state, sides=each) for state, each in zip(states, sides, strict=True)]
    terms = ComparisonTerms(
        name,
        allowed_slowdown=settings.thresholds.allowed_slowdown(run.case, settings.allow_slowdown),
        compared_points=max(1, sum(map(len, (run.model_run.suite_run.selected_points or {}).values()))),
    )
    served_name = baseline.server.name_of(run.case)
    return [
        with_baseline(state, baseline.server, served_name, terms)
        if state.point.batch <= largest
        else state  # measured by itself
        for state in states
    ]


def _shared_data(run: CaseRun, baseline: CaseRun) -> InputData:
    """The load data for case and baseline: the case's own, or only samples of the shapes that both take."""
    if len(baseline.samples.other_shapes) == len(run.samples.other_shapes):
        return run.loader.served.data
    return run.stack.enter_context(input_data(run.case.model, baseline.samples, run.server.scratch))


def reloader(run: CaseRun, baseline: CaseRun) -> Callable[[], None] | None:
    """A function that loads case and baseline again, in random order; None if somebody else loaded one."""
    sides = (run, baseline)
    described = filter(None, [side.described for side in sides])
    if not all(model.entry.folder for model in described):
        return None

    def load() -> None:
        run.say("load both builds anew")
        for side in random.sample(sides, len(sides)):
            side.loader.reload()
            side.loader.time_request(1)

    return load


def compare_with_baseline(run: CaseRun) -> BaselineResult:
    """Whether every sample gets the same answer from the baseline, and what else differs; compared only once.
    Raises NewModelError if the baseline's repository has no such model."""
    if run.baseline_result is not None:
        return run.baseline_result
    baseline, name, model = run.baseline, str(run.settings.baseline), run.case.model
    if baseline is None:
        what = f"{model.name} is new: {name} has no such model to compare it with"
        raise NewModelError(what, where=run.case)
    with run.model_run.hold_machine(exclusive=False):
        finding = _compare_answers(run, baseline, name)
    fault = "; ".join(filter(None, [*_lost_by_clients(run, baseline), finding.result.fault]))
    known = warnings_in(baseline.server.log)
    new_warnings = [text for key, text in warnings_in(run.server.log).items() if key not in known]
    side, baseline_side = _served_side(run), _served_side(baseline)
    with run.model_run.hold_machine(exclusive=True):
        run.say("load the model again", f"in turns with {name}")
        loadings_s, baseline_loadings_s = _loadings_in_turns(run, baseline)
    side = structs.replace(side, loadings_s=tuple(loadings_s))
    baseline_side = structs.replace(baseline_side, loadings_s=tuple(baseline_loadings_s))
    finding = dataclasses.replace(finding, result=structs.replace(finding.result, fault=fault))
    comparison = BaselineComparison(name, side, baseline_side, tuple(new_warnings[:20]))
    run.baseline_result = BaselineResult(finding, comparison)
    return run.baseline_result


def _compare_answers(run: CaseRun, baseline: CaseRun, baseline_name: str) -> AnswerFinding[GateResult]:
    model = run.case.model
    if model.exchange != baseline.case.model.exchange:
        return AnswerFinding(GateResult("baseline", 0, "the configuration"))
    if model.takes_single_requests:
        run.say("answers beside the baseline's", baseline_name)
        parts = itertools.chain([_shared_data(run, baseline)], remaining_data(model, baseline.samples))
        gate = compare_servers(run.gate_context, baseline.gate_context, parts, baseline_name)
        tried = gate.result.tried
        if lacking := len(run.samples.other_shapes) - len(baseline.samples.other_shapes):
            tried += f", without shapes that it does not take ({lacking})"
        return dataclasses.replace(gate, result=structs.replace(gate.result, tried=tried))
    run.say("the same requests to the baseline", baseline_name)
    servers = run.server, baseline.server
    return AnswerFinding(compare_server_conversations(*servers, model, run.samples, baseline_name))


def _lost_by_clients(run: CaseRun, baseline: CaseRun) -> list[str]:
    """What clients of the baseline's model would miss in this one, in sentences."""
    model, baseline_model = run.case.model, baseline.case.model
    losses = []
    for field in ("inputs", "outputs"):
        tensors, baseline_tensors = (
            {f"{tensor.name} ({tensor.dtype})" for tensor in getattr(side, field)}
            for side in (model, baseline_model)
        )
        if lacking := sorted(baseline_tensors - tensors):
            losses.append(f"it lacks {field} that the other has: {', '.join(lacking)}")
    baseline_inputs = {tensor.name: tensor for tensor in baseline_model.inputs}
    for tensor in model.inputs:
        baseline_input = baseline_inputs.get(tensor.name)
        shape = [ANY, *tensor.shape] if model.batched else [*tensor.shape]
        if not tensor.optional and (baseline_input is None or baseline_input.optional):
            losses.append(f"it requires the input {tensor.name}, which the other does not")
        if baseline_input is not None:
            row_shape = baseline_input.shape
            baseline_shape = [ANY, *row_shape] if baseline_model.batched else [*row_shape]
            if not fits(baseline_shape, shape):
                losses.append(f"its input {tensor.name} takes {shape}, and {baseline_shape} there")
    largest, baseline_largest = run.deployment.max_batch_size, baseline.deployment.max_batch_size
    if baseline_largest > largest:
        losses.append(f"batches up to {largest} are taken, and up to {baseline_largest} there")
    if model.exchange != baseline_model.exchange:
        losses.append(f"its requests are {model.exchange}, and {baseline_model.exchange} there")
    return losses


def _served_side(run: CaseRun) -> ServedSide:
    """The resources that the model uses on one of the two servers, and how much its answers vary."""
    precision, noise = "", None
    if run.case.model.takes_single_requests:
        alone = run.gate_context.single_answers
        precision, noise = inferred_precision(alone.by_sample.values()), alone.noise
    used: Usage = {}
    with contextlib.suppress(NotAvailableError):  # the server's processes are not visible from here
        used = read_usage(watch(run.server))
    return ServedSide(run.server.version, precision, noise, loadings_s=(), used=used)


def _loadings_in_turns(run: CaseRun, baseline: CaseRun) -> tuple[list[float], list[float]]:
    """Load the model on both servers in turns until one loading is not far slower than the baseline's
    slowest. Returns each side's seconds of loadings with a first answer: none if others may use a server."""
    current_s, baseline_s = list[float](), list[float]()
    most = 0 if run.settings.triton.is_remote else MAX_LOADINGS
    while len(current_s) < most and (not current_s or loading_is_slower(current_s, baseline_s)):
        for side, loadings_s in ((run, current_s), (baseline, baseline_s)):
            loading_s = side.loader.reload()
            answer_s = side.loader.time_request(1)[0] if side.case.model.takes_single_requests else 0.0
            loadings_s.append(round(loading_s + answer_s, 3))
    return current_s, baseline_s
