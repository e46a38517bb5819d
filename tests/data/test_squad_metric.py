"""SQuAD v1.1's F1 and exact match: against the official rules, against torchmetrics, and by hand."""

import random
import re
import string
from collections.abc import Mapping
from typing import Any

import pytest

from fixtures.data.squad import squad_v1


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


SPOKEN = (
    "the The a An THE ＴＨＥ theory U.S. it's its — – “the the-end 1,250 1250 $ ß İ é e\u0301 _a_ a_b 東京"
)
PARTS = (*SPOKEN.split(), "u s", "\u00a0", "", " ", "...", "Paris", "paris")


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
