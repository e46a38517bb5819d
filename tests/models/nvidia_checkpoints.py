"""Checkpoints as NVIDIA's code writes them: keys, shapes and types, and the files around them. `layouts/`
has lists read from that code; each list begins with its repository, commit and files."""

import argparse
import collections
import json
import math
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

State = dict[str, torch.Tensor]


class Entry(NamedTuple):
    """A checkpoint's entry at a key."""

    dtype: torch.dtype
    shape: tuple[int, ...]


Layout = dict[str, Entry]


def layout(name: str) -> Layout:
    """The entries of a checkpoint by their keys, in the order of the file."""
    lines = Path(__file__).with_name("layouts").joinpath(f"{name}.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {key: Entry(getattr(torch, dtype), tuple(map(int, shape))) for key, dtype, *shape in rows}


def shrunk(entries: Layout, sizes: Mapping[int, int], layers: int) -> Layout:
    """The same layout of a smaller network: sizes replaced by `sizes`, and the first layers alone."""
    dropped = tuple(f".{name}.{number}." for name in ("layer", "layers") for number in range(layers, 12))
    return {
        key: Entry(dtype, tuple(sizes.get(size, size) for size in shape))
        for key, (dtype, shape) in entries.items()
        if not any(part in key for part in dropped)
    }


def numbered(entries: Layout) -> State:
    """Values that identify each entry: from its own number, counted from 1, to a half above.
    They differ, as a checkpoint of single values is refused."""
    return {
        key: (torch.linspace(0, 0.5, math.prod(shape)).reshape(shape) + number).to(dtype)
        for number, (key, (dtype, shape)) in enumerate(entries.items(), start=1)
    }


def drawn(entries: Layout, gain: float = 1.0) -> State:
    """Seeded values that keep activations near 1 from layer to layer: scales and variances around 1,
    shifts and means around 0; weights that fall with the root of their inputs, times `gain`."""
    generator = torch.Generator().manual_seed(0)

    def values(key: str, shape: tuple[int, ...]) -> torch.Tensor:
        if key.endswith("running_var") or (len(shape) == 1 and key.endswith("weight")):
            return torch.rand(shape, generator=generator) * 0.5 + 0.75
        normal = torch.randn(shape, generator=generator)
        if len(shape) < 2:
            return normal * 0.1
        inputs = 1 if "_emb" in key and len(shape) == 2 else math.prod(shape[1:])
        return normal * (gain / inputs**0.5 if inputs > 1 else 1)

    return {
        key: values(key, shape) if dtype.is_floating_point else torch.full(shape, 7, dtype=dtype)
        for key, (dtype, shape) in entries.items()
    }


RECORDED: Mapping[str, Any] = json.loads(Path(__file__).with_name("outputs.json").read_text())
"""A few outputs of networks with weights that are `drawn`, by an implementation apart from the product's."""


def assert_recorded(outputs: Any, name: str, share: float = 1e-3) -> None:
    """Outputs are the recorded ones, within a share of their standard deviation."""
    expected = np.asarray(RECORDED[name])
    np.testing.assert_allclose(np.asarray(outputs), expected, rtol=0, atol=share * expected.std())


def saved(value: object, path: Path) -> Path:
    """A file by torch.save."""
    torch.save(value, path)
    return path


def of_training(state: State) -> dict[str, object]:
    """What ResNet50's training saves from several processes: image_classification/training.py, f217ab11."""
    return {
        "epoch": 250,
        "arch": "resnet50",
        "state_dict": {f"module.{key}": value for key, value in state.items()},
        "best_prec1": 78.4,
        "optimizer": {"state": {0: {"momentum_buffer": torch.zeros(2)}}, "param_groups": [{"lr": 0.0}]},
    }


def of_speech(state: State) -> dict[str, object]:
    """What FastPitch's train.py saves at 6d72839a, from several processes with mixed precision."""
    return {
        "epoch": 1500,
        "config": {"n_mel_channels": 80},
        "state_dict": {f"module.{key}": value for key, value in state.items()},
        "ema_state_dict": {key: value + 1 for key, value in state.items()},
        "optimizer": {"state": {}, "param_groups": [{"lr": 0.1}]},
        "amp": {"loss_scaler0": {"loss_scale": 65536.0, "unskipped": 7}},
    }


def lightning(state: State, path: Path) -> Path:
    """A file as pytorch-lightning 1.0.0 writes it (checkpoint_connector.py), with objects of its classes."""

    def theirs(full: str) -> Callable[..., Any]:
        module, _, name = full.rpartition(".")
        made = type(name, (dict,), {"__module__": module})
        for depth in range(1, module.count(".") + 2):
            part = ".".join(module.split(".")[:depth])
            patch.setitem(sys.modules, part, types.ModuleType(part))
        setattr(sys.modules[module], name, made)
        return made

    with pytest.MonkeyPatch.context() as patch:  # the file's reader has it not installed either
        early, best, hyperparameters = (
            theirs("pytorch_lightning.callbacks.early_stopping.EarlyStopping"),
            theirs("pytorch_lightning.callbacks.model_checkpoint.ModelCheckpoint"),
            theirs("pytorch_lightning.utilities.parsing.AttributeDict"),
        )
        score = torch.tensor(213.0)
        checkpoint = {
            "epoch": 3,
            "pytorch-lightning_version": "1.0.0",
            "optimizer_states": [{"state": {0: {"exp_avg": torch.zeros(2)}}, "param_groups": [{"lr": 8e-4}]}],
            "lr_schedulers": [{"milestones": collections.Counter([100]), "gamma": 0.1}],
            "native_amp_scaling_state": {"scale": 65536.0, "growth_interval": 2000},
            "state_dict": collections.OrderedDict(state),
            "callbacks": {
                early: {"wait_count": 0, "stopped_epoch": 0, "best_score": score, "patience": 100},
                best: {"best_model_score": score, "best_model_path": "/results/epoch=3.ckpt"},
            },
            "hyper_parameters": hyperparameters(args=argparse.Namespace(task="01", dim=3, tta=True)),
        }
        return saved(checkpoint, path)
