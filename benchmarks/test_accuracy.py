"""The served model keeps its accuracy, under many requests of mixed batch sizes."""

from collections.abc import Callable

import pytest

from fixtures.gates.sameness import with_same_answers
from fixtures.run.gating import Wrong
from fixtures.run.proving import Evaluation
from fixtures.run.recorder import Recorder
from reports.record.schema import SameAnswers
from reports.text.correctness import ledger_failures, same_answers_text, score_text


@pytest.mark.stage("accuracy")
def test_accuracy(
    recorder: Recorder,
    evaluation: Evaluation,
    same_however_sent: Callable[[], SameAnswers],
    wrong: Wrong,
) -> None:
    """Each metric, computed from Triton's answers, keeps the model's own limit and nearly the framework's score, and a
    sample gets the same answer however it is sent."""
    same = same_however_sent()
    ledger = with_same_answers(evaluation.ledger, same)
    recorder.accuracy(evaluation.serving, ledger, evaluation.missing)
    recorder.samples(evaluation.samples)
    recorder.figure("; ".join([*map(score_text, ledger.scores), same_answers_text(same)]))
    if failures := ledger_failures(ledger):
        raise wrong("; ".join(failures))
    if evaluation.missing:
        pytest.skip(evaluation.missing)
