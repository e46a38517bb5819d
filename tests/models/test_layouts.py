"""Models load every key of NVIDIA's full-size checkpoints, or leave it out by name."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.models import bert_folder, nvidia_checkpoints
from tests.models.nvidia_checkpoints import State
from tritonproof.models import all_models

CONFIG = bert_folder.CONFIG | {
    "hidden_size": 288,
    "intermediate_size": 1152,
    "max_position_embeddings": 512,
    "num_attention_heads": 12,
    "num_hidden_layers": 4,
    "vocab_size": 30528,
}
"""distillation/BERT_4L_288D/config.json of PyTorch/LanguageModeling/BERT at a9e2c1d5."""
LEFT_OUT = {
    "resnet50": set(),
    "nnunet": {
        *(f"model.deep_supervision_heads.{i}.conv.{name}" for i in range(4) for name in ("weight", "bias")),
        *("dice.n_updates", "dice.dice"),
    },
    "bert-dist4l": {"bert.pooler.dense_act.weight", "bert.pooler.dense_act.bias"},
    "fastpitch": {"pitch_mean", "pitch_std", "encoder.pos_emb.inv_freq", "decoder.pos_emb.inv_freq"},
}
"""The keys of a checkpoint that serving does not need, by model."""


def bert(state: State, path: Path) -> Path:
    return bert_folder.write_folder({"model": state}, path / "bert", CONFIG, tokens=30522)


def file(content: Callable[[State], object]) -> Callable[[State, Path], Path]:
    """Writes a file with the result of `content` for the state dictionary."""
    return lambda state, path: nvidia_checkpoints.saved(content(state), path / "checkpoint.pt")


def later(state: State) -> State:
    """The keys of NVIDIA's code since 4f2c6922 of November 2021: stages called layers.0 to layers.3."""
    return {re.sub(r"^layer(\d)", lambda m: f"layers.{int(m[1]) - 1}", key): v for key, v in state.items()}


def early(state: State) -> State:
    """As early PyTorch saved it, without BatchNorm's counter."""
    return {key: value for key, value in state.items() if not key.endswith("num_batches_tracked")}


FILES: dict[str, tuple[str, Callable[[State, Path], Path]]] = {
    "resnet50, of training": ("resnet50", file(nvidia_checkpoints.of_training)),
    "resnet50, later, of training": ("resnet50", file(lambda s: nvidia_checkpoints.of_training(later(s)))),
    "resnet50, early": ("resnet50", file(early)),
    "nnunet": ("nnunet", lambda state, path: nvidia_checkpoints.lightning(state, path / "fold2.ckpt")),
    "bert-dist4l": ("bert-dist4l", bert),
    "fastpitch": ("fastpitch", file(nvidia_checkpoints.of_speech)),
}


def key_in_file(model: str, key: str) -> str:
    """A checkpoint's name for the loaded network's `key`."""
    if model == "nnunet":
        return f"model.{key}"
    if model == "bert-dist4l":
        return key.removeprefix("model.").replace(".intermediate.dense.", ".intermediate.dense_act.")
    return key


@pytest.mark.parametrize("name", FILES)
def test_nvidia_checkpoint_keys_are_loaded_or_listed(name: str, tmp_path: Path) -> None:
    model, write = FILES[name]
    state = nvidia_checkpoints.numbered(nvidia_checkpoints.layout(model))
    path = write(dict(state), tmp_path)

    full = next(candidate for candidate in all_models() if candidate.name == model)
    network: Any = full.load_weights(path).network

    loaded = {key_in_file(model, key): value for key, value in network.state_dict().items()}
    assert state.keys() - loaded.keys() == LEFT_OUT[model]
    assert loaded.keys() <= state.keys()
    for key, value in loaded.items():
        is_absent = "early" in name and key.endswith("num_batches_tracked")
        assert torch.equal(value, torch.tensor(0) if is_absent else state[key]), key
