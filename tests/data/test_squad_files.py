"""Reading of SQuAD and vocabulary files, and the invented questions that replace them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.data import invented, squad_v1, text_windows
from fixtures.data.text_windows import WindowSizes, prepare
from fixtures.errors import InputError
from tests.data.original_bert import VOCABULARY


@pytest.fixture
def content() -> dict[str, Any]:
    return invented.as_squad(invented.paragraphs("evaluation", 2))


def written(content: object, folder: Path) -> Path:
    path = folder / "dev-v1.1.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def test_squad_file_is_read_unchanged(content: dict[str, Any], tmp_path: Path) -> None:
    # A paragraph without questions may lack its text.
    content["data"][0]["paragraphs"].insert(0, {"qas": []})
    articles = squad_v1.read(written(content, tmp_path))
    assert articles == content["data"]
    questions = prepare(articles, invented.vocabulary(), WindowSizes(128, 64)).questions
    assert len(questions) == 2 * invented.QUESTIONS


def of_questions(spoil: Callable[[list[Any]], object]) -> str:
    content = invented.as_squad(invented.paragraphs("evaluation", 1))
    spoil(content["data"][0]["paragraphs"][0]["qas"])
    return json.dumps(content)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", '{"data": 3}', '{"version": "1.1"}'),
        of_questions(lambda qas: qas[0].pop("answers")),
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


def test_generated_answers_are_at_stated_positions() -> None:
    for article in invented.as_squad(invented.paragraphs("evaluation"))["data"]:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                for answer in qa["answers"]:
                    span = paragraph["context"][answer["answer_start"] :][: len(answer["text"])]
                    assert span.lower() == answer["text"].lower()
