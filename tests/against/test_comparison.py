"""Two simulated builds are compared in turns until the result is settled."""

import itertools
import math

import numpy as np
import pytest

from fixtures.against.comparison import OtherBuild
from fixtures.errors import ProofError
from fixtures.measure import point_state, sweep
from fixtures.measure.job import Job
from fixtures.measure.measurement import Measurement, Outcome, outcomes
from fixtures.measure.stopping import MeasuringPlan
from fixtures.spec import LoadPoint
from reports.record.schema import Comparison, VerifiedAnswers
from tests import toy
from tests.toy import LoadGenerator

OTHER = OtherBuild("HEAD~1", 0.03)

# --- taking pairs ------------------------------------------------------------------------------------------


def in_pairs(
    theirs_ms: float = 20.0, plan: MeasuringPlan | None = None, elapsed_s: float = 0.3
) -> tuple[Outcome, LoadGenerator]:
    """A build of 20 ms per request beside another, until that is settled; neither is a real one."""
    # Of each build its own, since which of a pair comes first is chance.
    generators = {name: np.random.default_rng(seed) for seed, name in enumerate(("mine", "theirs"))}

    def mean_ms(job: Job, _number: int) -> float:
        if math.isnan(theirs_ms) and job.name == "theirs":
            raise ProofError("Triton does not answer any more")
        return (theirs_ms if job.name == "theirs" else 20.0) * math.exp(generators[job.name].normal(0, 0.01))

    load = LoadGenerator(mean_ms, changes=lambda _job, _number: {"elapsed_s": elapsed_s})
    job = toy.job(LoadPoint("offline", 1, 1), "mine")
    state = point_state.with_other_build(point_state.begin(job), job.server, "theirs", OTHER)
    plan = plan or MeasuringPlan(budget_s=60)
    return outcomes(sweep.measure([state], plan, take=load.take), plan)[job.point], load


def compared(outcome: Outcome) -> Comparison:
    assert isinstance(outcome, Measurement)
    assert outcome.load.comparison is not None
    return outcome.load.comparison


def test_pairs_are_taken_until_settled() -> None:
    one = compared(in_pairs()[0])
    assert (one.verdict, one.passes, one.method) == ("not slower", 8, "interleaved")


def test_order_within_a_pair_is_random() -> None:
    _, load = in_pairs(20 * 0.97, MeasuringPlan(budget_s=30))
    names = [name for name, _, _ in load.calls]
    pairs = {tuple(names[place : place + 2]) for place in range(0, len(names), 2)}
    assert len(names) >= 80
    assert pairs == {("mine", "theirs"), ("theirs", "mine")}


def test_both_builds_of_a_pair_share_windows() -> None:
    _, load = in_pairs(80.0)
    counted = {window_s for _, _, window_s in load.calls[-16:]}
    assert len(counted) == 1, "both have windows that are long enough for the slower one"


def test_slowdown_against_other_build_is_found() -> None:
    one = compared(in_pairs(18.0)[0])
    assert one.verdict == "slower"
    assert one.ratio.value == pytest.approx(0.9, rel=0.02)
    assert one.reference == "HEAD~1"


def test_spent_budget_reports_remaining_seconds() -> None:
    one = compared(in_pairs(20 * 0.97, MeasuringPlan(budget_s=7.0))[0])
    assert one.verdict == "not shown"
    assert one.passes == 12  # of 0.6 s each
    assert one.seconds_to_settle is not None
    assert one.seconds_to_settle > 0


def test_at_least_six_pairs_are_measured() -> None:
    assert compared(in_pairs(plan=MeasuringPlan(budget_s=1.0), elapsed_s=100.0)[0]).passes == 6


def by_load(pairs_of_a_load: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Comparison, list[str]]:
    """A build beside its copy, faster or slower by 6 % in turn each time it is loaded; the calls in order."""
    monkeypatch.setattr(sweep, "PAIRS_OF_A_LOAD", pairs_of_a_load)
    noise, effects, calls = np.random.default_rng(3), itertools.cycle((1.06, 1 / 1.06)), []
    effect = 1.0

    def load_anew() -> None:
        nonlocal effect
        effect = next(effects)
        calls.append("load")

    def mean_ms(job: Job, _number: int) -> float:
        calls.append(job.name)
        return 20.0 * math.exp(noise.normal(0, 0.005)) * (effect if job.name == "mine" else 1.0)

    job = toy.job(LoadPoint("offline", 1, 1), "mine")
    state = point_state.with_other_build(point_state.begin(job), job.server, "theirs", OTHER)
    plan, take = MeasuringPlan(budget_s=600), LoadGenerator(mean_ms).take
    states = sweep.measure([state], plan, take=take, load_anew=load_anew, clock=lambda: 0.0)
    return compared(outcomes(states, plan)[job.point]), calls


def test_speed_of_one_load_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    anew, calls = by_load(8, monkeypatch)
    assert anew.verdict == "not slower"
    assert calls[0] == "load"
    assert calls.count("load") == anew.passes // 8
    assert by_load(1000, monkeypatch)[0].verdict == "slower", (
        "with one loading the 6 % of chance look like a slow-down"
    )


def test_wrong_answer_of_an_earlier_load_stays_on_record() -> None:
    """The first run of a point is the one that is always verified: it warms up the first load."""
    wrong = VerifiedAnswers(9, 1, 9, 0.1)
    load = LoadGenerator(
        lambda _job, _number: 20.0, changes=lambda _job, number: {} if number else {"answers": wrong}
    )
    job = toy.job(LoadPoint("offline", 1, 1), "mine")
    state = point_state.with_other_build(point_state.begin(job), job.server, "theirs", OTHER)
    plan = MeasuringPlan(budget_s=600)
    states = sweep.measure(
        [state],
        plan,
        is_done=lambda one: len(one.mine.passes) > sweep.PAIRS_OF_A_LOAD,
        take=load.take,
        load_anew=lambda: None,
        clock=lambda: 0.0,
    )
    outcome = outcomes(states, plan)[job.point]
    assert isinstance(outcome, Measurement)
    assert outcome.load.answers == wrong


def test_failing_other_build_is_an_error_of_the_point() -> None:
    outcome, _ = in_pairs(math.nan)
    assert isinstance(outcome, ProofError)


# --- in words ----------------------------------------------------------------------------------------------
