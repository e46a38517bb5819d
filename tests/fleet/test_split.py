"""A split loses nothing, doubles nothing, is the same everywhere, and its shards take about equally long."""

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
    return [name for shard in shards for case in shard for name in case.items]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_test_is_in_exactly_one_shard_with_all_of_its_case(seed: int) -> None:
    cases = some_cases(seed)
    for count in (1, 2, 3, 7, len(cases) + 3):
        shards = split(cases, count)
        assert len(shards) == count
        assert Counter(map(str, (case for shard in shards for case in shard))) == Counter(map(str, cases))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_split_is_the_same_whatever_the_order_in_which_the_cases_come(seed: int) -> None:
    cases = some_cases(seed)
    shuffled = random.Random(seed + 1).sample(cases, len(cases))
    for count in (2, 5):
        first, second = split(cases, count), split(shuffled, count)
        assert [set(names_in([one])) for one in first] == [set(names_in([one])) for one in second]
        assert digest(first) == digest(second)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_shard_takes_longer_than_the_mean_and_one_case(seed: int) -> None:
    """What any list of jobs dealt to the machine that is done first keeps (Graham, 1966)."""
    cases = some_cases(seed)
    for count in (2, 3, 8) if cases else ():
        longest = max(sum_s(shard) for shard in split(cases, count))
        fair = sum_s(cases) / count
        assert longest <= max(1.05 * fair, fair + max(case.expected_s for case in cases)) + 1e-6


def test_the_cases_of_a_model_stay_together_where_that_takes_no_longer() -> None:
    cases = [
        Group("cpu", model, (f"{model}{number}",), 10.0)
        for model in ("bert", "fastpitch", "nnunet", "resnet50")
        for number in range(3)
    ]
    for shard in split(cases, 2):
        assert len(shard) == 6
        assert len({case.model for case in shard}) == 2


def test_a_model_is_not_divided_for_a_gain_of_less_than_loading_it_twice_costs() -> None:
    cases = [
        Group("cpu", model, (f"{model}{number}",), seconds)
        for model, seconds in (("bert", 52.0), ("nnunet", 50.0))
        for number in range(2)
    ]
    assert [{case.model for case in shard} for shard in split(cases, 2)] == [{"bert"}, {"nnunet"}]


def test_a_model_that_is_longer_than_a_shard_is_divided() -> None:
    cases = [Group("cpu", "resnet50", (f"case{number}",), 10.0) for number in range(9)]
    assert [len(shard) for shard in split(cases, 3)] == [3, 3, 3]


def test_another_selection_and_another_number_of_shards_have_another_digest() -> None:
    cases = [Group("cpu", "resnet50", (f"case{number}",), 10.0) for number in range(9)]
    digests = [digest(split(some, count)) for some in (cases, cases[1:]) for count in (2, 3, 20)]
    assert len(set(digests)) == len(digests)
