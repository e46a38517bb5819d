"""Searches for the configuration with the highest throughput within a latency budget, and proves that it is still
right."""

import pytest
from msgspec import structs

from fixtures.errors import AccuracyError, SpeedError
from fixtures.run.case_run import CaseRun
from fixtures.run.recorder import Recorder
from reports.text.correctness import conversion_failure, ledger_failures, wrong_answers
from reports.text.search import beyond_text, found_text


@pytest.mark.load
@pytest.mark.stage("search")
def test_search(run: CaseRun, recorder: Recorder) -> None:
    """The configuration that was found keeps the budget, and passes the tests of conversion and accuracy."""
    recorder.keep(None, conversion=run.parity)
    found, deployed = run.search()
    recorder.keep(deployed.serving, search=found, accuracy_missing=run.accuracy_missing)
    if found.verdict == "beyond":
        raise SpeedError(beyond_text(found))
    evaluation = run.evaluate(deployed)
    found = structs.replace(found, accuracy=evaluation.ledger)
    recorder.keep(deployed.serving, search=found, accuracy_missing=run.accuracy_missing)
    recorder.samples(evaluation.samples, of_search=True)
    recorder.figure(found_text(found))
    failures = ledger_failures(evaluation.ledger)
    failures += filter(None, [conversion_failure(run.parity), wrong_answers(found.load)])
    if failures:
        raise AccuracyError("; ".join(failures))
