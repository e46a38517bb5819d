"""The served model still does its task, under many requests of mixed sizes."""

import pytest

from fixtures.accuracy import Stages, ledger, what_is_missing
from fixtures.plugin.lifetimes import Deploy
from fixtures.plugin.recorder import Recorder
from fixtures.spec import Case, Samples, Weights
from reports.verdict import ledger_failures, score_text


def test_accuracy(
    case: Case, weights: Weights, samples: Samples, stages: Stages, deploy: Deploy, recorder: Recorder
) -> None:
    """Each metric through Triton keeps its limits: the model's own, and nearly the framework's score."""
    missing = what_is_missing(case.model, weights, samples)
    result = ledger(case, samples, stages, labelled=missing is None)
    recorder.accuracy(deploy("online").serving, result, missing)
    recorder.figure("; ".join(score_text(score) for score in result.scores))
    failures = ledger_failures(result)
    assert not failures, "; ".join(failures)
    if missing:
        pytest.skip(missing)
