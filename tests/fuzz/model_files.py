"""Checkpoints, networks, configurations and thresholds as a user gives them."""

import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fixtures import thresholds
from fixtures.frameworks import onnx_files, onnx_running, pytorch
from fixtures.frameworks.sound_weights import check_weights
from fixtures.given import as_found, repository
from fixtures.models.bert import checkpoint as bert
from fixtures.models.resnet50_tf import tf1_checkpoint
from tests import toy
from tests.fuzz import damage
from tests.fuzz.parsers import Parser
from tests.given import networks
from tests.repositories import config

_BERT = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_size": 64,
    "intermediate_size": 128,
    "max_position_embeddings": 512,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": 30528,
}
_HEAD: tuple[Any, ...] = (0x1950A86A20F9469CFC6C, 1001, {})
_BEFORE_THE_STATE = b"".join(pickle.dumps(one, protocol=2) for one in _HEAD)
"""What begins a file that torch.save has written as pickles: its own number, a version, what the machine was."""
_LONGER_THAN_THE_FILE = (b"B\x00\x00\x00@", b"\x8e" + b"\xff" * 7 + b"\x7f", b"X\xff\xff\xff\x7f")
"""Bytes and texts of 1 GiB and more, of which nothing is there."""
_CONFIG = config(
    more='backend: "python"\n'
    "instance_group [ { count: 2, kind: KIND_CPU } ]\n"
    "dynamic_batching { preferred_batch_size: [ 2, 4 ], max_queue_delay_microseconds: 100 }\n"
    'parameters { key: "A", value: { string_value: "b" } }'
)
_THRESHOLDS = """\
[[cases]]
match = "cpu-*"
limits = { top-1 = 0.9 }
allowed_slowdown_percent = 5
p99_ms = { "b001-*" = 5.0, "*" = 20.0 }
source = "agreed"
"""


def _tensors() -> dict[str, "object"]:
    import torch

    return {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.ones(2, dtype=torch.float16)}


def _write_zip(folder: Path) -> None:
    import torch

    torch.save({"state_dict": _tensors(), "epoch": 3, "optimizer": {"lr": 0.1}}, folder / "model.pt")


def _write_legacy(folder: Path) -> None:
    import torch

    torch.save(_tensors(), folder / "model.pth.tar", _use_new_zipfile_serialization=False)


def _script(_content: bytes) -> st.SearchStrategy[bytes]:
    """A TorchScript archive under the name of a checkpoint, with a file of it changed."""
    import torch

    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 3)), buffer)
    return damage.archive_of(buffer.getvalue())


def _write_safetensors(folder: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"weight": np.arange(6, dtype=np.float32).reshape(2, 3)}, folder / "model.safetensors")


def _read_checkpoint(path: Path) -> object:
    state = pytorch.read_checkpoint(path)
    check_weights(((key, value.float().numpy()) for key, value in state.items()), path)
    return state


def _write_tf1(folder: Path) -> None:
    from tests.models.published_tf import save

    save({"kernel": np.arange(6, dtype=np.float32).reshape(2, 3)}, folder / "model.ckpt-1")


def _read_config(path: Path) -> object:
    """A configuration that is not whole is said of the model that it is, and refused when the model is asked for."""
    config = repository.read_config(path)
    found = repository.FoundModel("a", path.parent, config)
    return as_found.declared(found), found.backend, as_found.why_not_here(found, "cpu")


def _read_thresholds(path: Path) -> object:
    case = toy.case()
    found = thresholds.read("--thresholds", str(path))
    found.check_cases(lambda: [case])
    return found.limits(case), found.allowed_slowdown(case, 0.03)


PARSERS = (
    Parser("checkpoint in zip", "model.pt", _write_zip, damage.archive_of, _read_checkpoint),
    Parser("checkpoint that is a script", "model.pt", _write_zip, _script, _read_checkpoint),
    Parser(
        "checkpoint in pickles",
        "model.pth.tar",
        _write_legacy,
        damage.bytes_of,
        _read_checkpoint,
        found=tuple(begin + end for begin in (b"", _BEFORE_THE_STATE) for end in _LONGER_THAN_THE_FILE),
    ),
    Parser(
        "checkpoint in safetensors",
        "model.safetensors",
        _write_safetensors,
        damage.bytes_of,
        _read_checkpoint,
    ),
    Parser(
        "checkpoint of TensorFlow 1",
        "model.ckpt-1.index",
        _write_tf1,
        damage.bytes_of,
        tf1_checkpoint.read_checkpoint,
        names="model.ckpt-1",
        campaign=True,
    ),
    Parser(
        "sizes of BERT",
        "config.json",
        lambda folder: (folder / "config.json").write_text(json.dumps(_BERT)),
        damage.json_of,
        bert.read_config,
        found=(json.dumps(_BERT | {"hidden_act": "x" * 100_000}).encode(),),
    ),
    Parser(
        "network",
        "model.onnx",
        lambda folder: networks.apart(folder / "model.onnx"),
        damage.bytes_of,
        lambda path: (onnx_files.read_interface(path), onnx_files.digest(path)),
    ),
    Parser(
        "network that is run",
        "model.onnx",
        lambda folder: networks.linear(folder / "model.onnx"),
        damage.bytes_of,
        onnx_running.open_network,
        campaign=True,
    ),
    Parser(
        "configuration",
        "config.pbtxt",
        lambda folder: (folder / "config.pbtxt").write_text(_CONFIG),
        damage.text_of,
        _read_config,
    ),
    Parser(
        "thresholds",
        "asked.toml",
        lambda folder: (folder / "asked.toml").write_text(_THRESHOLDS),
        damage.text_of,
        _read_thresholds,
    ),
)
