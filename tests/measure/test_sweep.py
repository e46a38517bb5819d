"""Load points measured in turns, without a server: order, duration and results."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests import sample_records, toy
from tests.fake_nvml import Clock
from tests.toy import LATENCY_MS, SimulatedServer
from tritonproof.base.errors import ProofError
from tritonproof.host.processor_use import CpuTime
from tritonproof.measure import estimates, perf_analyzer, perf_analyzer_io, stopping, sweep
from tritonproof.measure.passes import WINDOWS, LoadJob, Pass
from tritonproof.measure.point_result import components, point_results
from tritonproof.measure.point_state import PointState, Side
from tritonproof.measure.stopping import MeasuringPlan
from tritonproof.record.speed import COMPONENTS, LoadPoint, PointResult

ONLINE = LoadPoint("online", 1, 4)
POINTS = tuple(LoadPoint("offline", batch, 1) for batch in (1, 2, 4))
QUICK, PATIENT = MeasuringPlan(point_budget_s=0.001), MeasuringPlan(point_budget_s=60)


def run(
    server: SimulatedServer, *points: LoadPoint, plan: MeasuringPlan = QUICK, **options: Any
) -> Mapping[LoadPoint, PointResult | ProofError]:
    """Measure points of a simulated server."""
    states = [PointState((Side(toy.job(point)),)) for point in points or (ONLINE,)]
    return point_results(sweep.sweep_points(states, plan, run_pass=server.run_pass, **options), plan)


def results(found: Mapping[LoadPoint, PointResult | ProofError]) -> list[PointResult]:
    return [outcome for outcome in found.values() if isinstance(outcome, PointResult)]


def one(server: SimulatedServer, point: LoadPoint = ONLINE, **options: Any) -> PointResult:
    """Measure a single point."""
    return results(run(server, point, **options))[0]


def codes(result: PointResult) -> list[str]:
    return [mark.code for mark in result.marks]


def every_second(job: LoadJob, number: int) -> float:
    """A server that is half as fast in every second pass, once it is warm."""
    return LATENCY_MS * (2 if number > 1 and number % 2 else 1)


def test_point_speed_comes_from_timestamps() -> None:
    result = one(SimulatedServer(), plan=PATIENT)

    assert result.throughput_per_s.value == pytest.approx(ONLINE.concurrency * 1000 / LATENCY_MS, rel=1e-6)
    assert {round(each.value, 6) for each in result.latency_ms.values()} == {LATENCY_MS}
    assert result.requests > 100
    assert result.samples == 1
    assert len(result.passes) > 2
    assert {round(one_pass.throughput_per_s) for one_pass in result.passes} == {400}
    assert sum(one_pass.requests for one_pass in result.passes) == result.requests
    assert sum(one_pass.duration_s for one_pass in result.passes) == pytest.approx(result.duration_s, 1e-3)


def test_request_rate_gives_its_throughput_and_no_slip() -> None:
    """With all cores busy, the load generator is the limit unless the server falls behind."""
    busy = {"cpu": CpuTime(0.5, 1e3, 0.0, 0.0, 0.0)}
    keeping_up = SimulatedServer(lambda _job, _number: 2.0, changes=lambda *_: busy)
    overloaded = SimulatedServer(every_second, changes=lambda *_: busy)
    result = one(keeping_up, LoadPoint("online", 1, 0, 200.0, "constant"))
    plan = dataclasses.replace(QUICK, interval_target=0.01)
    behind = one(overloaded, LoadPoint("online", 1, 0, 1000.0, "constant"), plan=plan)

    assert result.throughput_per_s.value == pytest.approx(200, rel=0.1)
    assert result.slip_ms == pytest.approx(0, abs=1e-3)
    limits = [{"client-bound", "overloaded"} & {*codes(each)} for each in (result, behind)]
    assert limits == [{"client-bound"}, {"overloaded"}]
    assert "% of the mean latency in place of 1 %" in str(behind.marks)
    assert len(set(overloaded.windows_s()[:2])) == 1, "longer passes would only make longer queues"


def test_components_are_shares_of_average_latency() -> None:
    shares = components([toy.closed_loop(np.full((1, 20), 0.01), 0.1)], sample_records.estimate(7.0))
    assert tuple(shares) == COMPONENTS
    assert sum(shares.values()) == pytest.approx(7.0)
    assert shares["server_compute_infer"] == pytest.approx(7.0 * 8000 / 8600)


def test_points_are_interleaved_in_random_order() -> None:
    server = SimulatedServer(every_second)
    by_point = run(server, *POINTS, plan=dataclasses.replace(PATIENT, interval_target=0.0001))
    taken = [point for _, point, _ in server.calls]
    rounds = [tuple(taken[start : start + 3]) for start in range(0, len(taken), 3)]
    assert {frozenset(order) for order in rounds} == {frozenset(POINTS)}
    _, _, *orders = rounds  # two of warm-up, then each pass of all
    assert len(orders) == len(results(by_point)[0].passes) >= 20
    assert len(set(orders)) > 1, "by chance they are all alike once in 6 to the power of 19"


def test_finished_point_leaves_turns_to_the_others() -> None:
    uneven = LoadPoint("online", 1, 5)
    server = SimulatedServer(lambda job, number: every_second(job, number if job.point == uneven else 0))
    steady, varied = results(run(server, ONLINE, uneven, plan=PATIENT))
    assert len(steady.passes) < len(varied.passes)
    assert (codes(steady), codes(varied)) == ([], ["wide-interval"])


def test_larger_budget_makes_longer_passes() -> None:
    server = SimulatedServer()
    run(server, plan=PATIENT)
    (window_s,) = set(server.windows_s()[2:])
    assert 3 * window_s + 0.1 == pytest.approx(60 / stopping.MAX_PASSES)


def test_pauses_longer_than_a_window_keep_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eight clients' requests, served one by one, one in 200 takes 300 ms, the others 5. Of an attempt in
    which no request starts and ends in a window, the load generator tells nothing."""
    random, states = np.random.default_rng(4), list[PointState]()

    def attempt(_job: LoadJob, window_s: float) -> tuple[Pass, float]:
        services_s = np.where(random.random(8 * int(200 * window_s)) < 0.005, 0.3, 0.005)
        ends_s = services_s.cumsum().reshape(-1, 8).T
        latencies_s = np.diff(ends_s, axis=1, prepend=0.0)
        first, last = (ends_s - latencies_s) // window_s, ends_s // window_s
        if not set(range(WINDOWS)) <= set(first[first == last]):
            raise perf_analyzer_io.ShortWindowError("no request in a window")
        return toy.closed_loop(latencies_s, WINDOWS * window_s, window_s=window_s), 0.0

    monkeypatch.setattr(perf_analyzer, "_attempt_pass", attempt)
    monkeypatch.setattr(perf_analyzer, "_recover", lambda *_: None)
    for _trial in range(40):
        point = PointState((Side(toy.job(LoadPoint("online", 1, 8))),))
        states += sweep.sweep_points([point], QUICK, is_done=lambda one, _plan: one.spent_s > 12)
    parts = [part for state in states for part in state.steady_parts]
    assert estimates.requests_per_s(parts) == pytest.approx(1 / (0.995 * 0.005 + 0.005 * 0.3), rel=0.04)
    assert np.mean(estimates.pooled_ms(parts) > 100) == pytest.approx(8 * 0.005, rel=0.2)
    assert all(state.current.failed_attempts for state in states)


def test_continued_point_keeps_earlier_passes() -> None:
    server = SimulatedServer(changes=lambda _job, number: {"window_s": 0.48} if number == 2 else {})
    measured = functools.partial(sweep.sweep_points, plan=QUICK, run_pass=server.run_pass)
    (first,) = measured([PointState((Side(toy.job(ONLINE)),))])
    passes, later_s = first.current.passes, server.windows_s()[3:]
    assert later_s == [0.48] * len(passes), "the one before, whose windows were too short, is void"
    (second,) = measured([first], is_done=lambda state, _plan: len(state.current.passes) > len(passes))
    assert second.current.passes[:-1] == passes
    assert second.current.passes[-1].window_s == 0.48, "as long as a pause has made it"
    assert len(second.current.warm_up) == 2, "of the model that was loaded again"


def test_latencies_that_are_not_stationary_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "warm_up_end", lambda _latencies: None)
    server = SimulatedServer()
    result = one(server, plan=PATIENT)
    assert codes(result) == ["not-warm"]
    assert len(server.calls) == stopping.MAX_WARM_UP_PASSES + len(result.passes)


def test_warm_up_continues_while_server_gets_faster() -> None:
    server = SimulatedServer(lambda _job, number: LATENCY_MS * max(1.0, 3 - number))
    result = one(server)
    assert len(server.calls) == 4 + len(result.passes)
    assert result.latency_ms["p99"].value == LATENCY_MS
    assert 0 == one(SimulatedServer()).warm_up_s < result.warm_up_s < 3 * sum(server.windows_s()[:4])


@pytest.mark.parametrize(
    ("changes", "pass_number", "marks"),
    [
        ({"failed_attempts": ("its file was empty", "it ended with status 137")}, 3, ["damaged-passes"]),
        ({"failed_attempts": ("its file was empty",)}, 0, []),  # a warm-up does not count
        ({"cpu": CpuTime(0.5, 0.05, 0.25, 0.3, 0.0, nice=10)}, 3, ["niced"]),
    ],
)
def test_disturbed_run_marks_its_point(changes: dict[str, Any], pass_number: int, marks: list[str]) -> None:
    server = SimulatedServer(changes=lambda _job, number: changes if number == pass_number else {})
    assert codes(one(server, plan=PATIENT)) == marks


def test_few_requests_are_marked() -> None:
    assert "few-requests" in codes(one(SimulatedServer(lambda _job, _number: 1500.0)))


@pytest.mark.parametrize("fails", [0, 3, "reload"], ids=["in its warm-up", "later", "not loaded again"])
def test_failing_point_leaves_the_others(fails: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are done after three passes."""
    monkeypatch.setattr(sweep, "time", Clock())
    error, loadings = ProofError("refused"), iter(["load", "reload"])

    def answer(name: object) -> float:
        if name == fails:
            raise error
        return LATENCY_MS

    by_point = run(
        SimulatedServer(lambda job, number: answer(number if job.point == POINTS[1] else "pass")),
        *POINTS,
        reload=lambda: answer(next(loadings)),
        is_done=lambda state, _plan: state.point != POINTS[1] and len(state.current.passes) > 2,
    )
    assert [isinstance(by_point[point], PointResult) for point in POINTS] == [True, False, True]
    assert by_point[POINTS[1]] is error


def test_each_round_is_saved() -> None:
    saved: list[Sequence[PointResult]] = []
    by_point = run(SimulatedServer(), *POINTS, save=saved.append)
    assert [len(each) for each in saved] == [0, 3, 3], "two passes make an interval"
    assert all("unfinished" in codes(result) for result in saved[1])
    assert list(saved[2]) == results(by_point)


def test_requests_to_certify_fit_in_few_passes() -> None:
    """Windows that hold a few requests would need hundreds; a quarter of a pass at a rate does not count."""
    server, plan = SimulatedServer(lambda _job, _number: 40.0), dataclasses.replace(QUICK, certify=99.9)
    alone, at_rate = Side(toy.job(ONLINE)), Side(toy.job(LoadPoint("online", 1, 0, 20.0, "constant")))
    paired = PointState((alone, Side(toy.job(ONLINE, "baseline"))), toy.terms())
    for begun, most in ((PointState((alone,)), 33), (paired, 160), (PointState((at_rate,)), 42)):
        (state,) = sweep.sweep_points([begun], plan, run_pass=server.run_pass)
        assert state.requests >= 6_636
        assert len(state.current.passes) <= most


def test_progress_shows_activity_and_precision_but_no_speed() -> None:
    """The case may not be proven yet."""
    reports: list[str] = []
    run(SimulatedServer(), on_progress=reports.append)
    activities = [text.partition(",")[0] for text in reports]
    assert activities == [f"{ONLINE} {now}" for now in ("warm up", "warm up", "pass 1", "pass 2", "pass 3")]
    pair = PointState((Side(toy.job(ONLINE)),) * 2, toy.terms())
    sweep.sweep_points([pair], PATIENT, run_pass=SimulatedServer().run_pass, on_progress=reports.append)
    assert {text.partition("points")[2] for text in reports} == {"", "; ± 0.0 %", "; ratio ± 0.0 %"}


@pytest.mark.parametrize("certify", [99, None])
def test_point_runs_until_certified_and_shows_requests(certify: float | None) -> None:
    """At 100 requests per second; without --certify what is missing is recorded silently."""
    progress, server = list[str](), SimulatedServer(lambda _job, _number: 20.0, std=0.02)
    plan, point = MeasuringPlan(certify=certify), LoadPoint("online", 1, 2)
    result = one(server, point, plan=plan, on_progress=progress.append)
    p99, missing = result.certified["p99"], result.certified["p99"].requests_missing
    assert (p99.bound_ms is not None) == (certify is not None)
    assert (missing == 0) == (certify is not None)
    assert missing == max(0, 662 - result.requests)
    shown = sum(" of 662 requests" in text for text in progress)
    assert shown == (len(result.passes) if certify else 0)
    assert (result.duration_s > plan.point_budget_s) == (certify is not None)
