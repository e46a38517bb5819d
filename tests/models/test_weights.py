"""Every model: reproducible random weights, refused foreign keys, no data set for micro sizes."""

from pathlib import Path

import pytest
import torch

from tests.models.nvidia_checkpoints import State, saved
from tritonproof.base.errors import InputError
from tritonproof.build.builds import build_inputs
from tritonproof.cases import profile_of
from tritonproof.formats import all_formats
from tritonproof.host import machine
from tritonproof.host.targets import CPU
from tritonproof.models import all_models
from tritonproof.spec import Case, NetworkModel

IN_PYTORCH = [model for model in all_models() if model.framework == "pytorch"]
FULL = [model for model in IN_PYTORCH if not model.micro]
MICRO = [model for model in all_models() if model.micro]
_NAMES = {model.name for model in all_models()}
OF_A_FULL_SIZE = [model for model in MICRO if model.name.removesuffix("-micro") in _NAMES - {model.name}]
OF_ONE_FILE = [model for model in IN_PYTORCH if model.micro]
"""Checkpoints of the full BERT are folders: test_bert.py has them."""


def state_of(model: NetworkModel) -> State:
    """The committed weights under a checkpoint's keys."""
    within = "model." if model.name == "nnunet-micro" else ""
    return {f"{within}{key}": value for key, value in model.load_weights(None).network.state_dict().items()}


@pytest.mark.parametrize("model", FULL, ids=lambda model: model.name)
def test_random_weights_are_reproducible(model: NetworkModel) -> None:
    """The global generator stays as it was."""
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first = model.load_weights(None)
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(6)
    second = model.load_weights(None)
    assert not first.trained
    for a, b in zip(first.network.state_dict().values(), second.network.state_dict().values(), strict=True):
        # All are drawn but BatchNorm's statistics, which the kernels compute and may round differently.
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("model", OF_ONE_FILE, ids=lambda model: model.name)
def test_record_names_checkpoint_with_digest(model: NetworkModel, tmp_path: Path) -> None:
    state = state_of(model)
    # As from dict(network.named_parameters()); a state dictionary has no gradients.
    trained = {k: torch.nn.Parameter(v) if v.is_floating_point() else v for k, v in state.items()}
    weights = model.load_weights(saved(trained, tmp_path / "published.pt"))
    assert weights.trained
    assert weights.weights_source == f"published.pt, sha256 {weights.digest[:12]}"
    assert not weights.network.training
    loaded = weights.network.state_dict().values()
    assert all(torch.equal(tensor, own) for tensor, own in zip(loaded, state.values(), strict=True))


@pytest.mark.parametrize(
    ("name", "added", "key"),
    [
        ("resnet50-micro", "emb.weight", "emb.weight"),
        ("nnunet-micro", "dice.steps", "dice.steps"),
        ("nnunet-micro", "model.deep_supervision_heads.4.conv.bias", "deep_supervision_heads.4.conv.bias"),
        ("resnet50-micro", "fc.bias", "fc.bias is (1,)"),
        ("resnet50-micro", "module.fc.bias", "fc.bias twice"),
        ("resnet50-micro", "layers.0.0.conv1.weight", "layer1.0.conv1.weight twice"),
        ("nnunet-micro", "output_block.conv.weight", "output_block.conv.weight twice"),
        ("resnet50-micro", None, "misses fc.bias"),
    ],
)
def test_key_that_does_not_fit_is_named(name: str, added: str | None, key: str, tmp_path: Path) -> None:
    """One that a second key of the file means, too: either may be the wrong one."""
    (model,) = (candidate for candidate in OF_ONE_FILE if candidate.name == name)
    state = state_of(model)
    if added is None:
        del state["fc.bias"]
    else:
        state[added] = torch.zeros(1)
    path = saved(state, tmp_path / "x.pt")
    with pytest.raises(InputError, check=lambda error: error.where == str(path) and key in error.what):
        model.load_weights(path)


@pytest.mark.parametrize("model", OF_A_FULL_SIZE, ids=lambda model: model.name)
def test_micro_model_refuses_a_dataset_and_names_full_model(model: NetworkModel, tmp_path: Path) -> None:
    where = f"--dataset {model.name}={tmp_path}"
    with pytest.raises(InputError, check=lambda error: error.where == where) as refused:
        model.samples("evaluation", tmp_path, None)
    assert f"{model.name.removesuffix('-micro')}=" in refused.value.fix


PACKAGES: dict[str | None, set[str]] = {"pytorch": {"torch"}, "tensorflow": {"tensorflow"}}


@pytest.mark.parametrize("model", all_models(), ids=lambda value: value.name)
def test_package_versions_are_part_of_the_build(model: NetworkModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "version_of", lambda _name: "1.0")
    needed = PACKAGES[model.framework] | ({"transformers"} if "bert" in model.name else set())
    for format_ in all_formats():
        if model.framework in format_.frameworks:
            case = Case(CPU, model, format_, None, "fp32")
            inputs = build_inputs(case, "digest", profile_of(model, CPU).deployment, {}, "cpu")
            assert needed <= inputs["versions"].keys()
