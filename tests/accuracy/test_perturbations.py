"""The gates find nine in ten conversion faults of at least twice the precision's own cost."""

import pytest

from fixtures.models import all_models
from fixtures.spec import Model
from tests.accuracy.perturbations import NOTICEABLE, PRECISIONS, SHARE, Finding, findings_of, share_noticed

MODELS = {model.name: model for model in all_models()}
CASES = [(name, precision) for name, precisions in PRECISIONS.items() for precision in precisions]


def held(found: list[Finding]) -> None:
    """The right conversion passes, and enough of the faults fail."""
    right, *faults = found
    assert not right.is_noticed, "the right conversion does not pass"
    share = share_noticed(faults)
    assert share is not None, "no fault is large enough to be noticed"
    missed = [fault for fault in faults if fault.effect >= NOTICEABLE and not fault.is_noticed]
    assert share >= SHARE, missed


def test_dropped_biases_of_fastpitch_micro_are_noticed() -> None:
    findings = findings_of(MODELS["fastpitch-micro"], "fp16", lambda fault: fault.name.startswith("bias"), 6)
    assert len(findings) > 5
    held(findings)


@pytest.mark.campaign
@pytest.mark.parametrize(("name", "precision"), CASES, ids=lambda part: part)
def test_faults_of_every_micro_model_are_noticed(name: str, precision: str) -> None:
    held(findings_of(MODELS[name], precision))


def test_every_micro_model_has_faults_in_table() -> None:
    micro: list[Model] = [model for model in MODELS.values() if model.micro and model.framework == "pytorch"]
    assert {model.name for model in micro} == set(PRECISIONS)
