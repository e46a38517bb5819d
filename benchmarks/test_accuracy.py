"""The served model still does its task, under many requests of mixed sizes."""

import pytest

from fixtures.errors import AccuracyError
from fixtures.plugin.proving import Evaluation
from fixtures.plugin.recording.recorder import Recorder
from reports.words.rightness import ledger_failures, score_text


@pytest.mark.stage("accuracy")
def test_accuracy(evaluation: Evaluation, recorder: Recorder) -> None:
    """Each metric through Triton keeps its limits: the model's own, and nearly the framework's score."""
    recorder.accuracy(evaluation.serving, evaluation.ledger, evaluation.missing)
    recorder.samples(evaluation.samples)
    recorder.figure("; ".join(score_text(score) for score in evaluation.ledger.scores))
    if failures := ledger_failures(evaluation.ledger):
        raise AccuracyError("; ".join(failures))
    if evaluation.missing:
        pytest.skip(evaluation.missing)
