"""The served model still does its task, under many requests of mixed sizes."""

import pytest

from fixtures.errors import AccuracyError
from fixtures.plugin.proving import Proof
from fixtures.plugin.recorder import Recorder
from reports.words.rightness import ledger_failures, score_text


@pytest.mark.stage("accuracy")
def test_accuracy(proof: Proof, recorder: Recorder) -> None:
    """Each metric through Triton keeps its limits: the model's own, and nearly the framework's score."""
    recorder.accuracy(proof.serving, proof.ledger, proof.missing)
    recorder.samples(proof.samples)
    recorder.figure("; ".join(score_text(score) for score in proof.ledger.scores))
    if failures := ledger_failures(proof.ledger):
        raise AccuracyError("; ".join(failures))
    if proof.missing:
        pytest.skip(proof.missing)
