"""The questions for BERT: SQuAD with the checkpoint's vocabulary, or invented ones."""

import json
from pathlib import Path

import numpy as np
import pytest

from fixtures.data import invented, squad_v1
from fixtures.errors import InputError, NotAvailableError
from fixtures.models import all_models, bert
from fixtures.spec import Arrays, Model, Samples
from tests.models.bert_folder import WORDS, scores


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    """An evaluation file in SQuAD's form."""
    path = tmp_path / "squad" / "dev-v1.1.json"
    path.parent.mkdir()
    path.write_text(json.dumps(invented.as_squad(invented.paragraphs("evaluation", 12, entities=24))))
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
def full() -> Model:
    return next(model for model in all_models() if model.name == "bert-dist4l")


def test_perfect_answers_score_1_in_any_window(full: Model, dev: Path, folder: Path) -> None:
    samples = full.samples("evaluation", dev, folder)
    assert samples.items is not None
    assert (np.bincount(samples.items) > 1).sum() >= 40
    assert len(set(samples.ids)) == len(samples)
    assert scores(full, samples, perfect(samples)) == [1, 1]


def test_answer_one_token_late_is_no_exact_match(full: Model, dev: Path, folder: Path) -> None:
    samples = full.samples("evaluation", dev, folder)
    f1, exact = scores(full, samples, perfect(samples, offset=2))
    assert 0.5 < f1 < 0.95
    assert exact < 0.3


def test_calibration_uses_training_file_beside_evaluation(full: Model, dev: Path, folder: Path) -> None:
    training = invented.as_squad(invented.paragraphs("training", 600))
    (dev.parent / "train-v1.1.json").write_text(json.dumps(training))
    for path in (dev, dev.parent):
        samples = full.samples("training", path, folder)
        assert 256 <= len(samples) <= 300
        assert all(id_.startswith("training-") for id_ in samples.ids)


def test_missing_training_file_means_no_calibration(full: Model, dev: Path, folder: Path) -> None:
    with pytest.raises(NotAvailableError, check=lambda error: error.where.endswith("train-v1.1.json")):
        full.samples("training", dev, folder)


def test_squad_without_checkpoint_is_refused(full: Model, dev: Path) -> None:
    with pytest.raises(InputError, check=lambda error: error.where == f"--dataset bert-dist4l={dev}"):
        full.samples("evaluation", dev, None)


def test_missing_dataset_gives_text_with_checkpoint_vocabulary(full: Model, folder: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *reversed(WORDS[5:])]
    (folder / "vocab.txt").write_text("\n".join(words))
    own, other = full.samples("evaluation", None, None), full.samples("evaluation", None, folder)
    assert own.labels is None
    assert 24 <= len(own) <= 128
    for samples, vocabulary in ((own, WORDS), (other, words)):
        inputs = samples.load(range(len(samples)))
        assert list(inputs) == ["input__0", "input__1", "input__2"]
        assert all(a.shape == (len(samples), 384) and a.dtype == np.int32 for a in inputs.values())
        tokens = [vocabulary[i] for i in inputs["input__0"][0]]
        assert tokens[0] == "[CLS]"
        assert tokens.count("[SEP]") == 2
        assert "[UNK]" not in tokens
        assert 100 < inputs["input__2"].sum(axis=1).mean() < 300
    assert not set(own.ids) & set(full.samples("training", None, None).ids)
