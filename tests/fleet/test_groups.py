"""The closest earlier records give expected durations; shards are disjoint, complete and reproducible."""

import random
from collections import Counter
from pathlib import Path

import pytest
from msgspec import structs

from fixtures.fleet.groups import Group, digest, earlier_durations, expected_seconds, groups_of, split, sum_s
from fixtures.plugin.selection import as_grouped
from reports.record import files
from reports.record.schema import Case
from tests import examples
from tests.helpers import Collect

ONNX = Case("a40", "resnet50", "onnx", None, "fp16")
TRT = structs.replace(ONNX, format="trt")
MICRO = structs.replace(TRT, model="resnet50-micro")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Records of three cases, and a file that is not a record."""
    for case, seconds in ((ONNX, 30.0), (TRT, 10.0), (MICRO, 1.0)):
        record = examples.record(case=case, stage_seconds={"offline": seconds})
        files.write(record, files.path_of(case, tmp_path))
    (tmp_path / "a40" / "a40-bert-dist4l-trt-fp16.json").write_text("{")
    return tmp_path


@pytest.mark.parametrize(
    ("key", "seconds"),
    [
        (ONNX, 30.0),
        (TRT, 10.0),
        (structs.replace(TRT, precision="fp32"), 20.0),  # of the same model
        (structs.replace(TRT, model="bert-dist4l"), 20.0),  # of other models of its size
        (structs.replace(TRT, target="t4"), 20.0),  # of other hardware
        (structs.replace(MICRO, model="nnunet-micro"), 1.0),
    ],
)
def test_expected_seconds_come_from_closest_records(results: Path, key: Case, seconds: float) -> None:
    assert expected_seconds("offline", key, earlier_durations(results)) == seconds


def test_groups_are_models_with_longest_first(collect: Collect) -> None:
    collected = collect("--target", "cpu")
    groups = groups_of(as_grouped(collected.selected), {}, by="model")

    assert len(groups) == len({group.model for group in groups}) > 1
    assert [group.expected_s for group in groups] == sorted(
        (group.expected_s for group in groups), reverse=True
    )
    assert {test for group in groups for test in group.tests} == {item.nodeid for item in collected.selected}
    for group in groups:
        assert all(f"[cpu-{group.model}-" in test for test in group.tests)


def test_conversion_counts_once_per_case(tmp_path: Path, collect: Collect) -> None:
    tests = as_grouped(collect("--target", "cpu", "-k", "resnet50-micro and onnx and fp32").selected)
    case = Case("cpu", "resnet50-micro", "onnx", None, "fp32")
    seconds = {test.stage: 1.0 for test in tests if test.stage}
    build = structs.replace(examples.record().build, build_time_s=1000.0)
    record = examples.record(case=case, build=build, stage_seconds=seconds)
    files.write(record, files.path_of(case, tmp_path))

    (group,) = groups_of(tests, earlier_durations(tmp_path), by="case")
    assert group.expected_s == 1000.0 + len(tests)


SEEDS = range(15)


def some_cases(seed: int, *, most: int = 60) -> list[Group]:
    """Cases of up to a dozen models, which take a second to ten minutes; many of them equally long."""
    chance = random.Random(seed)
    models = chance.randint(1, 12)
    return [
        Group(
            f"gpu{chance.randint(1, 3)}",
            f"model{chance.randrange(models)}",
            tuple(f"test_{test}[case{number}]" for test in range(chance.randint(1, 6))),
            chance.choice([7.0, 7.0, chance.uniform(1, 600)]),
        )
        for number in range(chance.randint(0, most))
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_shards_are_complete_disjoint_and_balanced(seed: int) -> None:
    """Jobs that each go to the first free machine take no longer than the mean and one job (Graham, 1966)."""
    cases = some_cases(seed)
    shuffled = random.Random(seed + 1).sample(cases, len(cases))
    for count in (1, 2, 3, 8, len(cases) + 3):
        shards, again = split(cases, count), split(shuffled, count)
        assert len(shards) == count
        assert Counter(map(str, (case for shard in shards for case in shard))) == Counter(map(str, cases))
        assert [set(shard) for shard in shards] == [set(shard) for shard in again]
        assert digest(shards) == digest(again)
        fair = sum_s(cases) / count
        longest = max([case.expected_s for case in cases], default=0.0)
        assert max(map(sum_s, shards)) <= max(1.05 * fair, fair + longest) + 1e-6


@pytest.mark.parametrize(
    "models",
    [{"bert": 10.0, "fastpitch": 10.0, "nnunet": 10.0, "resnet50": 10.0}, {"bert": 52.0, "nnunet": 50.0}],
    ids=["all alike", "a small gain"],
)
def test_cases_of_a_model_stay_together(models: dict[str, float]) -> None:
    cases = [
        Group("cpu", model, (f"{model}{number}",), seconds)
        for model, seconds in models.items()
        for number in range(3)
    ]
    of_shards = [{case.model for case in shard} for shard in split(cases, 2)]
    assert [len(shard) for shard in of_shards] == [len(models) / 2] * 2


def test_digest_depends_on_selection_and_shard_count() -> None:
    cases = [Group("cpu", "resnet50", (f"case{number}",), 10.0) for number in range(9)]
    digests = [digest(split(selection, count)) for selection in (cases, cases[1:]) for count in (2, 3, 20)]
    assert len(set(digests)) == len(digests)
