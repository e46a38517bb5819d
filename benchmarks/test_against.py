"""A model of a repository answers as the one that it is to replace, or as it does on another Triton."""

import pytest

from fixtures.errors import AccuracyError, SpeedError
from fixtures.plugin.recorder import Recorder
from fixtures.run.case_run import CaseRun
from reports.record.verdicts import costlier, costs
from reports.text.correctness import gate_text


@pytest.mark.stage("against")
def test_same_answer_as_the_other(run: CaseRun, recorder: Recorder) -> None:
    """Every sample gets the same answer from both, within the noise of a request that is sent again."""
    serving, found, beside = run.beside_other
    recorder.keep(serving, gates=(found,), against=beside)
    recorder.figure(gate_text(found))
    shown = run.reproduce(found)
    if found.wrong:
        fix = f"where that is meant, say how far answers may differ: --tolerance {run.case.model.name}=SHARE"
        raise AccuracyError(found.wrong, where=shown or run.case, fix=fix)


@pytest.mark.stage("costs")
def test_costs_no_more_than_the_other(run: CaseRun, recorder: Recorder) -> None:
    """The model is loaded about as fast as the other, and its server keeps about as much memory."""
    serving, _, beside = run.beside_other
    recorder.keep(serving, against=beside)
    recorder.figure("; ".join(said for said, _ in costs(beside)))
    if found := costlier(beside):
        raise SpeedError("; ".join(found), where=run.case)
