"""Load points measured in turns: in which order, for how long, and what is kept of each. No server is needed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from fixtures.errors import ProofError
from fixtures.host.cpu import CpuTime
from fixtures.measure import estimates, measured, stopping, sweep
from fixtures.measure.job import Job
from fixtures.measure.stopping import MeasuringPlan
from fixtures.measure.sweep import Progress
from fixtures.measure.to_record import Measurement, Outcome, components, outcomes
from fixtures.run.sweeping import progress_text
from fixtures.spec import LoadPoint
from reports.record import schema
from reports.record.schema import Load
from tests import samples, toy
from tests.toy import LATENCY_MS, LoadGenerator

ONLINE = LoadPoint("online", 1, 4)
POINTS = tuple(LoadPoint("offline", batch, 1) for batch in (1, 2, 4))
QUICK = MeasuringPlan(budget_s=0.001)


def run(
    generator: LoadGenerator, *points: LoadPoint, plan: MeasuringPlan = QUICK, **options: Any
) -> Mapping[LoadPoint, Outcome]:
    """Measure points of an invented server."""
    states = [measured.begin(toy.job(point)) for point in points or (ONLINE,)]
    return outcomes(sweep.measure(states, plan, take=generator.take, **options), plan)


def one(generator: LoadGenerator, point: LoadPoint = ONLINE, **options: Any) -> Load:
    """The load of a single point that was measured."""
    return loads(run(generator, point, **options))[0]


def loads(found: Mapping[LoadPoint, Outcome]) -> list[Load]:
    measurements = [outcome for outcome in found.values() if isinstance(outcome, Measurement)]
    assert len(measurements) == len(found)
    return [measurement.load for measurement in measurements]


def codes(load: Load) -> list[str]:
    return [mark.code for mark in load.marks]


def every_second(job: Job, number: int) -> float:
    """A server that is half as fast in every second run, once it is warm."""
    return LATENCY_MS * (2 if number > 1 and number % 2 else 1)


# --- what a point yields -----------------------------------------------------------------------------------


def test_a_point_has_the_speed_of_its_timestamps() -> None:
    found = one(LoadGenerator())

    assert found.throughput_per_s.value == pytest.approx(ONLINE.concurrency * 1000 / LATENCY_MS, rel=1e-6)
    assert {name: value.value for name, value in found.latency_ms.items()} == pytest.approx(
        dict.fromkeys(("avg", "p50", "p90", "p95", "p99"), LATENCY_MS)
    )


def test_throughput_counts_inferences_not_requests() -> None:
    found = one(LoadGenerator(), LoadPoint("offline", 8, 1))

    assert found.throughput_per_s.value == pytest.approx(8 * 1000 / LATENCY_MS)


def test_the_record_keeps_every_pass() -> None:
    found = one(LoadGenerator(), plan=MeasuringPlan(budget_s=60))

    assert len(found.passes) > 2
    assert {round(one.throughput_per_s) for one in found.passes} == {400}
    assert sum(one.requests for one in found.passes) == found.requests
    assert sum(one.duration_s for one in found.passes) == pytest.approx(found.duration_s, abs=1e-3)


def test_every_latency_of_the_estimates_is_returned_in_seconds() -> None:
    found = run(LoadGenerator())[ONLINE]

    assert isinstance(found, Measurement)
    assert len(found.latencies_s) == found.load.requests > 100
    assert set(found.latencies_s) == {LATENCY_MS / 1e3}


def test_a_rate_is_measured_too() -> None:
    found = one(LoadGenerator(lambda _job, _number: 2.0), LoadPoint("online", 1, 0, 200.0, "constant"))

    assert found.throughput_per_s.value == pytest.approx(200, rel=0.1)
    assert (found.request_rate_per_s, found.arrivals, found.concurrency) == (200.0, "constant", 0)
    assert found.slip_ms == pytest.approx(0, abs=1e-3)


def test_components_are_shares_of_the_average_latency() -> None:
    found = one(LoadGenerator()).components_ms

    assert tuple(found) == schema.COMPONENTS
    assert sum(found.values()) == pytest.approx(LATENCY_MS)
    assert found["server_compute_infer"] == pytest.approx(LATENCY_MS * 8000 / 8600)


@pytest.mark.parametrize("factor", [0.5, 1, 2])
def test_components_make_up_the_average_even_where_the_start_up_was_slow(factor: float) -> None:
    run = toy.run_of(toy.closed_loop(np.full((1, 20), 0.01), 0.1))

    found = components([run], samples.estimate(7.0 * factor))

    assert sum(found.values()) == pytest.approx(7.0 * factor)
    assert min(found.values()) >= 0


# --- in turns ----------------------------------------------------------------------------------------------


def test_points_are_measured_in_turns() -> None:
    generator = LoadGenerator()
    found = run(generator, *POINTS)

    assert {frozenset(each) for each in generator.rounds(3)} == {frozenset(POINTS)}
    passes = len(loads(found)[0].passes)
    assert len(generator.calls) == 3 * (2 + passes), "two of warm-up, then each pass of all"


def test_the_order_of_the_turns_is_random() -> None:
    generator = LoadGenerator(every_second)
    run(generator, *POINTS, plan=MeasuringPlan(precision_target=0.0001, budget_s=60))

    orders = generator.rounds(3)[2:]
    assert len(orders) >= 20
    assert len(set(orders)) > 1, "by chance they are all alike once in 6 to the power of 19"


def test_a_point_that_is_done_leaves_the_others_their_turns() -> None:
    uneven = LoadPoint("online", 1, 5)
    generator = LoadGenerator(lambda job, number: every_second(job, number if job.point == uneven else 0))

    steady, varied = loads(run(generator, ONLINE, uneven, plan=MeasuringPlan(budget_s=60)))

    assert len(steady.passes) < len(varied.passes)
    assert (codes(steady), codes(varied)) == ([], ["wide-interval"])


def test_a_larger_budget_makes_passes_longer_not_more_only() -> None:
    generator = LoadGenerator()
    run(generator, plan=MeasuringPlan(budget_s=60))

    (window_s,) = set(generator.windows_s()[2:])
    assert 3 * window_s + 0.1 == pytest.approx(60 / stopping.MOST_PASSES)


def test_a_window_that_was_too_short_is_not_tried_again() -> None:
    def lengthened(_job: Job, number: int) -> dict[str, Any]:
        return {"next_window_s": 0.48} if number == 2 else {}

    generator = LoadGenerator(changes=lengthened)
    run(generator, POINTS[0])

    windows_s = generator.windows_s()[2:]
    assert windows_s[1:] == [0.48] * (len(windows_s) - 1)
    assert windows_s[0] < 0.48


def test_slow_requests_have_long_windows_from_the_first_run_on() -> None:
    generator = LoadGenerator(lambda _job, _number: 2000.0)
    states = [measured.begin(toy.job(POINTS[0], request_s=2.0))]
    (state,) = sweep.measure(states, QUICK, take=generator.take)

    assert min(generator.windows_s()) >= 4.0
    assert len(state.mine.warm_up) == 1, "one run must do"


def test_what_was_measured_is_added_to_where_a_point_is_measured_on() -> None:
    generator = LoadGenerator()
    (first,) = sweep.measure([measured.begin(toy.job(ONLINE))], QUICK, take=generator.take)
    (second,) = sweep.measure(
        [first], QUICK, take=generator.take, is_done=lambda state: len(state.mine.passes) >= 10
    )

    assert second.mine.passes[: len(first.mine.passes)] == first.mine.passes
    assert len(second.mine.passes) == 10
    assert len(second.mine.warm_up) == 2, "of the model that was loaded again"
    assert len(first.mine.passes) < 10, "what was known before is as it was"


# --- warm-up -----------------------------------------------------------------------------------------------


def test_latencies_that_do_not_settle_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "warm_up_end", lambda _latencies: None)
    generator = LoadGenerator()

    found = one(generator, plan=MeasuringPlan(budget_s=60))

    assert codes(found) == ["not-warm"]
    assert len(generator.calls) == stopping.WARM_UP_RUNS + len(found.passes)


def test_a_warm_up_goes_on_while_the_server_gets_faster() -> None:
    generator = LoadGenerator(lambda _job, number: LATENCY_MS * max(1.0, 3 - number))

    found = one(generator)

    assert len(generator.calls) == 4 + len(found.passes)
    assert found.latency_ms["p99"].value == LATENCY_MS


def test_the_seconds_of_the_warm_up_are_those_before_the_latencies_were_stationary() -> None:
    slow_start = LoadGenerator(lambda _job, number: LATENCY_MS * (5 if number == 0 else 1))

    assert one(LoadGenerator()).warm_up_s == 0
    assert one(slow_start).warm_up_s > 0


# --- what goes wrong ---------------------------------------------------------------------------------------


def test_damaged_runs_are_noted() -> None:
    def repeated(_job: Job, number: int) -> dict[str, Any]:
        return {"damaged": ("its file was empty", "it ended with status 137")} if number == 3 else {}

    found = one(LoadGenerator(changes=repeated), plan=MeasuringPlan(budget_s=60))

    assert codes(found) == ["damaged-passes"]
    assert ": 2, the last: it ended with status 137" in found.marks[0].text


def test_a_pass_of_lower_priority_is_noted() -> None:
    def niced(_job: Job, number: int) -> dict[str, Any]:
        return {"cpu": CpuTime(0.5, 0.05, 0.25, 0.3, 0.0, nice=10 if number == 3 else 0)}

    assert "niced" in codes(one(LoadGenerator(changes=niced)))


def test_a_point_that_cannot_be_measured_leaves_the_others() -> None:
    def refuse(job: Job, number: int) -> float:
        if job.point == POINTS[1] and number == 3:
            raise ProofError("refused", where="here")
        return LATENCY_MS

    found = run(LoadGenerator(refuse), *POINTS)

    assert [isinstance(found[point], Measurement) for point in POINTS] == [True, False, True]
    assert "refused" in str(found[POINTS[1]])


def test_a_point_that_cannot_be_warmed_up_leaves_the_others() -> None:
    def refuse(job: Job, _number: int) -> float:
        if job.point == POINTS[1]:
            raise ProofError("refused", where="here")
        return LATENCY_MS

    found = run(LoadGenerator(refuse), *POINTS)

    assert [isinstance(found[point], Measurement) for point in POINTS] == [True, False, True]


def test_each_round_is_saved_so_that_a_killed_run_keeps_it() -> None:
    saved: list[Sequence[Load]] = []

    found = run(LoadGenerator(), *POINTS, save=saved.append)

    assert [len(each) for each in saved] == [0, 3, 3], "two passes make an interval"
    assert all("unfinished" in codes(load) for load in saved[1])
    assert list(saved[2]) == loads(found)


def test_progress_says_what_is_done_now_and_what_is_known() -> None:
    said: list[Progress] = []

    run(LoadGenerator(), report=said.append)

    assert [now.doing for now in said] == ["warm up"] * 2 + ["pass"] * 3
    assert [now.number for now in said[2:]] == [1, 2, 3]
    assert {(now.points_known, now.points) for now in said[2:]} == {(0, 1)}
    assert said[3].estimate is None
    assert progress_text(said[-1]) == "pass 3, 0 of 1 points; 400.0 infer/s ± 0.0 %"
