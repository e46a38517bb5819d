"""Searches for the configuration of the highest throughput within a latency budget, and proves it right."""

import pytest
from msgspec import structs

from fixtures.errors import AccuracyError, SpeedError
from fixtures.plugin.recorder import Recorder
from fixtures.run.case_run import CaseRun
from reports.text.correctness import conversion_failure, ledger_failures, wrong_answers
from reports.text.search import beyond_text, found_text, proposal_text


@pytest.mark.load
@pytest.mark.stage("search")
def test_search(run: CaseRun, recorder: Recorder) -> None:
    """The configuration that was found keeps the budget, and passes the tests of conversion and accuracy."""
    is_converted = run.as_found is None
    if is_converted:
        recorder.keep(None, conversion=run.parity)
    missing = run.accuracy_missing if is_converted else None
    with run.search() as (found, deployed):
        is_scored = run.as_found is None or run.as_found.labelled is not None
        if is_scored and found.verdict != "beyond":
            evaluation = run.evaluate(deployed)
            found = structs.replace(found, accuracy=evaluation.ledger)
            recorder.samples(evaluation.samples, of_search=True)
        recorder.keep(deployed.serving, search=found, accuracy_missing=missing)
    if found.verdict == "beyond":
        raise SpeedError(beyond_text(found))
    recorder.figure(found_text(found))
    failures = [] if found.accuracy is None else ledger_failures(found.accuracy)
    failures += filter(None, [conversion_failure(run.parity)] if is_converted else [])
    failures += filter(None, [wrong_answers(found.load)])
    if failures:
        raise AccuracyError("; ".join(failures))
    if found.varied:
        run.narrator.note(proposal_text(found))
