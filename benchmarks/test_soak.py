"""Keeps the server under load for a long time and loads the model again and again, to see whether its use of
resources grows. Runs only with --soak TIME."""

import pytest

from fixtures.errors import AccuracyError, NotAvailableError, ProofError
from fixtures.plugin.recorder import Recorder
from fixtures.run.case_run import CaseRun
from reports.text.correctness import wrong_text
from reports.text.soak import leaks, soak_text, unknown


@pytest.mark.load
@pytest.mark.stage("soak")
def test_soak(run: CaseRun, recorder: Recorder) -> None:
    """Nothing leaks, neither with each request nor with each loading of the model, and every answer that is
    verified is right."""
    found, deployed = run.soak()
    recorder.keep(deployed.serving, soak=found)
    if wrong := wrong_text(found.answers, "in the soak"):
        raise AccuracyError(wrong)
    if leaking := leaks(found):
        raise ProofError("; ".join(leaking), where=run.case)
    if not_shown := unknown(found, "request"):
        raise NotAvailableError(
            "; ".join(not_shown),
            where=run.case,
            fix="soak it for longer, or while the machine does less else",
        )
    recorder.figure(soak_text(found))
