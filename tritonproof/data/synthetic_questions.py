"""Generated reading comprehension in SQuAD's form: made-up names, so that only reading gives the answer."""

import itertools
import string
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tritonproof.spec import Split

# Onsets and codas share no letter, so that greedy WordPiece finds the syllables of a name.
_ONSETS, _VOWELS, _CODAS = "bdfghklmpstvzw", "aeiou", ("", "n", "r")
SYLLABLES = tuple(onset + vowel + coda for onset in _ONSETS for vowel in _VOWELS for coda in _CODAS)
"""The syllables of all names; each is a token of the vocabulary."""
TOWNS = ("ford", "burg", "stead", "mouth")
COLOURS = ("red", "blue", "green", "silver", "golden", "white", "black", "grey")
THINGS = ("boat", "harp", "clock", "lantern", "wagon", "mirror", "drum", "ring")
RANKS = ("royal", "junior", "village", "night", "master", "travelling")
TRADES = ("baker", "weaver", "miller", "painter", "surgeon", "printer", "gardener", "carpenter")
MONTHS = ("January", "March", "April", "June", "August", "October")


@dataclass(frozen=True)
class Attribute:
    """A kind of fact: how it is stated and asked. `{e}` is the entity, `{a}` the answer."""

    name: str
    statements: tuple[str, str, str]
    questions: tuple[str, str, str]


ATTRIBUTES = (
    Attribute(
        "birthplace",
        ("{e} was born in {a}.", "{e} comes from {a}.", "As a child, {e} lived in {a}."),
        ("Where was {e} born?", "From which town does {e} come?", "Where did {e} live as a child?"),
    ),
    Attribute(
        "trade",
        ("{e} works as {a}.", "{e} makes a living as {a}.", "By day, {e} is {a}."),
        ("What is the trade of {e}?", "What does {e} do for a living?", "As what does {e} work?"),
    ),
    Attribute(
        "arrival",
        ("{e} arrived in {a}.", "{e} came to the valley in {a}.", "People first saw {e} in {a}."),
        ("When did {e} arrive?", "When did {e} come to the valley?", "What is the date of {e}'s arrival?"),
    ),
    Attribute(
        "spouse",
        ("{e} is married to {a}.", "{e} is the spouse of {a}.", "One fine morning, {e} wed {a}."),
        ("Who is the spouse of {e}?", "To whom is {e} married?", "With whom did {e} have a wedding?"),
    ),
    Attribute(
        "treasure",
        ("{e} owns {a}.", "{e} is known for {a}.", "Above all, {e} loves {a}."),
        ("What does {e} own?", "For what is {e} known?", "What does {e} love above all?"),
    ),
    Attribute(
        "debt",
        ("{e} owes {a} crowns.", "{e} has a debt of {a} crowns.", "At the inn, {e} owes {a} crowns."),
        ("How many crowns does {e} owe?", "How large is the debt of {e}?", "What sum does {e} owe?"),
    ),
)


def vocabulary() -> tuple[str, ...]:
    """The WordPiece vocabulary: special tokens, characters, syllables, and the words of the templates."""
    characters = string.ascii_lowercase + string.digits
    templates = " ".join(text for kind in ATTRIBUTES for text in (*kind.statements, *kind.questions))
    plain = templates.replace("{e}", " ").replace("{a}", " ").lower()
    words = {word.strip(string.punctuation) for word in plain.split()} - {""}
    words |= {*COLOURS, *THINGS, *RANKS, *TRADES, "a", "an", "the", "s", *(m.lower() for m in MONTHS)}
    listed = (
        *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
        *string.punctuation,
        *characters,
        *(f"##{character}" for character in characters),
        *SYLLABLES,
        *(f"##{syllable}" for syllable in SYLLABLES),
        *(f"##{ending}" for ending in TOWNS),
        *(str(century) for century in (17, 18, 19)),
        *(f"##{year:02d}" for year in range(100)),
        *sorted(words),
    )
    return tuple(dict.fromkeys(listed))


PARAGRAPHS: Mapping[Split, int] = {"training": 4000, "evaluation": 80}
QUESTIONS = 5
"""How many questions are asked about each paragraph."""
_SEEDS: Mapping[Split, int] = {"training": 20211001, "evaluation": 20211002}


@dataclass(frozen=True)
class Statement:
    """A sentence of a paragraph, in pieces that WordPiece always separates."""

    entity: str
    attribute: int
    """The index of the stated fact in ATTRIBUTES."""
    answers: tuple[str, ...]
    """The texts that count as right: what is stated, and how a person might shorten it."""
    pieces: tuple[tuple[str, str], ...]
    """The pieces in their order, each with its role: `entity`, `answer` or `plain`."""

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.pieces)


@dataclass(frozen=True)
class SyntheticQuestion:
    """A question, and the index of its paragraph's statement that answers it."""

    id: str
    text: str
    statement: int


@dataclass(frozen=True)
class Paragraph:
    """Statements in the order of the text, and questions about them."""

    title: str
    statements: tuple[Statement, ...]
    questions: tuple[SyntheticQuestion, ...]

    @property
    def context(self) -> str:
        return " ".join(statement.text for statement in self.statements)


def paragraphs(
    split: Split, count: int | None = None, seed: int | None = None, entities: int | None = None
) -> list[Paragraph]:
    """The generated paragraphs of a split; no name is in both splits. `count` and `seed` default to those of
    the micro model's data. `entities` is the number in each paragraph: by default three, and six in every
    tenth paragraph, which is too long for one window of the micro model."""
    generator = np.random.default_rng(_SEEDS[split] if seed is None else seed)
    generated = []
    for number in range(PARAGRAPHS[split] if count is None else count):
        entity_count = entities or (6 if number % 10 == 9 else 3)
        generated.append(_paragraph(generator, split, f"{split}-{number:04d}", entity_count))
    return generated


def as_squad(paragraphs: list[Paragraph]) -> dict[str, Any]:
    """Paragraphs as the content of a SQuAD v1.1 file, without the answers' positions, which nothing reads."""
    articles = []
    for paragraph in paragraphs:
        qas = [
            {
                "id": question.id,
                "question": question.text,
                "answers": [{"text": text} for text in paragraph.statements[question.statement].answers],
            }
            for question in paragraph.questions
        ]
        content = {"context": paragraph.context, "qas": qas}
        articles.append({"title": paragraph.title, "paragraphs": [content]})
    return {"version": "1.1", "data": articles}


def _paragraph(generator: np.random.Generator, split: Split, title: str, entity_count: int) -> Paragraph:
    """A paragraph about entities with the same two attributes: answers stand beside others of their kind."""
    names = _names(generator, split, entity_count)
    kinds = generator.permutation(len(ATTRIBUTES))[:2]
    stated = [_statement(generator, split, name, int(kind)) for name in names for kind in kinds]
    statements = tuple(stated[i] for i in generator.permutation(len(stated)))
    questions = []
    for number, index in enumerate(generator.permutation(len(statements))[:QUESTIONS]):
        template = _pick(generator, ATTRIBUTES[statements[index].attribute].questions)
        text = template.replace("{e}", statements[index].entity)
        questions.append(SyntheticQuestion(f"{title}-{number}", text, int(index)))
    return Paragraph(title, statements, tuple(questions))


def _pick(generator: np.random.Generator, words: Sequence[str]) -> str:
    return words[int(generator.integers(len(words)))]


def _names(generator: np.random.Generator, split: Split, entity_count: int) -> list[str]:
    """Different names. Up to six are, in half of the paragraphs, all made of the same three syllables."""
    if entity_count > 6 or generator.random() < 0.5:
        names: list[str] = []
        while len(names) < entity_count:
            names += {_name(generator, split)} - set(names)
        return names
    while True:
        syllables = [_pick(generator, SYLLABLES) for _ in range(3)]
        words = ("".join(parts) for length in (2, 3) for parts in itertools.product(syllables, repeat=length))
        alike = [name.capitalize() for name in dict.fromkeys(words) if _belongs(name.capitalize(), split)]
        if len(alike) >= entity_count:
            return [alike[i] for i in generator.permutation(len(alike))[:entity_count]]


def _belongs(name: str, split: Split) -> bool:
    """Whether a name is for the split: a quarter of all names is for evaluation alone."""
    return (zlib.crc32(name.encode()) % 4 == 0) == (split == "evaluation")


def _name(generator: np.random.Generator, split: Split, last: str = "") -> str:
    """A name of two or three syllables that belongs to the split."""
    while True:
        drawn = (_pick(generator, SYLLABLES) for _ in range(generator.integers(2, 4)))
        name = "".join([*drawn, last]).capitalize()
        if _belongs(name, split):
            return name


def _answers(generator: np.random.Generator, split: Split, attribute: str) -> tuple[str, ...]:
    match attribute:
        case "birthplace":
            return (_name(generator, split, last=_pick(generator, TOWNS)),)
        case "trade":
            rank, trade = _pick(generator, RANKS), _pick(generator, TRADES)
            return (f"a {rank} {trade}", f"{rank} {trade}", trade)
        case "arrival":
            year = str(generator.integers(1700, 2000))
            return (f"{_pick(generator, MONTHS)} {year}",)
        case "spouse":
            return (f"{_name(generator, split)} {_name(generator, split)}",)
        case "treasure":
            thing = f"{_pick(generator, COLOURS)} {_pick(generator, THINGS)}"
            return (f"the {thing}", thing)
        case _:
            return (f"{generator.integers(1, 10)},{generator.integers(0, 1000):03d}",)


def _statement(generator: np.random.Generator, split: Split, entity: str, attribute: int) -> Statement:
    answers = _answers(generator, split, ATTRIBUTES[attribute].name)
    template = _pick(generator, ATTRIBUTES[attribute].statements)
    pieces = []
    for literal, field, _, _ in string.Formatter().parse(template):
        if literal:
            pieces.append((literal, "plain"))
        if field is not None:
            pieces.append((entity, "entity") if field == "e" else (answers[0], "answer"))
    text, role = pieces[0]
    pieces[0] = (text[0].upper() + text[1:], role)
    return Statement(entity, attribute, answers, tuple(pieces))
