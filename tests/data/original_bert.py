"""NVIDIA's reading and answering of SQuAD with BERT, written independently of the product; hard texts."""

import random
import re
import string
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from fixtures.data.text_windows import WindowSizes

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# No `q` and no `##z`: words with them are unknown.
LETTERS = "abcdefghijklmnoprstuvwxyz"
PIECES = "the tower ##s of paris cafe ##ing was built in 18 ##89 who naive"
VOCABULARY = tuple(
    dict.fromkeys(
        (
            *SPECIAL,
            *(LETTERS + string.digits + ".,'-()$%\"?!&[]–“”東京é"),
            *(f"##{character}" for character in (LETTERS + string.digits).replace("z", "")),
            *PIECES.split(),
        )
    )
)
HARD = (
    "the The tower Towers of Paris Paris's was built in 1889. (1889–1901), Café naïve İstanbul “quoted” "
    "U.S. $1,250 50% 東京 a東京b queen fizz ﬁne ½ Straße A\u0301ngstro\u0308m zero\u200bwidth "
    "soft\u00adhyphen … [SEP] ##s \ufffd Ω Ελλάδα well-known 'tis K\u212a "
)
WORDS = (*HARD.split(), "no\u00a0break", "\u0007", "a" * 101, "x" * 100)
BLANKS = (" ", " ", " ", "  ", "\n", "\t", "\u202f", "\r\n")


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
    parts = []
    for word in clean.split():
        if word in SPECIAL:
            parts.append(word)
            continue
        for character in unicodedata.normalize("NFD", word.lower()):
            if unicodedata.category(character) == "Mn":
                continue
            parts.append(f" {character} " if punctuation(character) else character)
        parts.append(" ")
    return "".join(f" {part} " if part in SPECIAL else part for part in parts).split()


def word_piece(word: str, vocabulary: Sequence[str]) -> list[str]:
    """The longest known prefix, then the longest known with ##; [UNK] if any rest is unknown."""
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
    """The original's windows of the questions, one dictionary each."""
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
    """The original's answers: from its lists of the 20 best, the first of equal sums."""
    by_question: dict[str, list[tuple[float, Row, int, int]]] = {}
    for row, start_logits, end_logits in zip(rows, starts.tolist(), ends.tolist(), strict=True):

        def best(logits: list[float]) -> list[int]:
            return sorted(range(len(logits)), key=lambda place: logits[place], reverse=True)[:20]

        candidates = [
            (start_logits[a] + end_logits[b], row, a, b)
            for a in best(start_logits)
            for b in best(end_logits)
            if row["central"].get(a) and b in row["word"] and a <= b <= a + 29
        ]
        candidates.sort(key=lambda candidate: candidate[0], reverse=True)
        by_question.setdefault(row["id"], []).extend(candidates)
    chosen = {id_: max(spans, key=lambda span: span[0], default=None) for id_, spans in by_question.items()}
    return {id_: text_of(*span[1:]) if span else "empty" for id_, span in chosen.items()}


def text_of(row: Row, start: int, end: int) -> str:
    """The original text of a span's tokens, by walking both texts side by side."""
    normalised = " ".join(row["tokens"][start : end + 1]).replace(" ##", "").replace("##", "")
    written = " ".join(row["words"][row["word"][start] : row["word"][end] + 1])
    read = " ".join(basic(written))
    at = read.find(normalised)
    solid = [i for i in range(len(written)) if written[i] != " "]
    if at < 0 or len(solid) != sum(character != " " for character in read):
        return written
    place_of = {}
    seen = 0
    for i, character in enumerate(read):
        if character != " ":
            place_of[i] = solid[seen]
            seen += 1
    return written[place_of[at] : place_of[at + len(normalised) - 1] + 1]


def text(generator: random.Random, words: int) -> str:
    return "".join(generator.choice(WORDS) + generator.choice(BLANKS) for _ in range(words))


def articles(seed: int, paragraphs: int = 30) -> list[Any]:
    """Paragraphs of hard words, from a few tokens to many windows."""
    generator = random.Random(seed)
    result = []
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
        result.append({"title": "t", "paragraphs": [{"context": context, "qas": qas}]})
    return result
