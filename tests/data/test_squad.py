"""SQuAD as BERT reads it, against implementations written apart from the product, character by character."""

import json
import random
import re
import string
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.data.squad import answers as answers_of
from fixtures.data.squad import invented, squad_v1, word_pieces, wording
from fixtures.data.squad.text_windows import WindowSizes, prepare
from fixtures.errors import InputError

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# No `q` and no `##z`: words with them are unknown.
LETTERS = "abcdefghijklmnoprstuvwxyz"
VOCABULARY = (
    *SPECIAL,
    *(LETTERS + string.digits + ".,'-()$%\"?!&[]–“”東京é"),
    *(f"##{character}" for character in (LETTERS + string.digits).replace("z", "")),
    *(
        "the",
        "tower",
        "##s",
        "of",
        "paris",
        "cafe",
        "##ing",
        "was",
        "built",
        "in",
        "18",
        "##89",
        "who",
        "naive",
    ),
)
WORDS = (
    *(
        "the",
        "The",
        "tower",
        "Towers",
        "of",
        "Paris",
        "Paris's",
        "was",
        "built",
        "in",
        "1889.",
        "(1889–1901),",
    ),
    *(
        "Café",
        "naïve",
        "İstanbul",
        "“quoted”",
        "U.S.",
        "$1,250",
        "50%",
        "東京",
        "a東京b",
        "queen",
        "fizz",
        "ﬁne",
    ),
    *(
        "½",
        "Straße",
        "A\u0301ngstro\u0308m",
        "zero\u200bwidth",
        "soft\u00adhyphen",
        "no\u00a0break",
        "\u2026",
    ),
    *(
        "[SEP]",
        "##s",
        "a" * 101,
        "x" * 100,
        "\u0007",
        "\ufffd",
        "Ω",
        "Ελλάδα",
        "well-known",
        "'tis",
        "K\u212a",
    ),
)
BLANKS = (" ", " ", " ", "  ", "\n", "\t", "\u202f", "\r\n")


# --- the original, written apart from the product ----------------------------------------------------------


def punctuation(character: str) -> bool:
    ascii_sign = 33 <= ord(character) <= 126 and not character.isalnum()
    return ascii_sign or unicodedata.category(character)[0] == "P"


def basic(text: str) -> list[str]:
    """Lower case, no accents, no control characters; punctuation and Chinese characters stand alone."""
    clean = ""
    for character in text:
        if character in "\t\n\r" or unicodedata.category(character) == "Zs":
            clean += " "
        elif character == "\ufffd" or unicodedata.category(character)[0] == "C":
            continue
        elif "\u4e00" <= character <= "\u9fff":
            clean += f" {character} "
        else:
            clean += character
    found = []
    for word in clean.split():
        if word in SPECIAL:
            found.append(word)
            continue
        for character in unicodedata.normalize("NFD", word.lower()):
            if unicodedata.category(character) == "Mn":
                continue
            found.append(f" {character} " if punctuation(character) else character)
        found.append(" ")
    return "".join(f" {part} " if part in SPECIAL else part for part in found).split()


def word_piece(word: str, vocabulary: Sequence[str]) -> list[str]:
    """The longest beginning that is known, then the longest that is known with ##, or all unknown."""
    pieces: list[str] = []
    rest = word
    while rest:
        known = [n for n in range(1, len(rest) + 1) if ("##" if pieces else "") + rest[:n] in vocabulary]
        if not known or len(word) > 100:
            return ["[UNK]"]
        pieces.append(("##" if pieces else "") + rest[: known[-1]])
        rest = rest[known[-1] :]
    return pieces


def tokenise(text: str, vocabulary: Sequence[str]) -> list[str]:
    return [piece for word in basic(text) for piece in word_piece(word, vocabulary)]


Row = dict[str, Any]


def windows(articles: Any, vocabulary: Sequence[str], sizes: WindowSizes) -> list[Row]:
    """What the original makes of the questions, one dictionary per window."""
    rows: list[Row] = []
    number_of = {token: number for number, token in enumerate(vocabulary)}
    for article in articles:
        for paragraph in article["paragraphs"]:
            words = [word for word in re.split("[ \t\r\n\u202f]", paragraph["context"]) if word]
            pairs = [(token, i) for i, word in enumerate(words) for token in tokenise(word, vocabulary)]
            for qa in paragraph["qas"]:
                query = tokenise(qa["question"], vocabulary)[: sizes.query]
                room = sizes.sequence - len(query) - 3
                spans = []
                start = 0
                while start < len(pairs):
                    length = min(len(pairs) - start, room)
                    spans.append((start, length))
                    if start + length == len(pairs):
                        break
                    start += min(length, sizes.stride)
                for number, (start, length) in enumerate(spans):
                    tokens = [
                        "[CLS]",
                        *query,
                        "[SEP]",
                        *(t for t, _ in pairs[start : start + length]),
                        "[SEP]",
                    ]
                    first = len(query) + 2
                    rows.append(
                        {
                            "id": qa["id"],
                            "words": words,
                            "tokens": tokens,
                            "word": {first + i: pairs[start + i][1] for i in range(length)},
                            "central": {
                                first + i: central(spans, start + i) == number for i in range(length)
                            },
                            "ids": [number_of[token] for token in tokens],
                            "segments": [0] * first + [1] * (length + 1),
                        }
                    )
    return rows


def central(spans: Sequence[tuple[int, int]], place: int) -> int:
    best, chosen = None, -1
    for number, (start, length) in enumerate(spans):
        if start <= place < start + length:
            value = min(place - start, start + length - 1 - place) + 0.01 * length
            if best is None or value > best:
                best, chosen = value, number
    return chosen


def answers(rows: Sequence[Row], starts: np.ndarray, ends: np.ndarray) -> dict[str, str]:
    """The original's answers, with its lists of the 20 best and its stable sorting."""
    found: dict[str, list[tuple[float, str]]] = {}
    for row, start_logits, end_logits in zip(rows, starts.tolist(), ends.tolist(), strict=True):

        def best(logits: list[float]) -> list[int]:
            return sorted(range(len(logits)), key=lambda place: logits[place], reverse=True)[:20]

        candidates = [
            (start_logits[a] + end_logits[b], text_of(row, a, b))
            for a in best(start_logits)
            for b in best(end_logits)
            if row["central"].get(a) and b in row["word"] and a <= b <= a + 29
        ]
        candidates.sort(key=lambda candidate: candidate[0], reverse=True)
        found.setdefault(row["id"], []).extend(candidates)
    return {
        id_: sorted(candidates, key=lambda candidate: candidate[0], reverse=True)[0][1]
        if candidates
        else "empty"
        for id_, candidates in found.items()
    }


def text_of(row: Row, start: int, end: int) -> str:
    """The original text that a span's tokens came from, found by walking both texts side by side."""
    wanted = " ".join(row["tokens"][start : end + 1]).replace(" ##", "").replace("##", "")
    written = " ".join(row["words"][row["word"][start] : row["word"][end] + 1])
    read = " ".join(basic(written))
    at = read.find(wanted)
    solid = [i for i in range(len(written)) if written[i] != " "]
    if at < 0 or len(solid) != sum(character != " " for character in read):
        return written
    place_of = {}
    seen = 0
    for i, character in enumerate(read):
        if character != " ":
            place_of[i] = solid[seen]
            seen += 1
    return written[place_of[at] : place_of[at + len(wanted) - 1] + 1]


# --- windows and answers -----------------------------------------------------------------------------------


def text(generator: random.Random, words: int) -> str:
    return "".join(generator.choice(WORDS) + generator.choice(BLANKS) for _ in range(words))


def articles(seed: int, paragraphs: int = 30) -> list[Any]:
    """Paragraphs of hard words, from a few tokens to many windows."""
    generator = random.Random(seed)
    found = []
    for number in range(paragraphs):
        qas = [
            {
                "id": f"{seed}-{number}-{i}",
                "question": text(generator, generator.choice([3, 8, 40])),
                "answers": [{"text": "the tower", "answer_start": 0}],
            }
            for i in range(3)
        ]
        context = "the " + text(generator, generator.choice([1, 10, 60, 150]))
        found.append({"title": "t", "paragraphs": [{"context": context, "qas": qas}]})
    return found


SMALL = WindowSizes(sequence=96, stride=20, query=24)


@pytest.mark.parametrize("sizes", [SMALL, WindowSizes(), WindowSizes(sequence=64, stride=50, query=24)])
def test_windows_are_those_of_the_original(sizes: WindowSizes) -> None:
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


def test_every_token_of_a_paragraph_is_central_in_one_window() -> None:
    reading = prepare(articles(2), VOCABULARY, SMALL)
    whole = prepare(articles(2), VOCABULARY, WindowSizes(sequence=5000, query=24))
    several = np.flatnonzero(np.bincount(reading.items) > 1)
    assert len(several) > 20
    for question in several:
        own = [window for window in reading.windows if window.question == question]
        assert sum(int(window.central.sum()) for window in own) == len(whole.windows[question].words)


@pytest.mark.parametrize("kind", ["smooth", "ties"])
def test_answers_are_those_of_the_original_for_any_logits(kind: str) -> None:
    data = articles(3)
    reading = prepare(data, VOCABULARY, SMALL)
    rows = windows(data, VOCABULARY, SMALL)
    generator = np.random.default_rng(0)
    for _repeat in range(2):
        shape = (2, len(rows), SMALL.sequence)
        logits = generator.normal(0, 3, shape).astype(np.float32)
        if kind == "ties":  # few values, so that the order among equals decides
            logits = logits.round()
        kept = answers_of.best_positions(*logits)
        assert answers_of.predictions(kept, reading) == answers(rows, *logits)


def test_an_answer_keeps_the_spelling_of_the_paragraph() -> None:
    for normalised, original, wanted in (
        ("steve smith", "Steve Smith's", "Steve Smith"),
        ("cafe", "(Café),", "Café"),
        ("1895", "(1895–1943).", "1895"),
        ("1 , 250", "$1,250", "1,250"),
        ("[UNK]", "queue's", "queue's"),  # unknown: nothing to find, so all of it
        ("fine", "ﬁne ﬁnd", "ﬁne ﬁnd"),
        ("京", "a東京b", "京"),
        ("no", "no\u00a0break", "no\u00a0break"),  # the tokeniser drops the blank, so lengths differ
    ):
        assert answers_of.project(normalised, original) == wanted


def test_a_question_without_a_valid_span_is_answered_as_the_original_does() -> None:
    reading = prepare(articles(4, 1), VOCABULARY, SMALL)
    logits = np.zeros((2, len(reading.windows), SMALL.sequence), np.float32)
    logits[:, :, :20] = 9  # the best 20 are all in the question
    kept = answers_of.best_positions(*logits)
    first = {window.first for window in reading.windows if window.first > 21}
    assert first
    answered = answers_of.predictions(kept, reading)
    assert "empty" in answered.values()


def test_spans_are_the_best_pair_in_order_and_not_too_long() -> None:
    generator = np.random.default_rng(0)
    starts, ends = generator.normal(0, 1, (2, 40, 128)).astype(np.float32)
    found = answers_of.spans(answers_of.best_positions(starts, ends))
    for start, end, chosen in zip(starts, ends, found, strict=True):
        a, b = ((-of).argsort(kind="stable")[:20].tolist() for of in (start, end))
        best = max(((i, j) for i in a for j in b if i <= j <= i + 29), key=lambda p: start[p[0]] + end[p[1]])
        assert tuple(chosen) == best


def test_a_span_that_cannot_be_is_marked() -> None:
    starts, ends = np.zeros((2, 1, 64), np.float32)
    starts[:, 40:] = 1
    ends[:, :20] = 1
    assert answers_of.spans(answers_of.best_positions(starts, ends)).tolist() == [[-1, -1]]


# --- the official metric -----------------------------------------------------------------------------------


def official(data: Any, predictions: Mapping[str, str]) -> tuple[float, float]:
    """evaluate-v1.1.py's rules, written apart from the product."""

    def normal(value: str) -> str:
        value = value.lower()
        value = value.translate({ord(sign): None for sign in string.punctuation})
        for article in ("an", "a", "the"):
            value = re.sub(rf"(?<!\w){article}(?!\w)", " ", value)
        return " ".join(value.split())

    def overlap(value: str, truth: str) -> float:
        left, right = normal(value).split(), normal(truth).split()
        pool, same = list(right), 0
        for word in left:
            if word in pool:
                pool.remove(word)
                same += 1
        return 2 * same / (len(left) + len(right)) if same else 0.0

    f1, exact, total = 0.0, 0, 0
    for article in data:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                total += 1
                if qa["id"] in predictions:
                    given = predictions[qa["id"]]
                    f1 += max(overlap(given, answer["text"]) for answer in qa["answers"])
                    exact += any(normal(given) == normal(answer["text"]) for answer in qa["answers"])
    return f1 / total, exact / total


PARTS = (
    *(
        "the",
        "The",
        "a",
        "An",
        "THE",
        "ＴＨＥ",
        "theory",
        "U.S.",
        "u s",
        "it's",
        "its",
        "—",
        "–",
        "“the",
        "the-end",
    ),
    *(
        "1,250",
        "1250",
        "$",
        "ß",
        "İ",
        "é",
        "e\u0301",
        "\u00a0",
        "_a_",
        "a_b",
        "東京",
        "",
        " ",
        "...",
        "Paris",
        "paris",
    ),
)


def scored(seed: int, questions: int = 400) -> tuple[list[Any], dict[str, str]]:
    """Questions with one to four answers, and predictions near them; some empty, one in ten missing."""
    generator = random.Random(seed)

    def phrase() -> str:
        return generator.choice([" ", "  ", "-"]).join(generator.choices(PARTS, k=generator.randint(0, 4)))

    qas, predictions = [], {}
    for number in range(questions):
        truths = [phrase() for _ in range(generator.randint(1, 4))]
        qas.append({"id": str(number), "question": "?", "answers": [{"text": t} for t in truths]})
        if generator.random() < 0.9:
            predictions[str(number)] = generator.choice([*truths, phrase(), "", f"the {truths[0]}."])
    return [{"paragraphs": [{"context": "c", "qas": qas}]}], predictions


@pytest.mark.parametrize("seed", range(10))
def test_the_metric_is_the_official_one_on_any_predictions(seed: int) -> None:
    data, predictions = scored(seed)
    assert squad_v1.evaluate(data, predictions) == pytest.approx(official(data, predictions), abs=1e-12)


def test_the_metric_is_that_of_torchmetrics_where_answers_have_words() -> None:
    from torchmetrics.functional.text import squad

    data, predictions = scored(0, 800)
    qas = [
        {**qa, "answers": [answer for answer in qa["answers"] if squad_v1.normalise(answer["text"])]}
        for qa in data[0]["paragraphs"][0]["qas"]
    ]
    # torchmetrics follows SQuAD v2.0 where either text is empty.
    qas = [qa for qa in qas if qa["answers"] and squad_v1.normalise(predictions.get(qa["id"], ""))]
    assert len(qas) > 200
    theirs = squad(
        [{"id": qa["id"], "prediction_text": predictions[qa["id"]]} for qa in qas],
        [
            {"id": qa["id"], "answers": {"text": [a["text"] for a in qa["answers"]], "answer_start": []}}
            for qa in qas
        ],
    )
    ours = squad_v1.evaluate([{"paragraphs": [{"context": "", "qas": qas}]}], predictions)
    assert ours == pytest.approx((float(theirs["f1"]) / 100, float(theirs["exact_match"]) / 100), abs=1e-5)


@pytest.mark.parametrize(
    ("prediction", "truths", "f1", "exact"),
    [
        ("The Eiffel Tower!", ["Eiffel tower"], 1, 1),
        ("tower", ["the Eiffel Tower", "Tower"], 1, 1),
        ("Eiffel Tower Paris", ["Eiffel Tower"], 0.8, 0),
        ("tower tower", ["tower"], 2 / 3, 0),
        ("", ["the"], 0, 1),  # both normalise to nothing: the same, but without a common word
        ("", ["tower"], 0, 0),
        (None, ["tower"], 0, 0),
    ],
)
def test_the_metric_by_hand(prediction: str | None, truths: list[str], f1: float, exact: float) -> None:
    qa = {"id": "1", "question": "?", "answers": [{"text": truth} for truth in truths]}
    predictions = {} if prediction is None else {"1": prediction}
    data = [{"paragraphs": [{"context": "c", "qas": [qa]}]}]
    assert squad_v1.evaluate(data, predictions) == pytest.approx((f1, exact))


# --- files -------------------------------------------------------------------------------------------------


@pytest.fixture
def content() -> dict[str, Any]:
    return invented.as_squad(invented.paragraphs("evaluation", 2))


def written(content: object, folder: Path) -> Path:
    path = folder / "dev-v1.1.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def test_a_file_is_read_as_it_is(content: dict[str, Any], tmp_path: Path) -> None:
    assert squad_v1.read(written(content, tmp_path)) == content["data"]


def change_id(qas: list[Any]) -> None:
    qas[1]["id"] = qas[0]["id"]


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda qas: qas[0].pop("answers"), "answers"),
        (lambda qas: qas[0].update(answers=[]), "evaluation-0000-0 has no answer"),
        (lambda qas: qas[0].pop("question"), "question"),
        (change_id, "evaluation-0000-0 is there twice"),
        (lambda qas: qas.clear(), "no question"),
    ],
)
def test_a_file_that_is_not_squad_is_refused_and_the_fault_named(
    spoil: Callable[[list[Any]], object], named: str, content: dict[str, Any], tmp_path: Path
) -> None:
    content["data"] = content["data"][:1]
    spoil(content["data"][0]["paragraphs"][0]["qas"])
    path = written(content, tmp_path)
    with pytest.raises(InputError, match=named) as raised:
        squad_v1.read(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("damaged", ["", "{", "[]", '{"data": 3}', '{"version": "1.1"}'])
def test_a_damaged_file_is_refused(damaged: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"dev-v1\.1\.json"):
        squad_v1.read(written(damaged, tmp_path))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        squad_v1.read(tmp_path / "dev-v1.1.json")


def test_a_vocabulary_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(VOCABULARY) + "\n", "utf-8")
    assert word_pieces.read_vocabulary(path) == VOCABULARY


@pytest.mark.parametrize("tokens", ["", "[UNK]\n[CLS]\n[SEP]\n", "[PAD]\nthe\n", "\xff"])
def test_a_file_that_is_no_vocabulary_is_refused(tokens: str, tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes(tokens.encode("latin-1"))
    with pytest.raises(InputError, match="vocab"):
        word_pieces.read_vocabulary(path)


# --- the generated data set --------------------------------------------------------------------------------


def test_generated_answers_stand_in_their_paragraphs_where_the_file_says() -> None:
    for article in invented.as_squad(invented.paragraphs("evaluation"))["data"]:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                for answer in qa["answers"]:
                    found = paragraph["context"][answer["answer_start"] :][: len(answer["text"])]
                    assert found.lower() == answer["text"].lower()


def test_no_name_is_in_both_splits() -> None:
    names = [
        {
            statement.entity
            for paragraph in invented.paragraphs(split, 300)
            for statement in paragraph.statements
        }
        for split in ("training", "evaluation")
    ]
    assert min(map(len, names)) > 500
    assert not names[0] & names[1]


def test_every_answer_stands_beside_others_of_its_kind() -> None:
    for paragraph in invented.paragraphs("evaluation"):
        kinds = [statement.attribute for statement in paragraph.statements]
        assert all(kinds.count(kind) >= 3 for kind in kinds)


def test_generated_text_is_all_in_the_vocabulary() -> None:
    data = invented.as_squad(invented.paragraphs("evaluation"))["data"]
    reading = prepare(data, wording.vocabulary(), WindowSizes(128, 64))
    assert all("[UNK]" not in window.tokens for window in reading.windows)
    assert len(wording.vocabulary()) == len(set(wording.vocabulary()))


def test_some_generated_paragraphs_take_several_windows() -> None:
    data = invented.as_squad(invented.paragraphs("evaluation"))["data"]
    windows_of = np.bincount(prepare(data, wording.vocabulary(), WindowSizes(128, 64)).items)
    assert (windows_of == 1).sum() >= 300
    assert (windows_of > 1).sum() >= 30
