"""The served model still does its task, under many requests of mixed sizes."""

import pytest

from fixtures.accuracy import Stages, ledger
from fixtures.plugin.lifetimes import Deploy, Recorder
from fixtures.spec import Case, Model, Samples, Weights
from reports.record import meets
from reports.verdict import limit_text, score_text


def test_accuracy(
    case: Case, weights: Weights, samples: Samples, stages: Stages, deploy: Deploy, recorder: Recorder
) -> None:
    """Each metric through Triton keeps its limits: the model's own, and nearly the framework's score."""
    missing = _what_is_missing(case.model, weights, samples)
    result = ledger(case, samples, stages, labelled=missing is None)
    recorder.accuracy(deploy("online").serving, result, missing)
    recorder.figure("; ".join(score_text(score) for score in result.scores))
    for score in result.scores:
        for limit in score.limits:
            keeps = meets(score.better, score.served, limit.value)
            assert keeps, limit_text(score, limit)
    for one in result.disagreements:
        agreement, least = one.agreement, one.agreement_limit or 0.0
        assert agreement >= least, f"{' and '.join(one.between)} decide differently"
    if missing:
        pytest.skip(missing)


def _what_is_missing(model: Model, weights: Weights, samples: Samples) -> str | None:
    """The options that would make the task's metric mean something, in a sentence."""
    options = [] if weights.trained else [f"--checkpoint {model.name}=PATH"]
    options += [] if samples.labels is not None else [f"--dataset {model.name}=PATH"]
    return f"{model.metrics[0].name} needs {' and '.join(options)}" if options else None
