"""SQuAD v1.1's F1 and exact match: against torchmetrics, and by hand, also where torchmetrics follows SQuAD v2.0."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from fixtures.data.squad import squad_v1
from fixtures.data.squad.squad_v1 import Question


def evaluate(qas: Sequence[Mapping[str, Any]], predictions: Mapping[str, str]) -> tuple[float, float]:
    """Mean F1 and exact match, 0 to 1, of answers by question id."""
    questions = [Question(qa["id"], (), tuple(answer["text"] for answer in qa["answers"])) for qa in qas]
    f1, exact = (squad_v1.score(one, questions, predictions).mean() for one in (squad_v1.f1, squad_v1.exact))
    return float(f1), float(exact)


SPOKEN = (
    "the The a An THE ＴＨＥ theory U.S. it's its — – “the the-end 1,250 1250 $ ß İ é e\u0301 _a_ a_b 東京"
)
PARTS = (*SPOKEN.split(), "u s", "\u00a0", "", " ", "...", "Paris", "paris")


def scored(questions: int) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Questions with one to four answers, and predictions near them; some empty, one in ten missing."""
    generator = random.Random(0)

    def phrase() -> str:
        return generator.choice([" ", "  ", "-"]).join(generator.choices(PARTS, k=generator.randint(0, 4)))

    qas, predictions = [], {}
    for number in range(questions):
        truths = [phrase() for _ in range(generator.randint(1, 4))]
        qas.append({"id": str(number), "question": "?", "answers": [{"text": t} for t in truths]})
        if generator.random() < 0.9:
            predictions[str(number)] = generator.choice([*truths, phrase(), "", f"the {truths[0]}."])
    return qas, predictions


def test_the_metric_is_that_of_torchmetrics_where_answers_have_words() -> None:
    from torchmetrics.functional.text import squad

    qas, predictions = scored(4000)
    for qa in qas:
        qa["answers"] = [answer for answer in qa["answers"] if squad_v1.normalise(answer["text"])]
    # torchmetrics follows SQuAD v2.0 where either text is empty.
    qas = [qa for qa in qas if qa["answers"] and squad_v1.normalise(predictions.get(qa["id"], ""))]
    assert len(qas) > 1000
    theirs = squad(
        [{"id": qa["id"], "prediction_text": predictions[qa["id"]]} for qa in qas],
        [
            {"id": qa["id"], "answers": {"text": [a["text"] for a in qa["answers"]], "answer_start": []}}
            for qa in qas
        ],
    )
    assert evaluate(qas, predictions) == pytest.approx(
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
        (None, ["tower"], 0, 0),
    ],
)
def test_the_metric_by_hand(prediction: str | None, truths: list[str], f1: float, exact: float) -> None:
    qa = {"id": "1", "question": "?", "answers": [{"text": truth} for truth in truths]}
    predictions = {} if prediction is None else {"1": prediction}
    assert evaluate([qa], predictions) == pytest.approx((f1, exact))
