"""Candidates of the search, and the next load to try."""

import dataclasses
import itertools

import numpy as np
import pytest

from fixtures.measure.timeline import Steady
from fixtures.search import candidates, proof
from fixtures.search.candidates import Goal, Space
from reports.record.schema import Estimate
from tests.search.proven import OWN, SPACE


@pytest.mark.parametrize("most", [1, 4, 8, 32, 128, 256])
def test_ladder_sizes_grow_by_at_most_an_eighth(most: int) -> None:
    sizes = candidates.ladder_sizes(most)

    assert sizes[0] == 1
    assert sizes[-1] == most
    assert all(one < other for one, other in itertools.pairwise(sizes))
    assert all(other <= 1.125 * one for one, other in itertools.pairwise(sizes[8:]))
    assert {2**n for n in range(9) if 2**n <= most} <= set(sizes)


def test_instances_are_limited_by_cores_and_device() -> None:
    counts = {
        cores: candidates.instance_counts(dataclasses.replace(SPACE, cores=cores)) for cores in (1, 2, 64)
    }
    assert counts == {1: [1], 2: [1, 2], 64: [1, 2, 4]}
    assert candidates.instance_counts(Space(OWN, "cuda", 1)) == [1, 2, 4]


@pytest.mark.parametrize(
    ("budget_ms", "delays_us"),
    [(0.05, [12]), (0.5, [100, 125]), (2, [100, 500]), (80, [100, 10_000])],
)
def test_queue_delays_are_below_budget(budget_ms: float, delays_us: list[int]) -> None:
    assert candidates.queue_delays(Goal(budget_ms, 99)) == delays_us


def test_user_settings_are_kept() -> None:
    held = Space(
        OWN, "cpu", 2, frozenset({"instances", "max_queue_delay_us"}), batches=(1,), concurrencies=(4, 8)
    )
    every = [*candidates.basic_candidates(held, Goal(7, 99)), *candidates.variations(held, Goal(7, 99), 1)]

    assert {one.deployment.instances for one in every} == {1}
    assert {one.deployment.max_queue_delay_us for one in every} == {1_000}
    assert {point.batch for one in every for point in one.ladder} == {1}
    assert {p.concurrency for one in every if one.scenario == "online" for p in one.ladder} == {4, 8}


@pytest.mark.parametrize(
    ("low", "value", "high", "verdict"),
    [(5, 6, 7, "passed"), (5, 6, 7.1, "not shown"), (6, 7.1, 8, "failed"), (7, 7, 7, "passed")],
)
def test_verdict_follows_the_interval(low: float, value: float, high: float, verdict: str) -> None:
    assert proof.verdict_of(Estimate(value, low, high), [], Goal(7, 99)) == verdict


@pytest.mark.parametrize(("requests", "verdict"), [(600, "not shown"), (700, "passed")])
def test_requests_certify_an_open_interval(requests: int, verdict: str) -> None:
    parts = [Steady(100.0, 1.0, np.full(requests, 6.0))]
    assert proof.verdict_of(Estimate(6, 6, 6, open_above=True), parts, Goal(7, 99)) == verdict
