"""A small BERT's checkpoint folder in NVIDIA's layout."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.models import nvidia_checkpoints
from tritonproof.data import synthetic_questions

CONFIG: dict[str, Any] = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 48,
    "initializer_range": 0.02,
    "intermediate_size": 80,
    "max_position_embeddings": 400,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": 744,
}
WORDS = synthetic_questions.vocabulary()


def write_folder(content: object, path: Path, config: Mapping[str, Any] = CONFIG, tokens: int = 739) -> Path:
    """config.json, pytorch_model.bin and vocab.txt, whose 739 tokens NVIDIA rounds up to 744 rows."""
    path.mkdir()
    nvidia_checkpoints.saved(content, path / "pytorch_model.bin")
    (path / "config.json").write_text(json.dumps(config))
    more = (f"extra{number}" for number in range(tokens - len(WORDS)))
    (path / "vocab.txt").write_text("\n".join([*WORDS, *more]) + "\n")
    return path
