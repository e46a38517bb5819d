"""SQuAD: its files, the vocabulary and synthetic questions that replace it; windows and answers, held to those
of an implementation written apart from the product; and the score."""

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tritonproof.base.errors import InputError
from tritonproof.data import squad_v1, synthetic_questions
from tritonproof.data.squad_v1 import Question, WindowSizes, prepare


def written(content: object, folder: Path) -> Path:
    path = folder / "dev-v1.1.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def test_squad_file_is_read_unchanged(tmp_path: Path) -> None:
    content = synthetic_questions.as_squad(synthetic_questions.paragraphs("evaluation", 2))
    # A paragraph without questions may lack its text.
    content["data"][0]["paragraphs"].insert(0, {"qas": []})
    articles = squad_v1.read(written(content, tmp_path))
    assert articles == content["data"]
    questions = prepare(articles, synthetic_questions.vocabulary(), WindowSizes(128, 64)).questions
    assert len(questions) == 2 * synthetic_questions.QUESTIONS


def of_questions(spoil: Callable[[list[Any]], object]) -> str:
    content = synthetic_questions.as_squad(synthetic_questions.paragraphs("evaluation", 1))
    spoil(content["data"][0]["paragraphs"][0]["qas"])
    return json.dumps(content)


@pytest.mark.parametrize(
    "text",
    [
        '{"data": 3}',
        of_questions(lambda qas: qas[0].update(answers=[])),
        of_questions(lambda qas: qas[0].pop("question")),
        of_questions(lambda qas: qas[1].update(id=qas[0]["id"])),
        of_questions(lambda qas: qas.clear()),
    ],
)
def test_non_squad_file_is_refused(text: str, tmp_path: Path) -> None:
    path = written(text, tmp_path)
    with pytest.raises(InputError, check=lambda error: error.where.startswith(str(path))):
        squad_v1.read(path)


def test_generated_answers_are_in_their_paragraph() -> None:
    for article in synthetic_questions.as_squad(synthetic_questions.paragraphs("evaluation"))["data"]:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                assert all(answer["text"].lower() in paragraph["context"].lower() for answer in qa["answers"])


SPOKEN = (
    "the The a An THE ＴＨＥ theory U.S. it's its — – “the the-end 1,250 1250 $ ß İ é e\u0301 _a_ a_b 東京"
)
PARTS = (*SPOKEN.split(), "u s", "\u00a0", "", " ", "...", "Paris", "paris")


def evaluate(accepted: Mapping[str, list[str]], predictions: Mapping[str, str]) -> tuple[float, ...]:
    """Mean F1 and exact match, 0 to 1, of answers by question id."""
    questions = [Question(id_, (), tuple(texts)) for id_, texts in accepted.items()]
    metrics = (squad_v1.f1, squad_v1.exact)
    return tuple(float(squad_v1.score(metric, questions, predictions).mean()) for metric in metrics)


def test_metric_matches_torchmetrics() -> None:
    from torchmetrics.functional.text import squad

    generator = random.Random(0)

    def phrase() -> str:
        """Some parts, at least one of which survives normalisation."""
        parts = generator.choices(PARTS, k=generator.randint(0, 4))
        between, survives = generator.choice([" ", "  ", "-"]), generator.choice(["Paris", "1250", "theory"])
        return between.join([*parts, survives])

    accepted = {str(number): [phrase() for _ in range(generator.randint(1, 4))] for number in range(2000)}
    predictions = {
        id_: generator.choice([*texts, phrase(), f"the {texts[0]}."]) for id_, texts in accepted.items()
    }
    theirs = squad(
        [{"id": id_, "prediction_text": text} for id_, text in predictions.items()],
        [{"id": id_, "answers": {"text": texts, "answer_start": []}} for id_, texts in accepted.items()],
    )
    expected = float(theirs["f1"]) / 100, float(theirs["exact_match"]) / 100
    assert evaluate(accepted, predictions) == pytest.approx(expected, abs=1e-5)


def test_empty_answer_is_exact_but_has_no_common_word() -> None:
    """Nothing is left of an article, so it equals an empty answer."""
    assert evaluate({"1": ["the"], "2": ["tower"]}, {"1": "", "2": ""}) == (0, 0.5)
    assert evaluate({"1": ["the"]}, {"1": ""}) == (0, 1)


RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("hard_paragraphs.json").read_text())
"""Six paragraphs of hard words, the vocabulary, and what the other implementation gave for them: the windows of
each size (sequence, stride, query), and the answers to the windows of SMALL by `logits`. A window is its
question, its tokens, the index of its paragraph's first token, then for each of that paragraph's tokens the
number of its word, and whether the window is the one where it has the most context."""
VOCABULARY, ARTICLES = tuple(RECORDED["vocabulary"]), RECORDED["articles"]
SMALL = WindowSizes(sequence=96, stride=20, query=24)


@pytest.mark.parametrize("size", RECORDED["windows"])
def test_windows_match_the_original(size: str) -> None:
    sizes = WindowSizes(*map(int, size.split(",")))
    reading = prepare(ARTICLES, VOCABULARY, sizes)
    expected = RECORDED["windows"][size]
    assert len(reading.windows) == len(expected)
    ids, segments, mask = reading.inputs(range(len(expected)))
    for window, row, *arrays in zip(reading.windows, expected, ids, segments, mask, strict=True):
        question, text, first, words, central = row
        tokens = text.split(" ")
        assert reading.questions[window.question].id == question
        assert (list(window.tokens), window.first, list(window.words)) == (tokens, first, words)
        assert "".join("01"[bool(flag)] for flag in window.central) == central
        behind = [0] * (sizes.sequence - len(tokens))
        numbers = [VOCABULARY.index(token) for token in tokens]
        wanted = (numbers, [0] * first + [1] * (len(tokens) - first), [1] * len(tokens))
        for array, values in zip(arrays, wanted, strict=True):
            assert array.tolist() == values + behind
            assert array.dtype == np.int32


def logits(kind: str, rows: int) -> np.ndarray:
    """Logits of starts and ends for windows of SMALL: numbers that all differ, or few numbers, so that the
    order among equals decides; `kind` ends with the number of the series."""
    name, number = kind.split()
    mixed = np.arange(2 * rows * SMALL.sequence) * (7919 + 2 * int(number)) % 100_003
    values = mixed / 10_000 if name == "smooth" else mixed % 5
    return values.reshape(2, rows, SMALL.sequence).astype(np.float32)


@pytest.mark.parametrize("kind", RECORDED["answers"])
def test_answers_match_the_original_for_any_logits(kind: str) -> None:
    reading = prepare(ARTICLES, VOCABULARY, SMALL)
    kept = squad_v1.best_positions(*logits(kind, len(reading.windows)))
    assert squad_v1.predictions(kept, reading) == RECORDED["answers"][kind]


def test_answer_keeps_spelling_of_paragraph() -> None:
    for normalised, original, expected in (
        ("steve smith", "Steve Smith's", "Steve Smith"),
        ("cafe", "(Café),", "Café"),
        ("1895", "(1895–1943).", "1895"),
        ("1 , 250", "$1,250", "1,250"),
        ("[UNK]", "queue's", "queue's"),  # unknown: nothing to find, so all of it
        ("fine", "ﬁne ﬁnd", "ﬁne ﬁnd"),
        ("京", "a東京b", "京"),
        ("no", "no\u00a0break", "no\u00a0break"),  # the tokeniser drops the blank, so lengths differ
    ):
        assert squad_v1.project(normalised, original) == expected


def test_spans_are_best_ordered_pair_within_length() -> None:
    generator = np.random.default_rng(0)
    starts, ends = generator.normal(0, 1, (2, 40, 128)).astype(np.float32)
    starts[0, 40:] += 9
    ends[0, :20] += 9
    spans = squad_v1.spans(squad_v1.best_positions(starts, ends))
    assert spans[0].tolist() == [-1, -1], "every good end is before every good start"
    for start, end, chosen in zip(starts[1:], ends[1:], spans[1:], strict=True):
        a, b = ((-logits).argsort(kind="stable")[:20].tolist() for logits in (start, end))
        best = max(((i, j) for i in a for j in b if i <= j <= i + 29), key=lambda p: start[p[0]] + end[p[1]])
        assert tuple(chosen) == best


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ("\n".join(VOCABULARY) + "\n", VOCABULARY),
        *((text, None) for text in ("", "[UNK]\n[CLS]\n[SEP]\n", "[PAD]\nthe\n", "\udcff")),
        ("[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\nof\nthe\n", None),
    ],
)
def test_vocabulary_is_read_by_line(content: str, tokens: tuple[str, ...] | None, tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    if tokens:
        assert squad_v1.read_vocabulary(path) == tokens
        return
    with pytest.raises(InputError, check=lambda error: error.where.startswith(str(path))):
        squad_v1.read_vocabulary(path)
