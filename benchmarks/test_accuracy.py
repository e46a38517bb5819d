"""The served model still does its task, under many requests of mixed sizes."""

import pytest

from fixtures.build.repository import BuiltModel
from fixtures.errors import AccuracyError
from fixtures.plugin.recorder import Recorder
from fixtures.plugin.serving import Deploy
from fixtures.prove.accuracy import Stages, item_scores, ledger, what_is_missing
from fixtures.prove.sample_scores import samples_file
from fixtures.spec import Case, Samples, Weights
from reports.words.rightness import ledger_failures, score_text


def test_accuracy(
    case: Case,
    weights: Weights,
    build: BuiltModel,
    samples: Samples,
    stages: Stages,
    deploy: Deploy,
    recorder: Recorder,
) -> None:
    """Each metric through Triton keeps its limits: the model's own, and nearly the framework's score."""
    missing = what_is_missing(case.model, weights, samples)
    by_item = item_scores(case, samples, stages, labelled=missing is None)
    result = ledger(case, samples, stages, by_item)
    recorder.accuracy(deploy("online").serving, result, missing)
    recorder.samples(samples_file(case, build.digest, samples, stages, by_item))
    recorder.figure("; ".join(score_text(score) for score in result.scores))
    if failures := ledger_failures(result):
        raise AccuracyError("; ".join(failures))
    if missing:
        pytest.skip(missing)
