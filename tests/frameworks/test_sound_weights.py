"""A checkpoint whose weights no training leaves is refused, with the file, the tensor and what to do."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from fixtures.errors import InputError
from fixtures.models import all_models
from fixtures.spec import Model

MICRO = [model for model in all_models() if model.weights is not None]
KERNEL = {
    "bert-dist4l-micro": "model.bert.encoder.layer.0.attention.self.query.weight",
    "fastpitch-micro": "proj.weight",
    "nnunet-micro": "output_block.conv.weight",
    "resnet50-micro": "layer1.0.conv2.weight",
    "resnet50-tf-micro": "resnet50/btlnck_block_0_0/bottleneck_2/conv2d/kernel",
}


def spoilt(model: Model, folder: Path, **changes: np.ndarray) -> Path:
    """The committed weights in a file of the test's own, some of them replaced."""
    assert model.weights is not None
    path = folder / "spoilt.safetensors"
    save_file({**load_file(model.weights), **changes}, path)
    return path


def of(model: Model) -> tuple[str, np.ndarray]:
    """A kernel of the model, by its key."""
    assert model.weights is not None
    return KERNEL[model.name], load_file(model.weights)[KERNEL[model.name]]


@pytest.mark.parametrize("model", MICRO, ids=lambda model: model.name)
def test_a_checkpoint_with_a_single_value_that_is_no_number_is_refused(model: Model, tmp_path: Path) -> None:
    key, kernel = of(model)
    kernel = kernel.copy()
    kernel.flat[3] = np.nan if model.framework == "pytorch" else np.inf
    path = spoilt(model, tmp_path, **{key: kernel})

    with pytest.raises(InputError, match=f"1 of the {kernel.size:,} values of {key}") as caught:
        model.load(path)

    assert str(path) in str(caught.value)
    assert caught.value.cure


@pytest.mark.parametrize("model", MICRO, ids=lambda model: model.name)
def test_a_checkpoint_with_a_kernel_of_one_value_is_refused(model: Model, tmp_path: Path) -> None:
    key, kernel = of(model)
    path = spoilt(model, tmp_path, **{key: np.full_like(kernel, 0.5)})

    with pytest.raises(InputError, match=f"values of {key} are 0.5") as caught:
        model.load(path)

    assert str(path) in str(caught.value)
    assert caught.value.cure


def test_fresh_norms_and_zero_biases_are_such_as_a_training_starts_with(tmp_path: Path) -> None:
    model = dataclasses.replace(next(one for one in MICRO if one.name == "resnet50-micro"))
    assert model.weights is not None
    state = load_file(model.weights)
    fresh = {key: np.zeros_like(values) for key, values in state.items() if key.endswith("bias")}
    fresh |= {key: np.ones_like(values) for key, values in state.items() if "bn" in key and "weight" in key}

    assert model.load(spoilt(model, tmp_path, **fresh)).trained


@pytest.mark.parametrize("kind", [np.int8, np.bool_])
@pytest.mark.parametrize("model", MICRO, ids=lambda model: model.name)
def test_a_checkpoint_with_a_kernel_of_whole_numbers_is_refused(
    model: Model, kind: type[np.generic], tmp_path: Path
) -> None:
    """Those of a quantised network mean nothing without their scales."""
    key, kernel = of(model)
    path = spoilt(model, tmp_path, **{key: (100 * kernel).astype(kind)})

    with pytest.raises(InputError, match=f"holds {key} as .*; weights are floating-point numbers") as caught:
        model.load(path)

    assert str(path) in str(caught.value)
    assert caught.value.cure


def test_a_number_that_only_64_bits_hold_is_none_to_the_network(tmp_path: Path) -> None:
    model = next(model for model in MICRO if model.framework == "tensorflow")
    key, kernel = of(model)
    path = spoilt(model, tmp_path, **{key: kernel.astype(np.float64) * 1e300})

    with pytest.raises(InputError, match="NaN or infinity"):
        model.load(path)
