"""The file of scores per sample, and the choice of samples that a reader sees."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from fixtures.accuracy.ledger import score_each_sample
from fixtures.accuracy.per_sample import items_to_inspect
from fixtures.accuracy.stages import Stage, Stages
from fixtures.spec import Case, Samples
from reports.record import files, per_sample
from reports.record.per_sample import Part
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
    return items_to_inspect(case, of, three, score_each_sample(case, of, three, labelled=labelled))


def error(_kept: object, _labels: np.ndarray, _framework: object) -> np.ndarray:
    return np.array([0.1, 0.3, 0.2, 0.9, 0.1, 0.1])


BY_ERROR = toy.case(toy.model(metrics=(toy.metric(name="MSE", score=error, limits={}, better="lower"),)))


def test_worst_samples_are_ordered_lost_changed_low() -> None:
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


@pytest.mark.parametrize(
    ("one", "served", "labelled", "items"),
    [
        (toy.case(), LABELS, True, []),
        (BY_ERROR, LABELS, True, [3, 1]),
        (toy.case(), with_wrong(4), False, [4]),
        (toy.case(), with_wrong(*range(COUNT)), True, [0, 1, 2, 3, 4]),
    ],
    ids=[
        "all are right",
        "where lower is better the highest",
        "without labels decisions tell",
        "five at most",
    ],
)
def test_worst_samples_are_listed(one: Case, served: np.ndarray, labelled: bool, items: list[int]) -> None:
    of = toy.samples(COUNT) if labelled else dataclasses.replace(toy.samples(COUNT), labels=None)

    found = worst(one, of, stages(LABELS, LABELS, served), labelled=labelled)

    assert [item for item, _why in found] == items


def a_file(**changes: object) -> per_sample.SampleScores:
    """The samples of the sample record."""
    of = records.record()
    fields: dict[str, object] = {
        "case": of.case,
        "digest": of.build.digest,
        "ids": tuple(f"s{i}" for i in range(500)),
        "scores": {"top-1": dict.fromkeys(per_sample.STAGES, (1.0,) * 500)},
        "worst": (per_sample.Sample("s7", "low top-1", (Part("text", "Label", "class 3"),)),),
    }
    return per_sample.SampleScores(**(fields | changes))  # type: ignore[arg-type]


def test_samples_file_round_trips(tmp_path: Path) -> None:
    path = per_sample.path_of(records.record().case, tmp_path)

    per_sample.write(a_file(), path)

    assert per_sample.read(path) == a_file()
    assert path.name == "a40-resnet50-onnx-trt-fp16.samples.json"
    files.write(records.record(), files.path_of(records.record().case, tmp_path))
    assert files.read_all(tmp_path) == [records.record()], "a file of samples is no record"


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"ids": ("only",)}, "scores.top-1.framework"),
        ({"scores": {"top-1": {"guessed": (1.0,) * 500}}}, "scores.top-1.guessed"),
        ({"schema": 99}, "schema"),
    ],
)
def test_inconsistent_samples_file_names_the_key(tmp_path: Path, change: dict[str, object], key: str) -> None:
    path = tmp_path / "x.samples.json"
    per_sample.write(a_file(**change), path)

    with pytest.raises(files.RecordError, check=lambda error: key in str(error)):
        per_sample.read(path)


@pytest.mark.parametrize("change", [{"digest": "other"}, {"ids": (), "scores": {}}])
def test_samples_of_another_build_or_dataset_are_ignored(tmp_path: Path, change: dict[str, object]) -> None:
    path = per_sample.path_of(records.record().case, tmp_path)
    per_sample.write(a_file(), path)
    assert per_sample.of_record(records.record(), tmp_path) == a_file()

    per_sample.write(a_file(**change), path)

    assert per_sample.of_record(records.record(), tmp_path) is None


def test_search_winner_has_own_samples_file(tmp_path: Path) -> None:
    found = records.record().loads[0]
    search = Search(
        10, "p99", records.record().deployment, found, "within", None, 1, 1, 1.0, "x", records.accuracy()
    )
    record = records.record(search=search)

    per_sample.write(a_file(), per_sample.path_of_search(record.case, tmp_path))

    assert per_sample.of_search(record, tmp_path) == a_file()
    assert per_sample.of_record(record, tmp_path) is None
