"""Reading of SQuAD and vocabulary files, and the invented questions that replace them."""

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fixtures.data import invented, squad_v1
from fixtures.data.squad_v1 import Question, WindowSizes, prepare
from fixtures.errors import InputError


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
    for article in invented.as_squad(invented.paragraphs("evaluation"))["data"]:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                assert all(answer["text"].lower() in paragraph["context"].lower() for answer in qa["answers"])


SPOKEN = (
    "the The a An THE ＴＨＥ theory U.S. it's its — – “the the-end 1,250 1250 $ ß İ é e\u0301 _a_ a_b 東京"
)
PARTS = (*SPOKEN.split(), "u s", "\u00a0", "", " ", "...", "Paris", "paris")


def evaluate(accepted: Mapping[str, list[str]], predictions: Mapping[str, str]) -> tuple[float, float]:
    """Mean F1 and exact match, 0 to 1, of answers by question id."""
    questions = [Question(id_, (), tuple(texts)) for id_, texts in accepted.items()]
    f1, exact = (
        squad_v1.score(metric, questions, predictions).mean() for metric in (squad_v1.f1, squad_v1.exact)
    )
    return float(f1), float(exact)


def test_metric_matches_torchmetrics() -> None:
    from torchmetrics.functional.text import squad

    generator = random.Random(0)

    def phrase() -> str:
        """Some parts, at least one of which survives normalisation."""
        parts = generator.choices(PARTS, k=generator.randint(0, 4))
        return generator.choice([" ", "  ", "-"]).join(
            [*parts, generator.choice(["Paris", "1250", "theory"])]
        )

    accepted = {str(number): [phrase() for _ in range(generator.randint(1, 4))] for number in range(2000)}
    predictions = {
        id_: generator.choice([*texts, phrase(), f"the {texts[0]}."]) for id_, texts in accepted.items()
    }
    theirs = squad(
        [{"id": id_, "prediction_text": text} for id_, text in predictions.items()],
        [{"id": id_, "answers": {"text": texts, "answer_start": []}} for id_, texts in accepted.items()],
    )
    assert evaluate(accepted, predictions) == pytest.approx(
        (float(theirs["f1"]) / 100, float(theirs["exact_match"]) / 100), abs=1e-5
    )


@pytest.mark.parametrize(
    ("prediction", "truths", "f1", "exact"),
    [
        ("The Eiffel Tower!", ["Eiffel tower"], 1, 1),
        ("tower", ["the Eiffel Tower", "Tower"], 1, 1),
        ("Eiffel Tower Paris", ["Eiffel Tower"], 0.8, 0),
        ("tower tower", ["tower"], 2 / 3, 0),
        ("", ["the"], 0, 1),  # both normalise to nothing: the same, but without a common word
        ("", ["tower"], 0, 0),
    ],
)
def test_metric_matches_values_by_hand(prediction: str, truths: list[str], f1: float, exact: float) -> None:
    assert evaluate({"1": truths}, {"1": prediction}) == pytest.approx((f1, exact))
