"""Which steps the cases of a model go through."""

import dataclasses
from typing import Any

import pytest

from fixtures.steps import STEPS, has_step
from tritonproof.models import all_models


def test_model_that_a_repository_lacks_is_only_compared() -> None:
    model = dataclasses.replace(all_models()[0], framework=None)
    assert [step for step in (*STEPS, None) if has_step(model, step, {model.name})] == ["baseline"]


def test_failure_of_each_step_that_asserts_answers_is_recorded() -> None:
    proving = {name for name, step in STEPS.items() if step.proves}
    assert proving == {"conversion", "accuracy", "gates", "recorded", "conversation", "reload", "baseline"}


def test_model_of_sequences_has_no_step_of_single_requests() -> None:
    model = dataclasses.replace(all_models()[0], exchange="sequence")
    left_out = {step for step in STEPS if has_step(all_models()[0], step) and not has_step(model, step)}
    assert left_out == {"gates", "recorded", "reload", "search", "soak"}


@pytest.mark.parametrize(
    "changes",
    [{}, {"inputs": ()}, {"is_ensemble": True}, {"exchange": "decoupled"}, {"exchange": "sequence"}],
)
def test_conversation_is_a_step_of_models_that_may_take_no_single_requests(changes: Any) -> None:
    model = dataclasses.replace(all_models()[0], framework=None, **changes)
    assert has_step(model, "conversation") is bool(changes)
