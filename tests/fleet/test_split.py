"""Shards are disjoint, complete, reproducible and of about equal duration."""

import random
from collections import Counter

import pytest

from fixtures.fleet.groups import Group
from fixtures.fleet.split import digest, split, sum_s

SEEDS = range(40)


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


def names_in(shards: list[list[Group]]) -> list[str]:
    return [name for shard in shards for case in shard for name in case.tests]


@pytest.mark.parametrize("seed", SEEDS)
def test_shards_are_complete_disjoint_and_balanced(seed: int) -> None:
    """A list of jobs that are dealt to the machine that is done first takes no longer than the mean and one
    job (Graham, 1966)."""
    cases = some_cases(seed)
    shuffled = random.Random(seed + 1).sample(cases, len(cases))
    for count in (1, 2, 3, 8, len(cases) + 3):
        shards, again = split(cases, count), split(shuffled, count)
        assert len(shards) == count
        assert Counter(map(str, (case for shard in shards for case in shard))) == Counter(map(str, cases))
        assert [set(names_in([one])) for one in shards] == [set(names_in([one])) for one in again]
        assert digest(shards) == digest(again)
        fair = sum_s(cases) / count
        longest = max([case.expected_s for case in cases], default=0.0)
        assert max(map(sum_s, shards)) <= max(1.05 * fair, fair + longest) + 1e-6


def test_cases_of_a_model_stay_together() -> None:
    cases = [
        Group("cpu", model, (f"{model}{number}",), 10.0)
        for model in ("bert", "fastpitch", "nnunet", "resnet50")
        for number in range(3)
    ]
    for shard in split(cases, 2):
        assert len(shard) == 6
        assert len({case.model for case in shard}) == 2


def test_model_is_not_split_for_a_small_gain() -> None:
    cases = [
        Group("cpu", model, (f"{model}{number}",), seconds)
        for model, seconds in (("bert", 52.0), ("nnunet", 50.0))
        for number in range(2)
    ]
    assert [{case.model for case in shard} for shard in split(cases, 2)] == [{"bert"}, {"nnunet"}]


def test_digest_depends_on_selection_and_shard_count() -> None:
    cases = [Group("cpu", "resnet50", (f"case{number}",), 10.0) for number in range(9)]
    digests = [digest(split(some, count)) for some in (cases, cases[1:]) for count in (2, 3, 20)]
    assert len(set(digests)) == len(digests)
