"""Proves a case right: by its labels, and by equal answers however a request is sent."""

import dataclasses
import functools
import shutil

from tritonproof.accuracy.answer_comparison import AnswerFinding, StageComparison
from tritonproof.accuracy.ledger import accuracy_ledger, sample_scores, score_each_item
from tritonproof.accuracy.stages import Stages, evaluate_through_server
from tritonproof.base.errors import NotAvailableError
from tritonproof.base.paths import CONFIG_FILE
from tritonproof.gates import GATES
from tritonproof.gates.conversations import compare_conversations
from tritonproof.gates.recorded import recorded_gate
from tritonproof.gates.reproducer import write_reproducer
from tritonproof.record.correctness import GateResult, Ledger
from tritonproof.record.sample_files import SampleScores
from tritonproof.run.case_run import CaseRun
from tritonproof.user_models.model_from_config import sequences_at_once


def prove_accuracy(run: CaseRun, *, as_loaded: bool = False) -> tuple[Ledger, SampleScores]:
    """Score the case in the framework, in process and through the server; a --repository model, which has no
    source to compare with, only through the server, on all its labelled samples. The server loads it with its
    own settings, under dynamic batching; with `as_loaded` it stays loaded as a search's winner is."""
    if not as_loaded:
        run.loader.ensure_loaded("online")
    case, samples = run.case, run.samples
    user_limits, is_labelled = run.settings.thresholds.limits(case), run.why_no_score is None
    framework = converted = comparison = None
    if run.described is None:
        framework, converted = run.model_run.framework_answers, run.converted_answers
        comparison = StageComparison("served", samples.ids, converted.outputs, run.arithmetic)
    run.loader.leave_gpu()
    batch, on_progress = run.deployment.max_batch_size, functools.partial(run.say, "evaluate through Triton")
    with run.model_run.hold_machine(exclusive=False):
        served = evaluate_through_server(run.server, case, samples, batch, on_progress, comparison)
    stages = Stages(framework=framework, converted=converted, served=served)
    scores_by_metric = score_each_item(case, samples, stages, labelled=is_labelled)
    ledger = accuracy_ledger(run.arithmetic, samples, stages, scores_by_metric, user_limits)
    return ledger, sample_scores(case, run.build.facts.digest, samples, stages, scores_by_metric)


def prove_conversation(run: CaseRun) -> AnswerFinding[GateResult]:
    """Whether a model that takes no single requests gives the same answers again."""
    described = run.described
    if described is None or run.case.model.takes_single_requests:
        raise NotAvailableError(f"{run.case.model.name} is asked by single requests, each with one answer")
    run.say("send the same requests again")
    with run.model_run.hold_machine(exclusive=False):
        called = (entry.config for entry in described.called if entry.config is not None)
        sequences = [config for config in called if config.HasField("sequence_batching")]
        max_sequences = min(map(sequences_at_once, [described.config, *sequences]))
        return AnswerFinding(compare_conversations(run.server, run.case.model, run.samples, max_sequences))


def prove_recorded(run: CaseRun) -> AnswerFinding[GateResult]:
    """Whether the answers are those in the folder of --answers. With --record-answers, the model's first case
    in this run records its answers, with which those of its other cases are compared."""
    folder, case_id = run.settings.answers, str(run.requested)
    assert folder is not None
    run.say("answers without labels", "recorded")
    run_id = run.model_run.suite_run.identity.id if run.settings.record_answers else None
    on_wait = functools.partial(run.say, "wait for answers that another run records")
    with run.model_run.hold_machine(exclusive=False):
        context = run.gate_context
        run.loader.ensure_loaded("online")
        return recorded_gate(context, folder, case_id, run_id, on_wait)


def run_gate(run: CaseRun, name: str) -> AnswerFinding[GateResult]:
    """The finding of a gate such as "batches", whose check takes a `GateContext` alone."""
    run.say("answers without labels", name)
    gate = GATES[name]
    with run.model_run.hold_machine(exclusive=False):
        context = run.gate_context  # made before a reload: it has the answers given alone
        loaded = run.loader.load_again() if gate.after_reload else run.loader.ensure_loaded("online")
        described = run.described
        if gate.needs_configuration and described and "configuration" in described.unreported:
            raise NotAvailableError("the server does not give the configuration and its largest batch")
        return gate.check(dataclasses.replace(context, loaded=loaded))


def reproduce(run: CaseRun, finding: AnswerFinding[GateResult]) -> str:
    """Write a gate's reproducer over an earlier one; returns `reproducer: FOLDER`, or an empty text if no
    single answer is wrong."""
    folder = run.settings.results / run.case.target.name / f"{run.case}.reproducer" / finding.result.gate
    shutil.rmtree(folder, ignore_errors=True)
    mismatch = finding.mismatch
    if not finding.result.fault or mismatch is None:
        return ""
    for samples in (run.samples, *run.samples.other_shapes):
        index_of = {str(name): index for index, name in enumerate(samples.ids)}
        if index_of.keys() >= set(mismatch.batch):
            rows = dict(samples.read([index_of[name] for name in mismatch.batch]))
            name, config = run.server.name_of(run.case), run.build.folder / CONFIG_FILE
            write_reproducer(folder, name, config, run.case.model, rows, mismatch)
            return f"reproducer: {folder}"
    return ""  # the request had a sample that is not the case's, such as one without an optional input
