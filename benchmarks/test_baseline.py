"""A repository's model answers like the one that it is to replace, or as on another Triton."""

import pytest

from fixtures.recorder import Recorder
from tritonproof.base.errors import AccuracyError, NotAvailableError, SpeedError
from tritonproof.reports.correctness_text import gate_text
from tritonproof.reports.speed_text import footprint_changes, footprint_failures
from tritonproof.run.case_run import CaseRun
from tritonproof.run.comparing import compare_with_baseline
from tritonproof.run.proving import reproduce


@pytest.mark.step("baseline")
def test_baseline(run: CaseRun, recorder: Recorder) -> None:
    """Every sample gets the same answer from both, within the noise of a request that is sent again."""
    finding, comparison = compare_with_baseline(run)
    recorder.record(gates=(finding.result,), baseline=comparison)
    recorder.report.show(gate_text(finding.result))
    shown = reproduce(run, finding)
    if finding.result.fault:
        fix = f"where that is meant, say how far answers may differ: --tolerance {run.case.model.name}=SHARE"
        raise AccuracyError(finding.result.fault, where=shown or run.case, fix=fix)


@pytest.mark.step("footprint")
def test_footprint_near_baseline(run: CaseRun, recorder: Recorder) -> None:
    """The model is loaded about as fast as the other, and its server keeps about as much memory."""
    comparison = compare_with_baseline(run).comparison
    recorder.record(baseline=comparison)
    changes = [text for text, _ in footprint_changes(comparison)]
    if not changes:
        raise NotAvailableError("loading and memory of running servers are not compared", where=run.case)
    recorder.report.show("; ".join(changes))
    if excesses := footprint_failures(comparison):
        raise SpeedError("; ".join(excesses), where=run.case)
