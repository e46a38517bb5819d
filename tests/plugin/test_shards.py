"""Groups are the models of a target; shards are disjoint, complete, balanced and reproducible."""

import random
from collections import Counter

import pytest

from fixtures.items import CaseGroup, case_by_test_id, groups_of, split
from tests.helpers import Collect


def test_groups_are_models_with_largest_first(collect: Collect) -> None:
    collected = collect("--target", "cpu")
    groups = groups_of(case_by_test_id(collected.selected), by="model")

    assert len(groups) == len({group.model for group in groups}) > 1
    counts = [len(group.tests) for group in groups]
    assert counts == sorted(counts, reverse=True)
    assert {test for group in groups for test in group.tests} == {item.nodeid for item in collected.selected}
    for group in groups:
        assert all(f"[cpu-{group.model}-" in test for test in group.tests)


def some_cases(seed: int, *, most: int = 60) -> list[CaseGroup]:
    """Cases of up to a dozen models, with one to forty tests; many of them equally many."""
    chance = random.Random(seed)
    models = chance.randint(1, 12)
    return [
        CaseGroup(
            f"gpu{chance.randint(1, 3)}",
            f"model{chance.randrange(models)}",
            tuple(
                f"test_{test}[case{number}]" for test in range(chance.choice([7, 7, chance.randint(1, 40)]))
            ),
        )
        for number in range(chance.randint(0, most))
    ]


def count_of(shard: list[CaseGroup]) -> int:
    return sum(len(case.tests) for case in shard)


@pytest.mark.parametrize("seed", range(15))
def test_shards_are_complete_disjoint_and_balanced(seed: int) -> None:
    """Jobs that each go to the first free machine take no longer than the mean and one job (Graham, 1966)."""
    cases = some_cases(seed)
    shuffled = random.Random(seed + 1).sample(cases, len(cases))
    for count in (1, 2, 3, 8, len(cases) + 3):
        shards, again = split(cases, count), split(shuffled, count)
        assert len(shards) == count
        assert Counter(map(str, (case for shard in shards for case in shard))) == Counter(map(str, cases))
        assert shards == again, "the same on every machine"
        fair = count_of(cases) / count
        largest = max([len(case.tests) for case in cases], default=0)
        assert max(map(count_of, shards)) <= max(1.05 * fair, fair + largest)


@pytest.mark.parametrize(
    "models",
    [{"bert": 10, "fastpitch": 10, "nnunet": 10, "resnet50": 10}, {"bert": 52, "nnunet": 50}],
    ids=["all alike", "a small gain"],
)
def test_cases_of_a_model_stay_together(models: dict[str, int]) -> None:
    cases = [
        CaseGroup("cpu", model, tuple(f"{model}{number}-{test}" for test in range(tests)))
        for model, tests in models.items()
        for number in range(3)
    ]
    of_shards = [{case.model for case in shard} for shard in split(cases, 2)]
    assert [len(shard) for shard in of_shards] == [len(models) / 2] * 2
