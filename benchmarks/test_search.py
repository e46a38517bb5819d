"""Searches for the configuration with the highest throughput within a latency budget, and proves that it is still
right."""

import pytest
from msgspec import structs

from fixtures.errors import AccuracyError, SpeedError
from fixtures.run.proving import Prove
from fixtures.run.recorder import Recorder
from fixtures.run.searching import FindFastest
from reports.record.schema import Parity
from reports.text.correctness import conversion_failure, ledger_failures, wrong_answers
from reports.text.search import beyond_text, found_text


@pytest.mark.load
@pytest.mark.stage("search")
def test_search(
    parity: Parity,
    find_fastest: FindFastest,
    prove: Prove,
    accuracy_missing: str | None,
    recorder: Recorder,
) -> None:
    """The configuration that was found keeps the budget, and passes the tests of conversion and accuracy."""
    recorder.conversion(parity)
    found, deployed = find_fastest()
    recorder.search(deployed.serving, found, accuracy_missing)
    if found.verdict == "beyond":
        raise SpeedError(beyond_text(found))
    evaluation = prove(deployed)
    found = structs.replace(found, accuracy=evaluation.ledger)
    recorder.search(deployed.serving, found, accuracy_missing)
    recorder.samples(evaluation.samples, of_search=True)
    recorder.figure(found_text(found))
    failures = ledger_failures(evaluation.ledger)
    failures += filter(None, [conversion_failure(parity), wrong_answers(found.load)])
    if failures:
        raise AccuracyError("; ".join(failures))
