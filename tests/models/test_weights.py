"""What holds for the weights of every model in PyTorch: random ones are the same each time, and others' are refused by key."""

from pathlib import Path

import pytest
import torch

from fixtures.models import all_models
from fixtures.spec import Model
from tests.models.published import State, saved
from tests.models.refusals import refused_by

IN_PYTORCH = [model for model in all_models() if model.framework == "pytorch"]
FULL = [model for model in IN_PYTORCH if not model.micro]
OF_ONE_FILE = [model for model in IN_PYTORCH if model.micro and model.name != "bert-dist4l-micro"]
"""BERT's checkpoints are folders: tests/models/bert has them."""


def state_of(model: Model) -> tuple[State, str]:
    """The committed weights as a checkpoint has them, and the last of their keys as an error names it."""
    state: State = model.load(None).network.state_dict()
    within = "model." if model.name == "nnunet-micro" else ""
    return {f"{within}{key}": value for key, value in state.items()}, list(state)[-1]


@pytest.mark.parametrize("model", FULL, ids=lambda model: model.name)
def test_random_weights_are_the_same_every_time_and_leave_the_global_generator_alone(model: Model) -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first = model.load(None)
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(6)
    second = model.load(None)
    assert not first.trained
    for a, b in zip(first.network.state_dict().values(), second.network.state_dict().values(), strict=True):
        # Drawn, but for BatchNorm's statistics: those are computed, and rounded as the kernels of the day do.
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("model", OF_ONE_FILE, ids=lambda model: model.name)
def test_a_checkpoint_is_named_in_the_record_with_its_digest(model: Model, tmp_path: Path) -> None:
    weights = model.load(saved(state_of(model)[0], tmp_path / "published.pt"))
    assert weights.trained
    assert weights.origin == f"published.pt, sha256 {weights.digest[:12]}"
    assert not weights.network.training


@pytest.mark.parametrize("fault", ["missing", "unexpected", "another shape"])
@pytest.mark.parametrize("model", OF_ONE_FILE, ids=lambda model: model.name)
def test_a_key_that_does_not_fit_is_named(model: Model, fault: str, tmp_path: Path) -> None:
    state, last = state_of(model)
    *_, key = state
    shape = tuple(state[key].shape)
    changed, said = {
        "missing": ({name: value for name, value in state.items() if name != key}, f"misses {last}"),
        "unexpected": (state | {"speaker_emb.weight": torch.zeros(1)}, "unexpected speaker_emb.weight"),
        "another shape": (state | {key: torch.zeros(5)}, f"{last} is (5,), expected {shape}"),
    }[fault]
    assert said in refused_by(model.load, saved(changed, tmp_path / "x.pt"))
