"""Keeps the server under load and reloads the model, to see what grows. Runs only with --soak TIME."""

import pytest

from fixtures.recorder import Recorder
from tritonproof.base.errors import AccuracyError, NotAvailableError, ProofError
from tritonproof.reports.correctness_text import wrong_answers_text
from tritonproof.reports.tables.soak import leak_sentences, soak_text, undecided_growth
from tritonproof.run.case_run import CaseRun
from tritonproof.run.measuring import soak


@pytest.mark.speed
@pytest.mark.step("soak")
def test_soak(run: CaseRun, recorder: Recorder) -> None:
    """Nothing leaks, neither by request nor by loading of the model, and every verified answer is right."""
    shown = recorder.record(soak=soak(run)).soak
    assert shown is not None
    if wrong := wrong_answers_text(shown.answers_under_load):
        raise AccuracyError(wrong)
    if leaking := leak_sentences(shown):
        raise ProofError("; ".join(leaking), where=run.case)
    if not_shown := undecided_growth(shown, "request"):
        fix = "soak it for longer, or while the machine does less else"
        raise NotAvailableError("; ".join(not_shown), where=run.case, fix=fix)
    recorder.show(soak_text(shown))
