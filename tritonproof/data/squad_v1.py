"""SQuAD v1.1 as BERT reads it: reads its files, splits questions and paragraphs into windows of tokens, turns
logits into the text of an answer, and scores it. All as in run_squad.py of the original BERT in NVIDIA
DeepLearningExamples, and in SQuAD's official evaluation script, evaluate-v1.1.py."""

import functools
import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tritonproof.base.sanitize import is_printable
from tritonproof.safe_io.files import read_json, read_text, readable
from tritonproof.spec import Arrays

Articles = Sequence[Mapping[str, Any]]
"""The `data` of a SQuAD v1.1 file: articles of paragraphs, each with its context and its questions."""
_FIX = "give SQuAD's dev-v1.1.json"
_WORDS = re.compile("[^ \t\r\n\u202f]+")
"""A text's words, split where the original's reader splits them: at blanks, tabs and line ends."""


def read(path: Path) -> Articles:
    """The articles of a SQuAD v1.1 file. Raises InputError that names the article or question at fault."""
    content = read_json(path, "the data set", _FIX)
    with readable("the data set, which has to be in SQuAD's v1.1 form,", path, _FIX):
        articles: Articles = content["data"]
        seen: set[str] = set()
        asked = [(part, qa) for article in articles for part in article["paragraphs"] for qa in part["qas"]]
        for paragraph, qa in asked:
            if not isinstance(qa["id"], str) or not is_printable(qa["id"]) or qa["id"] in seen:
                raise ValueError("a question's id is no text of one line, or is there twice")
            seen.add(qa["id"])
            texts = [qa["question"], *(answer["text"] for answer in qa["answers"])]
            is_answered = len(texts) > 1 and all(isinstance(each, str) for each in texts)
            if not is_answered or not _WORDS.search(paragraph["context"]):
                raise ValueError(f"question {qa['id']} lacks a text, or an answer, which only v2.0 may lack")
        if not seen:
            raise ValueError("it has no question")
    return articles


def read_vocabulary(path: Path) -> tuple[str, ...]:
    """The tokens in a vocab.txt, each at the index of its id. Raises InputError if it is not BERT's."""
    what, fix = "the vocabulary, which is to be BERT's,", "put the checkpoint's vocab.txt there"
    with readable(what, path, fix):
        lines = read_text(path, what, fix).split("\n")
        tokens = tuple(line.strip() for line in (lines[:-1] if lines[-1] == "" else lines))
        token, count = Counter(tokens).most_common(1)[0]
        if count > 1:
            raise ValueError(f"the token {token!r} has several lines, whose numbers are the tokens' ids")
        if tokens[0] != "[PAD]" or not {"[UNK]", "[CLS]", "[SEP]"} <= set(tokens):
            raise ValueError("it does not begin with [PAD], or lacks [UNK], [CLS] or [SEP]")
    return tokens


# --- words and tokens --------------------------------------------------------------------------------------

_SPECIAL = frozenset({"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"})


@functools.cache
def _basic_tokenizer() -> Callable[[str], list[str]]:
    """The function that normalises and splits a text without special tokens."""
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    normaliser, splitter = BertNormalizer(lowercase=True, strip_accents=True), BertPreTokenizer()
    return lambda text: [word for word, _ in splitter.pre_tokenize_str(normaliser.normalize_str(text))]


def basic_tokens(text: str) -> list[str]:
    """A text's words in lower case without accents, each punctuation mark as a word, as BERT splits it before
    WordPiece. As in the original, the names of special tokens stay whole even in a text."""
    split = _basic_tokenizer()
    return [token for word in text.split(" ") for token in ([word] if word in _SPECIAL else split(word))]


def word_pieces(vocabulary: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """The function from a word to its tokens in this vocabulary; it caches its results, as words repeat."""
    from tokenizers.models import WordPiece

    number_of = {token: number for number, token in enumerate(vocabulary)}
    model = WordPiece(number_of, unk_token="[UNK]", max_input_chars_per_word=100)

    @functools.cache
    def pieces(word: str) -> tuple[str, ...]:
        return tuple(token.value for basic in basic_tokens(word) for token in model.tokenize(basic))

    return pieces


# --- windows -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """A question with its paragraph and the answers that count as right."""

    id: str
    words: tuple[str, ...]
    """The paragraph's words, as they are written between white space."""
    answers: tuple[str, ...]
    """The accepted answers, as they are written."""
    text: str = ""
    """The question as it is asked."""


@dataclass(frozen=True)
class WindowSizes:
    """The published settings, in tokens."""

    sequence: int = 384
    """A whole window: the question, the paragraph, three special tokens and the padding."""
    stride: int = 128
    """From the start of one window in the paragraph to the start of the next."""
    query: int = 64
    """The most tokens of a question; the rest is cut off."""


@dataclass(frozen=True)
class TextWindow:
    """A question and a stretch of its paragraph: one row of the model's input."""

    question: int
    """The index of the question among all questions."""
    tokens: tuple[str, ...]
    """[CLS], the question, [SEP], the stretch of the paragraph, [SEP]."""
    first: int
    """The index in `tokens` at which the stretch begins."""
    words: tuple[int, ...]
    """For each token of the stretch, the index of the paragraph's word that it belongs to."""
    central: np.ndarray
    """For each token of the stretch, whether this window shows the most context around it, bool."""


@dataclass(frozen=True)
class QuestionWindows:
    """Questions and the windows that ask them, with the token ids that the model receives."""

    questions: tuple[Question, ...]
    windows: tuple[TextWindow, ...]
    """In the order of the questions."""
    ids: np.ndarray
    """The token ids of each window, [windows, sequence] INT32, padded with 0."""

    @property
    def items(self) -> np.ndarray:
        """The index of each window's question, ascending, [windows]."""
        return np.array([window.question for window in self.windows])

    def inputs(self, indices: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Token ids, segment ids (1 from the paragraph on) and mask, [len(indices), sequence] INT32 each."""
        chosen, positions = list(indices), np.arange(self.ids.shape[1])
        length = np.array([len(self.windows[i].tokens) for i in chosen]).reshape(-1, 1)
        first = np.array([self.windows[i].first for i in chosen]).reshape(-1, 1)
        mask = positions < length
        return self.ids[chosen], (mask & (positions >= first)).astype(np.int32), mask.astype(np.int32)


def prepare(articles: Articles, vocabulary: Sequence[str], sizes: WindowSizes) -> QuestionWindows:
    """Every question of the articles in overlapping windows of tokens of `vocabulary`."""
    pieces = word_pieces(vocabulary)
    number_of = {token: number for number, token in enumerate(vocabulary)}
    questions: list[Question] = []
    windows: list[TextWindow] = []
    for article in articles:
        for paragraph in article["paragraphs"]:
            words = tuple(_WORDS.findall(paragraph.get("context", "")))  # may be absent if nothing is asked
            document = [(piece, index) for index, word in enumerate(words) for piece in pieces(word)]
            for qa in paragraph["qas"]:
                query = [piece for word in _WORDS.findall(qa["question"]) for piece in pieces(word)]
                windows += _windows(len(questions), query[: sizes.query], document, sizes)
                answers = tuple(answer["text"] for answer in qa["answers"])
                questions.append(Question(qa["id"], words, answers, qa["question"]))
    ids = np.zeros((len(windows), sizes.sequence), np.int32)
    for row, window in zip(ids, windows, strict=True):
        row[: len(window.tokens)] = [number_of[token] for token in window.tokens]
    return QuestionWindows(tuple(questions), tuple(windows), ids)


def _windows(
    question: int, query: Sequence[str], document: Sequence[tuple[str, int]], sizes: WindowSizes
) -> Iterator[TextWindow]:
    room = sizes.sequence - len(query) - 3  # [CLS], and [SEP] twice
    stride = min(room, sizes.stride)
    starts = [0, *range(stride, len(document) - room + stride, stride)]
    ends = [min(start + room, len(document)) for start in starts]
    centre = _most_central(starts, ends)
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        part = document[start:end]
        tokens = ("[CLS]", *query, "[SEP]", *(token for token, _ in part), "[SEP]")
        central = centre[start:end] == number
        yield TextWindow(question, tokens, len(query) + 2, tuple(word for _, word in part), central)


def _most_central(starts: Sequence[int], ends: Sequence[int]) -> np.ndarray:
    """The index of the window that decides about each token of a paragraph, [tokens]: the first of those with
    the highest score, the context on the token's poorer side plus 0.01 for each token of the window."""
    position = np.arange(ends[-1])
    start, last = np.array(starts)[:, None], np.array(ends)[:, None] - 1
    score = np.minimum(position - start, last - position) + 0.01 * (last - start + 1)
    return np.where((position >= start) & (position <= last), score, -np.inf).argmax(axis=0)


# --- answers -----------------------------------------------------------------------------------------------

N_BEST, MAX_ANSWER = 20, 30
"""Published: how many of a window's best starts and ends may form an answer, and an answer's most tokens."""
NO_ANSWER = "empty"
"""The original's answer where no pair of start and end is valid."""


def best_positions(start_logits: np.ndarray, end_logits: np.ndarray) -> Arrays:
    """The N_BEST starts and ends of each row with their logits, best first: all that an answer needs."""
    best = {}
    for name, logits in (("start", start_logits), ("end", end_logits)):
        order = np.argsort(-logits, axis=1, kind="stable")[:, :N_BEST]
        best[f"{name}_positions"] = order.astype(np.int16)
        best[f"{name}_logits"] = np.take_along_axis(logits, order, axis=1)
    return best


def spans(kept: Arrays) -> np.ndarray:
    """The best start and end of each row, anywhere in its window, int16 [rows, 2]; -1 if none is valid."""
    starts, ends = kept["start_positions"], kept["end_positions"]
    best = _scores(kept).reshape(len(starts), -1)
    chosen = best.argmax(axis=1)
    rows = np.arange(len(starts))
    pairs = np.stack([starts[rows, chosen // ends.shape[1]], ends[rows, chosen % ends.shape[1]]], axis=1)
    pairs[~np.isfinite(best[rows, chosen])] = -1
    return pairs


def _scores(kept: Arrays) -> np.ndarray:
    """The sums of the logits of each start and end, [rows, N_BEST, N_BEST]; -inf if too long or reversed."""
    length = kept["end_positions"].astype(int)[:, None, :] - kept["start_positions"][:, :, None] + 1
    # The original adds in double precision.
    total = kept["start_logits"].astype(np.float64)[:, :, None] + kept["end_logits"][:, None, :]
    return np.where((length >= 1) & (length <= MAX_ANSWER), total, -np.inf)


def predictions(kept: Arrays, questions: QuestionWindows) -> dict[str, str]:
    """The answer to each question, from the `best_positions` of all windows."""
    scores = _scores(kept)
    best: dict[int, float] = {}
    answers = {question.id: NO_ANSWER for question in questions.questions}
    for row, window in enumerate(questions.windows):
        starts = kept["start_positions"][row].astype(int) - window.first
        ends = kept["end_positions"][row].astype(int) - window.first
        inside = (starts >= 0) & (starts < len(window.words))
        inside[inside] = window.central[starts[inside]]
        valid = inside[:, None] & (ends >= 0) & (ends < len(window.words))
        allowed = np.where(valid, scores[row], -np.inf)
        start, end = np.unravel_index(allowed.argmax(), allowed.shape)
        # The first of equal pairs and of equal windows wins, as in the original's stable sort.
        if allowed[start, end] > best.get(window.question, -np.inf):
            best[window.question] = float(allowed[start, end])
            question = questions.questions[window.question]
            answers[question.id] = _answer(question, window, int(starts[start]), int(ends[end]))
    return answers


def _answer(question: Question, window: TextWindow, start: int, end: int) -> str:
    """The text of a span of the window's paragraph, cut from the paragraph as it is written."""
    first = window.first
    normalised = " ".join(window.tokens[first + start : first + end + 1])
    normalised = " ".join(normalised.replace(" ##", "").replace("##", "").split())
    return project(normalised, " ".join(question.words[window.words[start] : window.words[end] + 1]))


def project(normalised: str, original: str) -> str:
    """The part of `original` that became the lower-case tokens `normalised`. Characters are matched one by
    one without spaces; where they do not correspond, the answer is all of `original`."""
    tokenised = " ".join(basic_tokens(original))
    start = tokenised.find(normalised)
    positions = [position for position, character in enumerate(original) if character != " "]
    if start < 0 or not normalised or len(positions) != len(tokenised.replace(" ", "")):
        return original
    first = start - tokenised.count(" ", 0, start)
    length = len(normalised) - normalised.count(" ")
    return original[positions[first] : positions[first + length - 1] + 1]


def normalise(text: str) -> str:
    """What the official script compares: lower case, no punctuation, no articles, single spaces."""
    plain = "".join(character for character in text.lower() if character not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", plain).split())


def exact(answer: str, truth: str) -> float:
    """1.0 if the normalised texts are the same, else 0.0."""
    return float(normalise(answer) == normalise(truth))


def f1(answer: str, truth: str) -> float:
    """Harmonic mean of precision and recall over the normalised texts' words; 0 without common words."""
    answer_words, truth_words = normalise(answer).split(), normalise(truth).split()
    common = (Counter(answer_words) & Counter(truth_words)).total()
    # The official script's arithmetic, in its order.
    if common == 0:
        return 0.0
    precision, recall = common / len(answer_words), common / len(truth_words)
    return 2 * precision * recall / (precision + recall)


def score(
    measure: Callable[[str, str], float], questions: Sequence[Question], answers: Mapping[str, str]
) -> np.ndarray:
    """The score of each question, [questions]: the best `measure` of its answer with an accepted answer."""
    pairs = ((answers[question.id], question.answers) for question in questions)
    return np.array([max(measure(answer, truth) for truth in truths) for answer, truths in pairs])
