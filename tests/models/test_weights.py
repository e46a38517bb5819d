"""What holds for every model: random weights are the same each time, others' are refused by key, and a micro size takes no
data set."""

from pathlib import Path

import pytest
import torch

from fixtures.errors import InputError
from fixtures.models import all_models
from fixtures.spec import Model
from tests.models.published import State, saved
from tests.models.refusals import refused_by

IN_PYTORCH = [model for model in all_models() if model.framework == "pytorch"]
FULL = [model for model in IN_PYTORCH if not model.micro]
MICRO = [model for model in all_models() if model.micro]
OF_ONE_FILE = [model for model in IN_PYTORCH if model.micro]
"""Checkpoints of the full BERT are folders: tests/models/bert has them."""


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


@pytest.mark.parametrize("model", OF_ONE_FILE, ids=lambda model: model.name)
def test_parameters_that_were_saved_as_they_are_trained_are_weights(model: Model, tmp_path: Path) -> None:
    """As dict(network.named_parameters()) has them; a state dictionary has them without their gradients."""
    state, _ = state_of(model)
    trained = {
        key: torch.nn.Parameter(value) if value.is_floating_point() else value for key, value in state.items()
    }
    loaded = model.load(saved(trained, tmp_path / "x.pt")).network.state_dict()
    assert all(torch.equal(one, other) for one, other in zip(loaded.values(), state.values(), strict=True))


@pytest.mark.parametrize("model", OF_ONE_FILE, ids=lambda model: model.name)
def test_a_tensor_that_is_there_twice_is_refused(model: Model, tmp_path: Path) -> None:
    """With the prefix of a training on several GPUs and without it: either may be the older one."""
    state, last = state_of(model)
    *_, key = state
    said = refused_by(model.load, saved({f"module.{key}": state[key] + 1, **state}, tmp_path / "x.pt"))
    assert "twice" in said
    assert last in said


def test_a_tensor_that_two_layouts_call_differently_is_refused(tmp_path: Path) -> None:
    """Of NVIDIA's later code and of its earlier, or with the prefix of pytorch-lightning and without it."""
    by_name = {model.name: model for model in OF_ONE_FILE}
    resnet, nnunet = by_name["resnet50-micro"], by_name["nnunet-micro"]
    for model, other, own in (
        (resnet, "layers.0.0.conv1.weight", "layer1.0.conv1.weight"),
        (nnunet, "output_block.conv.weight", "model.output_block.conv.weight"),
    ):
        state, _ = state_of(model)
        said = refused_by(model.load, saved({other: state[own] + 1, **state}, tmp_path / "x.pt"))
        assert "twice" in said


@pytest.mark.parametrize("model", MICRO, ids=lambda model: model.name)
def test_a_micro_size_takes_no_data_set_and_names_the_full_size_that_does(
    model: Model, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="takes no data set") as refused:
        model.samples("evaluation", tmp_path, None)
    assert f"--dataset {model.name.removesuffix('-micro')}=" in refused.value.fix
