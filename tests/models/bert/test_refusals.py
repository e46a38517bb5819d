"""Checkpoint folders that are not BERT's, or not whole: each is refused, and the fault named."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from fixtures.models import bert
from tests.models.bert_folder import CONFIG, WORDS
from tests.models.refusals import refused_by


def refused(folder: Path) -> str:
    return refused_by(bert.load_full, folder)


@pytest.mark.parametrize("name", ["config.json", "pytorch_model.bin", "vocab.txt"])
def test_a_missing_file_is_named(name: str, folder: Path) -> None:
    (folder / name).unlink()
    assert f"lacks {name}" in refused(folder)


def test_a_file_in_the_place_of_the_folder_is_refused(folder: Path) -> None:
    assert "is a file" in refused(folder / "pytorch_model.bin")


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hidden_size": 50}, "heads do not divide"),
        ({"max_position_embeddings": 128}, "fewer than 384 positions"),
        ({"type_vocab_size": 1}, "fewer than 2 segments"),
        ({"num_hidden_layers": 0}, "below 1"),
        ({"hidden_act": "mish"}, "mish"),
        ({"vocab_size": None}, "vocab_size None, which is no whole number"),
        ({"intermediate_size": "wide"}, "wide"),
        ({"num_attention_heads": True}, "num_attention_heads True"),
        ({"num_attention_heads": 4.5}, "num_attention_heads 4.5"),
        ({"num_attention_heads": "3"}, "num_attention_heads '3'"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(changes: dict[str, Any], named: str, folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changes}))
    assert named in refused(folder)


def test_a_configuration_without_an_entry_is_refused(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({k: v for k, v in CONFIG.items() if k != "hidden_size"}))
    assert "hidden_size" in refused(folder)


def test_the_vocabulary_is_rounded_up_to_a_multiple_of_8(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({**CONFIG, "vocab_size": 739}))
    assert bert.load_full(folder).network.model.config.vocab_size == 744


def test_a_vocabulary_of_another_checkpoint_is_refused(folder: Path) -> None:
    (folder / "vocab.txt").write_text("\n".join(WORDS[:700]))
    assert "704 tokens" in refused(folder)


@pytest.mark.parametrize("other", ["bert.encoder.layer.0.output.LayerNorm.gamma", "module.qa_outputs.bias"])
def test_two_tensors_that_are_one_to_the_network_are_refused(other: str, folder: Path) -> None:
    """Either may be the wrong one, and the one that came last would be served."""
    path = folder / "pytorch_model.bin"
    state = torch.load(path)
    own = other.removeprefix("module.").replace("gamma", "weight")
    torch.save({other: state[own] + 1, **state}, path)
    assert f"holds {own} twice" in refused(folder)
