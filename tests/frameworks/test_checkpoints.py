"""Reading checkpoints never runs their code, and refuses impossible weights with file, tensor and fix."""

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from tests.helpers import present
from tritonproof.base.errors import InputError
from tritonproof.frameworks.pytorch import read_checkpoint
from tritonproof.models import all_models
from tritonproof.spec import NetworkModel

WEIGHTS = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.ones(2)}


def refused(path: Path) -> None:
    with pytest.raises(InputError, check=lambda error: error.where == str(path)) as raised:
        read_checkpoint(path)
    assert (" train " in raised.value.fix) == (not path.exists()), "only missing weights have to be trained"


class Exploit:
    """An object whose pickle runs code when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (self.path,)  # type: ignore[return-value]


CODE: dict[str, Callable[[Path, Path], object]] = {
    "torch.save": lambda path, proof: torch.save({"a": Exploit(proof)}, path),
    "pickle": lambda path, proof: path.write_bytes(pickle.dumps({"a": Exploit(proof)})),
}


@pytest.mark.parametrize("write", CODE.values(), ids=CODE)
def test_code_in_checkpoint_never_runs(write: Callable[[Path, Path], object], tmp_path: Path) -> None:
    write(tmp_path / "x.pt", tmp_path / "it-ran")
    refused(tmp_path / "x.pt")
    assert not (tmp_path / "it-ran").exists()


def cut_short(path: Path) -> None:
    torch.save(WEIGHTS, path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


NO_CHECKPOINT: dict[str, Callable[[Path], object]] = {
    "missing": lambda _path: None,
    "a folder": Path.mkdir,
    "empty": Path.touch,
    "other bytes": lambda path: path.write_bytes(b"\x80\x04damaged"),
    "cut short": cut_short,
    "TorchScript": lambda path: torch.jit.script(torch.nn.Linear(2, 2)).save(path),
    "no weights": lambda path: torch.save({"epoch": 3}, path),
}


@pytest.mark.parametrize("put", NO_CHECKPOINT.values(), ids=NO_CHECKPOINT)
def test_non_checkpoint_is_refused(put: Callable[[Path], object], tmp_path: Path) -> None:
    put(tmp_path / "x.pt")
    refused(tmp_path / "x.pt")


KERNEL = {
    "resnet50-micro": "layer1.0.conv2.weight",
    "resnet50-tf-micro": "resnet50/btlnck_block_0_0/bottleneck_2/conv2d/kernel",
}
MODELS = {model.name: model for model in all_models() if model.name in KERNEL}
"""One for each framework, as all of a framework read weights in one way."""


def spoilt(model: NetworkModel, folder: Path, **changes: np.ndarray) -> Path:
    """A file of the committed weights, with some replaced."""
    path = folder / "spoilt.safetensors"
    save_file({**load_file(present(model.weights)), **changes}, path)
    return path


def with_one_that_is(value: np.float32) -> Callable[[np.ndarray], np.ndarray]:
    return lambda kernel: np.where(np.arange(kernel.size).reshape(kernel.shape) == 3, value, kernel)


FAULTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "NaN": with_one_that_is(np.float32(np.nan)),
    "infinity": with_one_that_is(np.float32(np.inf)),
    "one value": lambda kernel: np.full_like(kernel, 0.5),
    # Quantised weights mean nothing without their scales.
    "whole numbers": lambda kernel: (100 * kernel).astype(np.int8),
    # Infinite to the network, whose weights are FP32.
    "64 bits": lambda kernel: kernel.astype(np.float64) * 1e300,
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_impossible_weights_are_refused(model: NetworkModel, fault: str, tmp_path: Path) -> None:
    key = KERNEL[model.name]
    path = spoilt(model, tmp_path, **{key: FAULTS[fault](load_file(present(model.weights))[key])})
    with pytest.raises(InputError, check=lambda error: error.where == str(path) and key in error.what):
        model.load_weights(path)


def test_fresh_norms_and_zero_biases_are_accepted(tmp_path: Path) -> None:
    model = MODELS["resnet50-micro"]
    state = load_file(present(model.weights))
    fresh = {key: np.zeros_like(values) for key, values in state.items() if key.endswith("bias")}
    fresh |= {key: np.ones_like(values) for key, values in state.items() if "bn" in key and "weight" in key}
    assert model.load_weights(spoilt(model, tmp_path, **fresh)).trained
