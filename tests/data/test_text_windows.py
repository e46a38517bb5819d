"""SQuAD preprocessing and answers of BERT, against an independent implementation."""

from pathlib import Path

import numpy as np
import pytest

from fixtures.data import text_windows
from fixtures.data.text_windows import WindowSizes, prepare
from fixtures.errors import InputError
from tests.data.original_bert import VOCABULARY, answers, articles, windows

SMALL = WindowSizes(sequence=96, stride=20, query=24)


@pytest.mark.parametrize("sizes", [SMALL, WindowSizes(), WindowSizes(sequence=64, stride=50, query=24)])
def test_windows_match_the_original(sizes: WindowSizes) -> None:
    data = articles(1)
    reading = prepare(data, VOCABULARY, sizes)
    expected = windows(data, VOCABULARY, sizes)
    assert len(reading.windows) == len(expected)
    ids, segments, mask = reading.inputs(range(len(expected)))
    for window, row, *arrays in zip(reading.windows, expected, ids, segments, mask, strict=True):
        padding = [0] * (sizes.sequence - len(row["tokens"]))
        assert reading.questions[window.question].id == row["id"]
        assert list(window.tokens) == row["tokens"]
        assert {window.first + i: word for i, word in enumerate(window.words)} == row["word"]
        assert {window.first + i: bool(flag) for i, flag in enumerate(window.central)} == row["central"]
        wanted = ([*row["ids"], *padding], [*row["segments"], *padding], [1] * len(row["ids"]) + padding)
        for array, values in zip(arrays, wanted, strict=True):
            assert array.tolist() == values
            assert array.dtype == np.int32


@pytest.mark.parametrize("kind", ["smooth", "ties"])
def test_answers_match_the_original_for_any_logits(kind: str) -> None:
    data = articles(3)
    reading = prepare(data, VOCABULARY, SMALL)
    rows = windows(data, VOCABULARY, SMALL)
    generator = np.random.default_rng(0)
    for _repeat in range(2):
        shape = (2, len(rows), SMALL.sequence)
        logits = generator.normal(0, 3, shape).astype(np.float32)
        if kind == "ties":  # few values, so that the order among equals decides
            logits = logits.round()
        kept = text_windows.best_positions(*logits)
        assert text_windows.predictions(kept, reading) == answers(rows, *logits)


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
        assert text_windows.project(normalised, original) == expected


def test_question_without_valid_span_is_answered_as_in_original() -> None:
    reading = prepare(articles(4, 1), VOCABULARY, SMALL)
    logits = np.zeros((2, len(reading.windows), SMALL.sequence), np.float32)
    logits[:, :, :20] = 9  # the best 20 are all in the question
    kept = text_windows.best_positions(*logits)
    first = {window.first for window in reading.windows if window.first > 21}
    assert first
    answered = text_windows.predictions(kept, reading)
    assert "empty" in answered.values()


def test_spans_are_best_ordered_pair_within_length() -> None:
    generator = np.random.default_rng(0)
    starts, ends = generator.normal(0, 1, (2, 40, 128)).astype(np.float32)
    spans = text_windows.spans(text_windows.best_positions(starts, ends))
    for start, end, chosen in zip(starts, ends, spans, strict=True):
        a, b = ((-logits).argsort(kind="stable")[:20].tolist() for logits in (start, end))
        best = max(((i, j) for i in a for j in b if i <= j <= i + 29), key=lambda p: start[p[0]] + end[p[1]])
        assert tuple(chosen) == best


def test_impossible_span_is_marked() -> None:
    starts, ends = np.zeros((2, 1, 64), np.float32)
    starts[:, 40:] = 1
    ends[:, :20] = 1
    assert text_windows.spans(text_windows.best_positions(starts, ends)).tolist() == [[-1, -1]]


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
        assert text_windows.read_vocabulary(path) == tokens
        return
    with pytest.raises(InputError, check=lambda error: error.where.startswith(str(path))):
        text_windows.read_vocabulary(path)
