"""Searches for the configuration of the highest throughput within a latency budget, and proves it right."""

import pytest
from msgspec import structs

from fixtures.recorder import Recorder
from tritonproof.base.errors import AccuracyError, SpeedError
from tritonproof.reports.correctness_text import conversion_failure, ledger_failures, wrong_answers_text
from tritonproof.reports.speed_text import no_winner_text, proposal_text, search_text
from tritonproof.run.case_run import CaseRun
from tritonproof.run.proving import prove_accuracy
from tritonproof.run.searching import search_for_fastest


@pytest.mark.speed
@pytest.mark.step("search")
def test_search(run: CaseRun, recorder: Recorder) -> None:
    """The winning configuration keeps the budget, and passes the tests of conversion and accuracy."""
    conversion = run.conversion
    proven = {} if conversion is None else {"conversion": conversion}
    with search_for_fastest(run) as search:
        if run.case.model.metrics and search.verdict != "failed":
            search = structs.replace(search, accuracy=prove_accuracy(run, as_loaded=True)[0])
        shown = recorder.record(search=search, why_no_score=run.why_no_score, **proven)
    if search.verdict != "failed":
        recorder.report.show(shown.why_no_winner or search_text(search))
    failures = [] if search.accuracy is None else ledger_failures(search.accuracy)
    failures += filter(None, [] if conversion is None else [conversion_failure(conversion)])
    failures += filter(None, [wrong_answers_text(search.result.answers_under_load)])
    if failures:
        raise AccuracyError("; ".join(failures))
    if search.verdict == "failed":
        raise SpeedError(shown.why_no_winner or no_winner_text(search))
    if conversion is None:
        run.note(proposal_text(search))
