"""The served model still does its task, under many requests of mixed sizes."""

import pytest

from fixtures.accuracy import Stage, agreement, ledger
from fixtures.plugin.lifetimes import Deploy, Recorder
from fixtures.spec import Case, Samples, Weights


def test_accuracy(
    case: Case,
    weights: Weights,
    samples: Samples,
    stages: tuple[Stage, Stage, Stage],
    deploy: Deploy,
    recorder: Recorder,
) -> None:
    """The task's metric through Triton reaches its floors: the model's own, and the framework's score nearly."""
    serving = deploy("online").serving
    if not weights.trained or samples.labels is None:
        option = "--checkpoint" if not weights.trained else "--dataset"
        reason = f"{case.model.metric} needs {option} {case.model.name}=..."
        recorder.no_accuracy(serving, reason)
        _, converted, served = stages
        assert agreement(converted, served) == 1.0, (
            "the server answers otherwise than the same file in process"
        )
        pytest.skip(reason)
    result = ledger(case, samples, stages)
    recorder.accuracy(serving, result)
    recorder.figure(
        f"{result.metric} {result.served:.2%} served, {result.converted:.2%} converted, "
        f"{result.framework:.2%} framework"
    )
    for floor in result.floors:
        assert result.served >= floor.value, floor.source
