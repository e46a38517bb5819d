"""Candidates of the search, and its finalists."""

import dataclasses
import itertools

import pytest
from msgspec import structs

from tests.search.queueing import OWN, SPACE
from tritonproof.base.errors import AccuracyError, ProofError
from tritonproof.search import candidates, fastest
from tritonproof.search.candidates import SearchGoal, SearchSpace


@pytest.mark.parametrize("most", [1, 8, 32, 256])
def test_numbers_grow_by_at_most_an_eighth(most: int) -> None:
    numbers = candidates.numbers_up_to(most)
    assert (numbers[0], numbers[-1]) == (1, most)
    assert all(number < following for number, following in itertools.pairwise(numbers))
    assert all(following <= 1.125 * number for number, following in itertools.pairwise(numbers[8:]))
    assert {2**n for n in range(9) if 2**n <= most} <= set(numbers)


def test_instances_are_limited_by_cores_and_device() -> None:
    for cores, counts in {1: [1], 2: [1, 2], 64: [1, 2, 4]}.items():
        assert candidates.instance_counts(dataclasses.replace(SPACE, cores=cores)) == counts
    assert candidates.instance_counts(SearchSpace(OWN, "cuda", 1)) == [1, 2, 4]


def test_wrong_answers_outrank_other_errors_if_nothing_can_be_measured() -> None:
    goal = SearchGoal(7, 99)
    errors = ProofError("it does not load"), AccuracyError("wrong"), ProofError("no pass")
    first = candidates.basic_candidates(SPACE, goal)[0]
    with pytest.raises(AccuracyError):
        fastest.finalists([dataclasses.replace(first, error=error) for error in errors], goal, 2)


def test_every_gpu_is_loaded() -> None:
    space = SearchSpace(structs.replace(OWN, max_batch_size=8), "cuda", 2, 4, frozenset({"instances"}))
    ladders = [each.ladder for each in candidates.basic_candidates(space, SearchGoal(7, 99))]
    assert [ladder[-1].concurrency for ladder in ladders] == [4, 8, 128, 128]


@pytest.mark.parametrize(
    ("budget_ms", "delays_us"), [(0.05, [12]), (0.5, [100, 125]), (2, [100, 500]), (80, [100, 10_000])]
)
def test_queue_delays_are_below_budget(budget_ms: float, delays_us: list[int]) -> None:
    proposals = candidates.variations(SPACE, SearchGoal(budget_ms, 99), 1)
    assert sorted({proposal.variant.deployment.max_queue_delay_us for proposal in proposals}) == delays_us


def test_user_settings_are_kept() -> None:
    fixed = frozenset({"instances", "max_queue_delay_us"})
    space = SearchSpace(OWN, "cpu", 2, 1, fixed, batches=(1, 64), concurrencies=(4, 8))
    basic = candidates.basic_candidates(space, SearchGoal(7, 99))
    proposals = [*basic, *candidates.variations(space, SearchGoal(7, 99), 1)]

    assert {proposal.variant.deployment.instances for proposal in proposals} == {1}
    assert {proposal.variant.deployment.max_queue_delay_us for proposal in proposals} == {1_000}
    assert {point.batch for proposal in proposals for point in proposal.ladder} == {1}
    ladders = [proposal.ladder for proposal in proposals if proposal.variant.scenario == "online"]
    assert {result.concurrency for ladder in ladders for result in ladder} == {4, 8}
    assert len(candidates.basic_candidates(space, SearchGoal(7, 99, "poisson"))[0].ladder) > 2
