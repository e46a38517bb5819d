"""SQuAD preprocessing and answers of BERT, held to those of an implementation written apart from the product."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.data import squad_v1
from fixtures.data.squad_v1 import WindowSizes, prepare
from fixtures.errors import InputError

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("hard_paragraphs.json").read_text())
"""Six paragraphs of hard words, the vocabulary, and what the other implementation gave for them: the windows of
each size (sequence, stride, query), and the answers to the windows of SMALL by `logits`. A window is its
question, its tokens, the place of its paragraph's first token, then for each of that paragraph's tokens the
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
        wanted = (
            [*(VOCABULARY.index(token) for token in tokens), *behind],
            [*[0] * first, *[1] * (len(tokens) - first), *behind],
            [*[1] * len(tokens), *behind],
        )
        for array, values in zip(arrays, wanted, strict=True):
            assert array.tolist() == values
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
def test_vocabulary_is_read_line_by_line(
    content: str, tokens: tuple[str, ...] | None, tmp_path: Path
) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    if tokens:
        assert squad_v1.read_vocabulary(path) == tokens
        return
    with pytest.raises(InputError, check=lambda error: error.where.startswith(str(path))):
        squad_v1.read_vocabulary(path)
