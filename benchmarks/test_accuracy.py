"""The served model still does its task, under many requests of mixed sizes."""

import pytest

from fixtures.build.repository import Build
from fixtures.errors import AccuracyError
from fixtures.plugin.recorder import Recorder
from fixtures.plugin.serving import Deploy
from fixtures.prove.accuracy import accuracy_ledger, missing_options, score_each_sample
from fixtures.prove.per_sample import per_sample_file
from fixtures.prove.stages import Stages
from fixtures.spec import Case, Samples, Weights
from reports.words.rightness import ledger_failures, score_text


def test_accuracy(
    case: Case,
    weights: Weights,
    build: Build,
    samples: Samples,
    stages: Stages,
    deploy: Deploy,
    recorder: Recorder,
) -> None:
    """Each metric through Triton keeps its limits: the model's own, and nearly the framework's score."""
    missing = missing_options(case.model, weights, samples)
    per_sample = score_each_sample(case, samples, stages, labelled=missing is None)
    result = accuracy_ledger(case, samples, stages, per_sample)
    recorder.accuracy(deploy("online").serving, result, missing)
    recorder.samples(per_sample_file(case, build.digest, samples, stages, per_sample))
    recorder.figure("; ".join(score_text(score) for score in result.scores))
    if failures := ledger_failures(result):
        raise AccuracyError("; ".join(failures))
    if missing:
        pytest.skip(missing)
