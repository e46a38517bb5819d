"""BERT: its arithmetic, checkpoint layouts and refused folders."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.helpers import present
from tests.models import nvidia_checkpoints
from tests.models.bert_folder import CONFIG, WORDS, write_folder
from tests.models.nvidia_checkpoints import State
from tritonproof.base.errors import InputError
from tritonproof.data import squad_v1, synthetic_questions
from tritonproof.models import all_models, bert
from tritonproof.models.bert.network import load_full
from tritonproof.spec import Arrays, NetworkModel, Samples

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
GELU = 2e-4
"""The share of the standard deviation by which logits may differ; both forms of GELU differ by 1e-3."""


@pytest.fixture(scope="module")
def state() -> State:
    """Every key of NVIDIA's checkpoint, pooler included, in the sizes of CONFIG, with random values."""
    sizes = {30528: 744, 512: 400, 288: 48, 1152: 80}
    small = nvidia_checkpoints.shrunk(nvidia_checkpoints.layout("bert-dist4l"), sizes, layers=2)
    return nvidia_checkpoints.drawn(small, gain=2)


@pytest.fixture
def folder(state: State, tmp_path: Path) -> Path:
    """Its checkpoint's folder, which the test may change."""
    return write_folder(state, tmp_path / "dist-4l-qa")


@pytest.fixture(scope="module")
def batch() -> Batch:
    """Ids, segments and mask of three rows of different lengths."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 700, (3, 384), generator=generator, dtype=torch.int32)
    position = torch.arange(384)
    mask = (position < torch.tensor([[384], [120], [9]])).int()
    return ids, mask * (position > 5).int(), mask


def layouts(state: State) -> dict[str, object]:
    """The same weights in the forms that NVIDIA's scripts may save."""
    heads = {"cls.predictions.bias": torch.zeros(744), "bert.embeddings.position_ids": torch.arange(400)}
    tensorflow = {
        key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for key, value in state.items()
    }
    return {
        "parallel": {f"module.{key}": value for key, value in state.items()},
        "without bert": {key.removeprefix("bert."): value for key, value in state.items()},
        "without pooler": {key: value for key, value in state.items() if "pooler" not in key},
        "with the heads of pre-training": state | heads,
        "with TensorFlow's names": tensorflow,
        "with all of TensorFlow's names": {k.replace("dense_act", "dense"): v for k, v in tensorflow.items()},
        "half": {key: value.half() for key, value in state.items()},
    }


def outputs_of(network: Any, batch: Batch) -> torch.Tensor:
    """Some of the logits of starts and ends for each row."""
    with torch.inference_mode():
        return torch.stack(network(*batch))[:, :, ::48]


def test_network_matches_recorded_logits(folder: Path, batch: Batch) -> None:
    weights = load_full(folder)
    digest = hashlib.sha256((folder / "pytorch_model.bin").read_bytes()).hexdigest()
    assert weights.weights_source == f"dist-4l-qa/pytorch_model.bin, sha256 {digest[:12]}"
    assert weights.trained
    assert not weights.network.training
    nvidia_checkpoints.assert_recorded(outputs_of(weights.network, batch), "bert, tanh", GELU)


@pytest.mark.parametrize("layout", layouts({}))
def test_weights_and_activation_match_in_every_layout(layout: str, state: State, folder: Path) -> None:
    flat = load_full(folder).network
    torch.save(layouts(state)[layout], folder / "pytorch_model.bin")
    network = load_full(folder).network
    assert network.model.config.hidden_act == flat.model.config.hidden_act
    for key, value in flat.state_dict().items():
        expected = value.half().float() if layout == "half" else value
        assert torch.equal(network.state_dict()[key], expected), key


def test_transformers_checkpoint_uses_exact_gelu(state: State, folder: Path, batch: Batch) -> None:
    theirs = {key.replace("dense_act", "dense"): value for key, value in state.items()}
    torch.save(theirs, folder / "pytorch_model.bin")
    outputs = outputs_of(load_full(folder).network, batch)
    nvidia_checkpoints.assert_recorded(outputs, "bert, erf", GELU)
    with pytest.raises(AssertionError):
        nvidia_checkpoints.assert_recorded(outputs, "bert, tanh", GELU)


def with_config(**changes: Any) -> Callable[[Path], object]:
    """Writes config.json again, without the entries that are None."""
    config = {key: value for key, value in {**CONFIG, **changes}.items() if value is not None}
    return lambda folder: (folder / "config.json").write_text(json.dumps(config))


def with_norm_twice(folder: Path) -> None:
    """Adds TensorFlow's name of a weight, with another tensor: either may be the wrong one."""
    state, norm = torch.load(folder / "pytorch_model.bin"), "bert.encoder.layer.0.output.LayerNorm"
    torch.save({f"{norm}.gamma": state[f"{norm}.weight"] + 1, **state}, folder / "pytorch_model.bin")


REFUSED: list[tuple[Callable[[Path], object], str, str]] = [
    (lambda folder: (folder / "vocab.txt").unlink(), "vocab.txt", ""),
    (with_config(vocab_size=736), "vocab.txt", "739"),
    (with_config(hidden_size=50), "config.json", "hidden_size"),
    (with_config(max_position_embeddings=128), "config.json", "max_position_embeddings"),
    (with_config(hidden_act="mish"), "config.json", "hidden_act"),
    (with_norm_twice, "pytorch_model.bin", "bert.encoder.layer.0.output.LayerNorm.weight"),
]


@pytest.mark.parametrize(("spoil", "file", "named"), REFUSED)
def test_incomplete_bert_folder_is_refused(
    spoil: Callable[[Path], object], file: str, named: str, folder: Path
) -> None:
    spoil(folder)
    where = str(folder / file)
    with pytest.raises(InputError, check=lambda error: error.where == where and named in error.what):
        load_full(folder)


def test_vocabulary_is_rounded_up_to_multiple_of_8(folder: Path) -> None:
    with_config(vocab_size=739)(folder)
    assert load_full(folder).network.model.config.vocab_size == 744


def scores(model: NetworkModel, samples: Samples, outputs: Arrays) -> list[float]:
    """The mean score of each metric over all questions."""
    kept = model.keep(outputs)
    results = [metric.score(kept, samples.labels, kept) for metric in model.metrics]
    assert all(len(values) == present(samples.items).max() + 1 for values in results)
    return [float(values.mean()) for values in results]


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    """An evaluation file in SQuAD's form."""
    path = tmp_path / "squad" / "dev-v1.1.json"
    path.parent.mkdir()
    paragraphs = synthetic_questions.paragraphs("evaluation", 12, entities=24)
    path.write_text(json.dumps(synthetic_questions.as_squad(paragraphs)))
    return path


def perfect(samples: Samples, offset: int = 0) -> Arrays:
    """Outputs of a model that knows the first accepted answer; `offset` moves each end."""
    reading = samples.labels
    starts, ends = np.zeros((2, len(samples), reading.ids.shape[1]), np.float32)
    for row, window in enumerate(reading.windows):
        answer = squad_v1.normalise(reading.questions[window.question].answers[0]).replace(" ", "")
        last = len(window.tokens) - 1
        for start in range(window.first, last):
            for end in range(start, min(start + 12, last)):
                text = "".join(window.tokens[start : end + 1]).replace("##", "").replace(",", "")
                if text == answer and window.central[start - window.first]:
                    starts[row, start], ends[row, end + offset] = 5, 5
    return dict(zip(bert.OUTPUTS, (starts, ends), strict=True))


@pytest.fixture(scope="module")
def full() -> NetworkModel:
    return next(model for model in all_models() if model.name == "bert-dist4l")


def test_perfect_answers_score_1_in_any_window_late_ones_less(
    full: NetworkModel, dev: Path, folder: Path
) -> None:
    samples = full.samples("evaluation", dev, folder)
    assert (np.bincount(present(samples.items)) > 1).sum() >= 40
    assert len(set(samples.ids)) == len(samples)
    assert scores(full, samples, perfect(samples)) == [1, 1]
    f1, exact = scores(full, samples, perfect(samples, offset=2))
    assert 0.5 < f1 < 0.95
    assert exact < 0.3


def test_missing_checkpoint_is_refused(full: NetworkModel, dev: Path) -> None:
    with pytest.raises(InputError, check=lambda error: error.where == f"--dataset bert-dist4l={dev}"):
        full.samples("evaluation", dev, None)


def test_missing_dataset_gives_text_with_checkpoint_vocabulary(full: NetworkModel, folder: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *reversed(WORDS[5:])]
    (folder / "vocab.txt").write_text("\n".join(words))
    own, other = full.samples("evaluation", None, None), full.samples("evaluation", None, folder)
    assert own.labels is None
    assert 24 <= len(own) <= 128
    for samples, vocabulary in ((own, WORDS), (other, words)):
        inputs = samples.read(range(len(samples)))
        assert list(inputs) == ["input__0", "input__1", "input__2"]
        assert all(a.shape == (len(samples), 384) and a.dtype == np.int32 for a in inputs.values())
        tokens = [vocabulary[i] for i in inputs["input__0"][0]]
        assert tokens[0] == "[CLS]"
        assert tokens.count("[SEP]") == 2
        assert "[UNK]" not in tokens
        assert 100 < inputs["input__2"].sum(axis=1).mean() < 300
    assert not set(own.ids) & set(full.samples("training", None, None).ids)
