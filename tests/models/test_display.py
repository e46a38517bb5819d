"""Samples as shown to a reader: pictures, texts and both answers."""

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.helpers import present
from tritonproof.data import squad_v1
from tritonproof.models import bert, fastpitch, nnunet, resnet50, resnet50_tf
from tritonproof.record.sample_files import SamplePart
from tritonproof.spec import Arrays, Model, Samples


def picture(part: SamplePart) -> np.ndarray:
    """The pixels of a picture, [height, width, 3]."""
    assert part.kind == "image"
    with Image.open(io.BytesIO(base64.b64decode(part.content))) as image:
        return np.asarray(image.convert("RGB"))


def texts(parts: Sequence[SamplePart]) -> dict[str, str]:
    return {part.title: part.content for part in parts if part.kind == "text"}


def micro(family: Any) -> tuple[Model, Samples]:
    (model,) = (candidate for candidate in family.MODELS if candidate.micro)
    return model, model.samples("evaluation", None, None)


def shown(model: Model, samples: Samples, framework: Arrays, served: Arrays) -> Sequence[SamplePart]:
    """What the model shows of its first sample."""
    return present(model.show)(samples, 0, framework, served)


@pytest.mark.parametrize("family", [resnet50, resnet50_tf])
def test_digit_is_shown_with_label_and_answers(family: object) -> None:
    model, samples = micro(family)
    parts = shown(model, samples, {"classes": np.array([3])}, {"classes": np.array([5])})
    label = f"class {samples.labels[0]}"
    assert texts(parts) == {"Label": label, "Framework": "class 3", "Served": "class 5"}
    pixels = picture(parts[0])
    assert (pixels.shape, pixels.min(), pixels.max()) == ((128, 128, 3), 0, 255)


def test_volume_is_shown_where_masks_differ_most() -> None:
    model, samples = micro(nnunet)
    served = samples.labels.copy()
    served[0, 9, 4:8, 4:8] = 2
    parts = shown(model, samples, {"classes": samples.labels}, {"classes": served})
    reference, answer, _difference = map(picture, parts[:3])
    changed = (reference != answer).any(axis=2)
    assert "16" in parts[2].title, "pixels differ"
    assert changed[16:32, 16:32].all()
    assert changed.sum() == 16 * 16


def test_question_is_shown_with_accepted_and_given_answers() -> None:
    model, samples = micro(bert)
    window = samples.labels.windows[0]

    def pointing_at(word: int) -> dict[str, np.ndarray]:
        logits = np.zeros((len(samples), 128), np.float32)
        logits[0, window.first + window.words.index(word)] = 9.0
        return dict(squad_v1.best_positions(logits, logits))

    parts = texts(shown(model, samples, pointing_at(2), pointing_at(3)))
    assert parts["Question"] == samples.labels.questions[0].text
    assert parts["Accepted"] == "the silver ring | silver ring"
    assert (parts["Framework"], parts["Served"]) == ("in", "June")
    assert "the silver ring" in parts["Paragraph"]


def test_utterance_is_shown_as_both_mels() -> None:
    model, samples = micro(fastpitch)
    counts = np.full((len(samples), 1), samples.labels[0].shape[1] + 5)
    mels = np.zeros((len(samples), 80, 128), np.float32)
    served = {fastpitch.MEL: mels, fastpitch.FRAME_COUNT: counts, fastpitch.DURATIONS: counts}
    parts = shown(model, samples, served, served)
    assert texts(parts)["Text"].endswith((".", "?"))
    assert picture(parts[1]).shape == picture(parts[2]).shape
