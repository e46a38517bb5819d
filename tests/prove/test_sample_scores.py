"""The file of samples beside a record: what it holds, which samples are the worst, what they look like."""

import base64
import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fixtures.data.squad import answers
from fixtures.models import bert, fastpitch, nnunet, resnet50, resnet50_tf
from fixtures.models.bert import display
from fixtures.plugin import record_file
from fixtures.prove.accuracy import Stage, Stages, item_scores
from fixtures.prove.sample_scores import samples_file, worst_items
from fixtures.spec import Case, Model, Samples
from reports.record import files, samples
from reports.record.samples import Part
from reports.record.schema import Search
from tests import samples as records
from tests import toy

COUNT = 6
LABELS = toy.samples(COUNT).labels
WRONG = (LABELS + 1) % toy.CLASSES
ALSO_WRONG = (LABELS + 2) % toy.CLASSES


def stages(framework: np.ndarray, converted: np.ndarray, served: np.ndarray) -> Stages:
    """Three stages by the classes they decide."""
    names = ("framework", "converted", "served")
    one, other, last = (
        Stage(name, {"classes": classes}, classes, requests=9)
        for name, classes in zip(names, (framework, converted, served), strict=True)
    )
    return one, other, last


def with_wrong(*items: int, wrong: np.ndarray = WRONG) -> np.ndarray:
    """The labels, with wrong ones at some places."""
    classes = LABELS.copy()
    classes[list(items)] = wrong[list(items)]
    return classes


def worst(case: Case, of: Samples, three: Stages, *, labelled: bool = True) -> list[tuple[int, str]]:
    return worst_items(case, of, three, item_scores(case, of, three, labelled=labelled))


# --- which are the worst -----------------------------------------------------------------------------------


def test_lost_samples_come_first_then_others_that_differ_then_low_scores() -> None:
    framework = with_wrong(0, 1)
    converted = with_wrong(0, 1, 2)
    served = with_wrong(0, 1, 2, 5)
    served[1] = ALSO_WRONG[1]

    found = worst(toy.case(), toy.samples(COUNT), stages(framework, converted, served))

    assert found == [
        (2, "converted scores worse than framework"),
        (5, "served scores worse than converted"),
        (1, "served decides differently from converted"),
        (0, "low top-1"),
    ]


def test_where_all_are_right_none_is_the_worst() -> None:
    assert worst(toy.case(), toy.samples(COUNT), stages(LABELS, LABELS, LABELS)) == []


def test_no_more_are_shown_than_asked_for() -> None:
    of, three = toy.samples(COUNT), stages(LABELS, LABELS, with_wrong(0, 1, 2))

    found = worst_items(toy.case(), of, three, item_scores(toy.case(), of, three), count=2)

    assert [item for item, _ in found] == [0, 1]


def test_where_lower_is_better_the_highest_are_the_worst() -> None:
    def error(kept: object, labels: np.ndarray, framework: object) -> np.ndarray:
        return np.array([0.1, 0.3, 0.2, 0.9, 0.1, 0.1])

    case = toy.case(toy.model(metrics=(toy.metric(name="MSE", score=error, limits={}, better="lower"),)))

    found = worst(case, toy.samples(COUNT), stages(LABELS, LABELS, LABELS))

    assert found == [(3, "high MSE"), (1, "high MSE")]


def test_without_labels_only_decisions_tell() -> None:
    of = dataclasses.replace(toy.samples(COUNT), labels=None)

    found = worst(toy.case(), of, stages(LABELS, LABELS, with_wrong(4)), labelled=False)

    assert found == [(4, "served decides differently from converted")]


def test_an_item_of_several_rows_is_one_sample() -> None:
    def score(kept: dict[str, np.ndarray], labels: np.ndarray, framework: object) -> np.ndarray:
        return (kept["classes"] == labels).reshape(-1, 2).min(axis=1).astype(float)

    of = dataclasses.replace(toy.samples(COUNT), items=np.array([0, 0, 1, 1, 2, 2]))
    case = toy.case(toy.model(metrics=(toy.metric(score=score),)))
    three = stages(LABELS, LABELS, with_wrong(3))

    found = samples_file(case, "d1", of, three, item_scores(case, of, three))

    assert found.ids == ["toy-000", "toy-002", "toy-004"]
    assert found.scores["top-1"]["served"] == [1, 0, 1]
    assert [one.id for one in found.worst] == ["toy-002"]


# --- the file ----------------------------------------------------------------------------------------------


def a_file(**changes: object) -> samples.Samples:
    """The samples of the sample record."""
    of = records.record()
    fields: dict[str, object] = {
        "case": of.case,
        "digest": of.build.digest,
        "ids": tuple(f"s{i}" for i in range(500)),
        "scores": {"top-1": dict.fromkeys(samples.STAGES, (1.0,) * 500)},
        "worst": (samples.Sample("s7", "low top-1", (Part("text", "Label", "class 3"),)),),
    }
    return samples.Samples(**(fields | changes))  # type: ignore[arg-type]


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    path = samples.path_of(records.record().case, tmp_path)

    samples.write(a_file(), path)

    assert samples.read(path) == a_file()
    assert path.name == "a40-resnet50-onnx-trt-fp16.samples.json"


def test_scores_are_short_so_that_a_large_data_set_is_a_small_file(tmp_path: Path) -> None:
    def third(kept: object, labels: np.ndarray, framework: object) -> np.ndarray:
        return np.full(5000, 1 / 3)

    case, of = toy.case(toy.model(metrics=(toy.metric(score=third),))), toy.samples(5000)
    three = stages(of.labels, of.labels, of.labels)
    path = tmp_path / "x.samples.json"

    samples.write(samples_file(case, "d1", of, three, item_scores(case, of, three)), path)

    assert path.stat().st_size < 45 * 5000
    assert samples.read(path).scores["top-1"]["served"][0] == 0.333333


def test_a_file_of_samples_is_no_record(tmp_path: Path) -> None:
    files.write(records.record(), files.path_of(records.record().case, tmp_path))
    samples.write(a_file(), samples.path_of(records.record().case, tmp_path))

    assert files.read_all(tmp_path) == [records.record()]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ids": ("only",)}, r"scores\.top-1\.framework: 500 scores for 1 samples"),
        ({"scores": {"top-1": {"guessed": (1.0,) * 500}}}, r"scores\.top-1\.guessed"),
        ({"schema": 99}, "schema is 99"),
    ],
)
def test_a_file_that_does_not_fit_together_names_the_key(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    path = tmp_path / "x.samples.json"
    samples.write(a_file(**change), path)

    with pytest.raises(files.RecordError, match=said):
        samples.read(path)


@pytest.mark.parametrize("change", [{"digest": "other"}, {"ids": (), "scores": {}}])
def test_samples_of_another_build_or_data_set_are_not_the_records(
    tmp_path: Path, change: dict[str, object]
) -> None:
    path = samples.path_of(records.record().case, tmp_path)
    samples.write(a_file(), path)
    assert samples.of_record(records.record(), tmp_path) == a_file()

    samples.write(a_file(**change), path)

    assert samples.of_record(records.record(), tmp_path) is None


def test_a_record_of_another_machine_takes_what_stands_beside_it_along(tmp_path: Path) -> None:
    old = records.record()
    path = files.path_of(old.case, tmp_path)
    files.write(old, path)
    samples.write(a_file(), samples.path_of(old.case, tmp_path))
    record_file.keep(path.with_suffix(files.CONFIG_SUFFIX), "name: 'old'")
    moved = dataclasses.replace(old, machine=dataclasses.replace(old.machine, cores=8))

    record_file.update(moved, tmp_path, lambda stored: stored)

    assert samples.of_record(moved, tmp_path) is None
    names = sorted(
        file.name.partition("-fp16-")[2].partition(".")[2] for file in (path.parent / "superseded").iterdir()
    )
    assert names == ["config.pbtxt", "json", "samples.json"]


def test_the_winner_of_a_search_has_samples_of_its_own(tmp_path: Path) -> None:
    found = records.record().loads[0]
    search = Search(
        10, "p99", records.record().deployment, found, "within", None, 1, 1, 1.0, "x", records.accuracy()
    )
    record = records.record(search=search)

    samples.write(a_file(), samples.path_of_search(record.case, tmp_path))

    assert samples.of_search(record, tmp_path) == a_file()
    assert samples.of_record(record, tmp_path) is None


# --- what they look like -----------------------------------------------------------------------------------


def picture(part: Part) -> np.ndarray:
    """The pixels of a picture, [height, width, 3]."""
    assert part.kind == "image"
    with Image.open(io.BytesIO(base64.b64decode(part.content))) as image:
        return np.asarray(image.convert("RGB"))


def texts(parts: Sequence[Part]) -> dict[str, str]:
    return {part.title: part.content for part in parts if part.kind == "text"}


def shown(
    model: Model, of: Samples, framework: dict[str, np.ndarray], served: dict[str, np.ndarray]
) -> Sequence[Part]:
    """What the model shows of its first sample."""
    assert model.show is not None
    return model.show(of, 0, framework, served)


def micro(models: Sequence[Model]) -> Model:
    return next(model for model in models if model.micro)


@pytest.mark.parametrize("family", [resnet50, resnet50_tf])
def test_a_digit_is_shown_with_its_label_and_both_answers(family: object) -> None:
    model = micro(family.MODELS)  # type: ignore[attr-defined]
    of = model.samples("evaluation", None, None)

    parts = shown(model, of, {"classes": np.array([3])}, {"classes": np.array([5])})

    assert texts(parts) == {"Label": f"class {of.labels[0]}", "Framework": "class 3", "Served": "class 5"}
    pixels = picture(parts[0])
    assert pixels.shape == (128, 128, 3)
    assert (pixels.min(), pixels.max()) == (0, 255), "the digit is black and white"


def test_a_volume_is_shown_where_the_masks_differ_most() -> None:
    model = micro(nnunet.MODELS)
    of = model.samples("evaluation", None, None)
    served = of.labels.copy()
    served[0, 9, 4:8, 4:8] = 2

    parts = shown(model, of, {"classes": of.labels}, {"classes": served})

    assert [part.title for part in parts[:3]] == [
        "Reference, slice 10 of 32",
        "Served, slice 10 of 32",
        "16 pixels differ",
    ]
    reference, answer, difference = map(picture, parts[:3])
    changed = (reference != answer).any(axis=2)
    assert changed[16:32, 16:32].all()
    assert changed.sum() == 16 * 16
    assert (difference[22, 22] - reference[22, 22].astype(int))[0] > 50, "the difference is red"


def test_a_question_is_shown_with_what_was_accepted_and_both_answers() -> None:
    model = micro(bert.MODELS)
    of = model.samples("evaluation", None, None)
    question, window = of.labels.questions[0], of.labels.windows[0]

    def pointing_at(word: int) -> dict[str, np.ndarray]:
        logits = np.zeros((len(of), 128), np.float32)
        logits[0, window.first + window.words.index(word)] = 9.0
        return dict(answers.best_positions(logits, logits))

    parts = texts(shown(model, of, pointing_at(2), pointing_at(3)))

    assert parts["Question"] == question.text
    assert parts["Accepted"] == "the silver ring | silver ring"
    assert (parts["Framework"], parts["Served"]) == ("in", "June")
    assert "the silver ring" in parts["Paragraph"]


def test_a_long_paragraph_is_cut_between_words() -> None:
    words = tuple(f"word{i}" for i in range(300))

    text = display.excerpt(words, ("word150",))

    assert text.startswith("… word")
    assert text.endswith(" …")
    assert {part in words for part in text.strip("… ").split()} == {True}


def test_an_utterance_is_shown_as_both_mels() -> None:
    model = micro(fastpitch.MODELS)
    of = model.samples("evaluation", None, None)
    frames = of.labels[0].shape[1]
    mels = np.zeros((len(of), 80, 128), np.float32)
    counts = np.full((len(of), 1), frames + 5)
    served = {fastpitch.MEL: mels, fastpitch.FRAME_COUNT: counts, fastpitch.DURATIONS: counts}

    parts = shown(model, of, served, served)

    assert [part.title for part in parts] == [
        "Text",
        f"Reference, {frames} frames",
        f"Served, {frames + 5} frames",
    ]
    assert texts(parts)["Text"].endswith((".", "?"))
    assert picture(parts[1]).shape == picture(parts[2]).shape


def test_every_model_shows_its_samples() -> None:
    for family in (resnet50, resnet50_tf, nnunet, bert, fastpitch):
        assert all(model.show is not None for model in family.MODELS)
