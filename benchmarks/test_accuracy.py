"""The served model keeps its accuracy, under many requests of mixed batch sizes."""

import pytest

from fixtures.plugin.recorder import Recorder
from fixtures.run.case_run import CaseRun
from reports.text.correctness import ledger_failures, same_answers_text, score_text


@pytest.mark.stage("accuracy")
def test_accuracy(run: CaseRun, recorder: Recorder) -> None:
    """Each metric, computed from Triton's answers, keeps the model's own limit and nearly the framework's
    score, and a sample gets the same answer however it is sent."""
    evaluation = run.accuracy
    ledger = run.full_ledger()
    assert ledger.same_answers is not None
    recorder.keep(evaluation.serving, accuracy=ledger, accuracy_missing=evaluation.missing)
    recorder.keep_samples(evaluation.samples)
    recorder.show_figure("; ".join([*map(score_text, ledger.scores), same_answers_text(ledger.same_answers)]))
    if failures := ledger_failures(ledger):
        raise run.accuracy_error("; ".join(failures))
    if evaluation.missing:
        pytest.skip(evaluation.missing)
