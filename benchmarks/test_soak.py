"""Keeps the server under load for a long time and loads the model again and again, to see whether its use of resources
grows. Runs only with --soak TIME."""

from collections.abc import Callable

import pytest

from fixtures.errors import AccuracyError, NotAvailableError, ProofError
from fixtures.run.recorder import Recorder
from fixtures.run.serving import Deployed
from fixtures.spec import Case
from reports.record.schema import Soak
from reports.text.correctness import wrong_text
from reports.text.soak import leaks, soak_text, unknown


@pytest.mark.load
@pytest.mark.stage("soak")
def test_soak(case: Case, soak: Callable[[], tuple[Soak, Deployed]], recorder: Recorder) -> None:
    """Nothing leaks, neither with each request nor with each loading of the model, and every answer that is verified is
    right."""
    found, deployed = soak()
    recorder.soak(deployed.serving, found)
    if wrong := wrong_text(found.answers, "in the soak"):
        raise AccuracyError(wrong)
    if leaking := leaks(found):
        raise ProofError("; ".join(leaking), where=case)
    if not_shown := unknown(found, "request"):
        raise NotAvailableError(
            "; ".join(not_shown), where=case, cure="soak it for longer, or while the machine does less else"
        )
    recorder.figure(soak_text(found))
