"""SQuAD's file and a vocabulary as they are read, and the invented questions that stand in for them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.data.squad import invented, squad_v1, word_pieces
from fixtures.data.squad.text_windows import WindowSizes, prepare
from fixtures.errors import InputError
from tests.data.original_bert import VOCABULARY


@pytest.fixture
def content() -> dict[str, Any]:
    return invented.as_squad(invented.paragraphs("evaluation", 2))


def written(content: object, folder: Path) -> Path:
    path = folder / "dev-v1.1.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def test_a_file_is_read_as_it_is(content: dict[str, Any], tmp_path: Path) -> None:
    assert squad_v1.read(written(content, tmp_path)) == content["data"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda qas: qas[0].pop("answers"),
        lambda qas: qas[0].update(answers=[]),
        lambda qas: qas[0].pop("question"),
        lambda qas: qas[1].update(id=qas[0]["id"]),
        lambda qas: qas.clear(),
    ],
)
def test_a_file_that_is_not_squad_is_refused(
    spoil: Callable[[list[Any]], object], content: dict[str, Any], tmp_path: Path
) -> None:
    content["data"] = content["data"][:1]
    spoil(content["data"][0]["paragraphs"][0]["qas"])
    path = written(content, tmp_path)
    with pytest.raises(InputError) as raised:
        squad_v1.read(path)
    assert raised.value.where.startswith(str(path))


def test_a_paragraph_that_nothing_is_asked_about_is_passed_over_whatever_it_lacks(
    content: dict[str, Any], tmp_path: Path
) -> None:
    content["data"][0]["paragraphs"].insert(0, {"qas": []})
    articles = squad_v1.read(written(content, tmp_path))
    assert (
        len(prepare(articles, invented.vocabulary(), WindowSizes(128, 64)).questions)
        == 2 * invented.QUESTIONS
    )


@pytest.mark.parametrize("damaged", ["", "{", "[]", '{"data": 3}', '{"version": "1.1"}'])
def test_a_damaged_file_is_refused(damaged: str, tmp_path: Path) -> None:
    path = written(damaged, tmp_path)
    with pytest.raises(InputError) as raised:
        squad_v1.read(path)
    assert raised.value.where.startswith(str(path))


def test_a_vocabulary_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(VOCABULARY) + "\n", "utf-8")
    assert word_pieces.read_vocabulary(path) == VOCABULARY


@pytest.mark.parametrize(
    "tokens",
    ["", "[UNK]\n[CLS]\n[SEP]\n", "[PAD]\nthe\n", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\nof\nthe\n", "\xff"],
)
def test_a_file_that_is_no_vocabulary_is_refused(tokens: str, tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes(tokens.encode("latin-1"))
    with pytest.raises(InputError) as raised:
        word_pieces.read_vocabulary(path)
    assert raised.value.where.startswith(str(path))


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


def test_generated_text_is_all_in_the_vocabulary_and_some_takes_several_windows() -> None:
    data = invented.as_squad(invented.paragraphs("evaluation"))["data"]
    reading = prepare(data, invented.vocabulary(), WindowSizes(128, 64))
    assert all("[UNK]" not in window.tokens for window in reading.windows)
    assert len(invented.vocabulary()) == len(set(invented.vocabulary()))
    windows_of = np.bincount(reading.items)
    assert (windows_of == 1).sum() >= 300
    assert (windows_of > 1).sum() >= 30
