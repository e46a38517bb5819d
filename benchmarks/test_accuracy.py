"""The served model still does its task, under many requests of mixed sizes."""

import pytest

from fixtures.accuracy import Stage, agreement, ledger
from fixtures.plugin.lifetimes import Deploy, Recorder
from fixtures.spec import Case, Model, Samples, Weights


def test_accuracy(
    case: Case,
    weights: Weights,
    samples: Samples,
    stages: tuple[Stage, Stage, Stage],
    deploy: Deploy,
    recorder: Recorder,
) -> None:
    """The task's metric through Triton reaches its floors: the model's own, and nearly the framework's score."""
    serving = deploy("online").serving
    missing = _what_is_missing(case.model, weights, samples)
    if missing:
        recorder.no_accuracy(serving, missing)
        _, converted, served = stages
        same = agreement(converted, served)
        assert same == 1.0, "the server decides otherwise than the same file in process"
        pytest.skip(missing)
    result = ledger(case, samples, stages)
    recorder.accuracy(serving, result)
    recorder.figure(
        f"{result.metric} {result.served:.2%} served, {result.converted:.2%} converted, "
        f"{result.framework:.2%} framework"
    )
    score = result.served
    for floor in result.floors:
        least = floor.value
        assert score >= least, (
            f"{result.metric} {score:.2%} is below its floor of {least:.2%} ({floor.source})"
        )


def _what_is_missing(model: Model, weights: Weights, samples: Samples) -> str | None:
    """The options that would make the task's metric mean something, in a sentence."""
    options = [] if weights.trained else [f"--checkpoint {model.name}=FILE"]
    options += [] if samples.labels is not None else [f"--dataset {model.name}=DIR"]
    return f"{model.metric} needs {' and '.join(options)}" if options else None
