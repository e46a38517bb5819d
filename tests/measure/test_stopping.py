"""When a load point is done: rules on runs that are invented."""

import dataclasses

import numpy as np
import pytest

from fixtures.against.comparison import OtherBuild
from fixtures.measure import measured, stopping
from fixtures.measure.measured import Measured, PointState
from fixtures.measure.stopping import MeasuringPlan
from fixtures.spec import LoadPoint
from tests import toy

POINT = LoadPoint("online", 1, 4)
PATIENT = MeasuringPlan(budget_s=1000)


def side(*latencies_ms: float, elapsed_s: float = 0.5, length_s: float = 0.4) -> Measured:
    """A side with a pass for each latency."""
    found = Measured(toy.job(POINT))
    for latency_ms in latencies_ms:
        count = int(length_s * 1e3 / latency_ms) + 1
        timeline = toy.closed_loop(np.full((4, count), latency_ms / 1e3), length_s)
        found = measured.passed(found, toy.run_of(timeline, elapsed_s=elapsed_s))
    return found


def is_known(found: Measured, plan: MeasuringPlan = PATIENT) -> bool:
    return stopping.until_known(plan)(PointState(found))


def test_a_point_is_done_when_its_interval_is_narrow_but_not_before_six_passes() -> None:
    assert not is_known(side(*[10] * 5))
    assert is_known(side(*[10] * 6))
    assert not is_known(side(*[10, 14] * 3))
    assert is_known(side(*[10, 14] * 3), dataclasses.replace(PATIENT, precision_target=0.5))


def test_a_p99_needs_a_hundred_requests() -> None:
    assert not is_known(side(*[10] * 6, length_s=0.05))
    assert is_known(side(*[10] * 12, length_s=0.06))


@pytest.mark.parametrize(("budget_s", "done"), [(3.0, True), (3.2, True), (3.3, False), (9.0, False)])
def test_a_point_that_varies_is_done_when_half_a_pass_more_would_be_beyond_the_budget(
    budget_s: float, done: bool
) -> None:
    assert is_known(side(*[10, 14] * 3), MeasuringPlan(budget_s=budget_s)) is done


def test_three_passes_are_taken_however_long_they_take() -> None:
    hasty = MeasuringPlan(budget_s=1)
    assert not is_known(side(*[10, 14], elapsed_s=100), hasty)
    assert is_known(side(*[10, 14, 10], elapsed_s=100), hasty)


def test_a_proof_spends_all_of_its_budget_however_narrow_the_interval() -> None:
    done = stopping.until_spent(6.0)
    assert not done(PointState(side(*[10] * 10)))
    assert done(PointState(side(*[10] * 12)))
    assert not done(PointState(side(*[10] * 2, elapsed_s=100)))


def pair(count: int, theirs_ms: float, elapsed_s: float = 0.5) -> PointState:
    """As many pairs, of 10 ms and of so many."""
    wobble = [1.0, 1.01] * count
    mine = side(*[10 * factor for factor in wobble[:count]], elapsed_s=elapsed_s)
    theirs = side(*[theirs_ms * factor for factor in wobble[1 : count + 1]], elapsed_s=elapsed_s)
    return PointState(mine, theirs, OtherBuild("HEAD~1", 0.03))


def test_a_comparison_is_done_when_it_is_settled_whichever_way() -> None:
    done = stopping.until_known(PATIENT)
    assert [done(pair(8, 10)), done(pair(16, 8)), done(pair(16, 9.7))] == [True, True, False]
    assert not done(pair(7, 8)), "looks are few"


def test_a_comparison_has_one_budget_for_both_and_six_pairs_at_least() -> None:
    assert stopping.until_known(MeasuringPlan(budget_s=6))(pair(6, 9.7))
    assert not stopping.until_known(MeasuringPlan(budget_s=7))(pair(6, 9.7))
    assert not stopping.until_known(MeasuringPlan(budget_s=1))(pair(5, 9.7, elapsed_s=100))


@pytest.mark.parametrize(
    ("latencies_ms", "settled"),
    [((10,), False), ((10, 10), True), ((30, 10), False), ((30, 10, 10), True), ((2000,), True)],
)
def test_a_server_is_warm_when_it_does_not_get_faster_any_more(
    latencies_ms: tuple[float, ...], settled: bool
) -> None:
    found = Measured(toy.job(POINT))
    for latency_ms in latencies_ms:
        timeline = toy.closed_loop(np.full((4, 40), latency_ms / 1e3), 40 * latency_ms / 1e3)
        found = measured.warmed(found, toy.run_of(timeline))
    assert stopping.is_warmed_up(found) is settled


@pytest.mark.parametrize(
    ("rate_per_s", "seconds"),
    [(None, 1 * (3 * 0.6 + 0.1)), (400.0, 2 * (3 * 0.6 + 0.1))],
    ids=["all of a pass counts", "by a schedule its first quarter does not"],
)
def test_how_long_it_takes_to_certify_is_told_in_whole_passes(
    rate_per_s: float | None, seconds: float
) -> None:
    """Four clients at a server of 10 ms are answered 400 times a second, so that 662 requests take two seconds."""
    point = LoadPoint("online", 1, 0 if rate_per_s else 4, rate_per_s, "constant" if rate_per_s else None)
    warm_up = toy.run_of(toy.closed_loop(np.full((4, 40), 0.01), 0.4), next_window_s=0.6)
    job = dataclasses.replace(toy.job(POINT), point=point)
    found = measured.warmed(Measured(toy.job(POINT)), warm_up)
    found = dataclasses.replace(found, job=job, window_s=0.6)
    plan = MeasuringPlan(certify=99)

    one = stopping.seconds_to_certify(PointState(found), plan)

    assert one == pytest.approx(seconds)
    both = PointState(found, found, OtherBuild("HEAD~1", 0.03))
    assert stopping.seconds_to_certify(both, plan) == pytest.approx(2 * seconds)
    assert stopping.seconds_to_certify(PointState(found), MeasuringPlan()) == 0.0


def test_what_was_measured_counts_toward_what_is_certified() -> None:
    plan = MeasuringPlan(certify=99)

    assert stopping.requests_missing(Measured(toy.job(POINT)), plan) == 662
    some = side(*[10] * 3)
    had = sum(len(part.latencies_ms) for part in some.steady)
    assert stopping.requests_missing(some, plan) == 662 - had > 0
    assert stopping.requests_missing(side(*[10] * 8), plan) == 0


def test_a_point_to_be_certified_is_given_up_only_where_its_budget_is_a_bound() -> None:
    few = side(*[10] * 6, length_s=0.1)

    def done(budget_s: float, *, beyond: bool) -> bool:
        return is_known(few, MeasuringPlan(budget_s=budget_s, certify=99, beyond_budget=beyond))

    assert not done(1.0, beyond=True)
    assert done(1.0, beyond=False)
    assert not done(1000.0, beyond=False)
    assert is_known(side(*[10] * 8), MeasuringPlan(budget_s=1000.0, certify=99)), "by then it is certified"
