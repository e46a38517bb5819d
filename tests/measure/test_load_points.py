"""Load points measured in turns: when a point is done, what is kept of it, and real servers of known speed."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.errors import ProofError
from fixtures.host.cpu import CpuTime
from fixtures.measure import estimates, load_points, perf_analyzer
from fixtures.measure.job import input_data
from fixtures.measure.load_points import Measurement, Outcome, Plan
from fixtures.measure.timeline import Timeline
from fixtures.self_check import timed_server
from fixtures.spec import LoadPoint
from reports.record import schema
from reports.record.schema import Load
from tests import samples, toy
from tests.generator import LATENCY_MS, Generator, option, server_of

ONLINE = LoadPoint("online", 1, 4)
POINTS = tuple(LoadPoint("offline", batch, 1) for batch in (1, 2, 4))
(SERVICE_MS,) = timed_server.SHAPES_MS["fixed"]
QUICK = Plan(budget_s=0.001)


Run = Callable[..., Mapping[LoadPoint, Outcome]]


@pytest.fixture
def run(tmp_path: Path, generator: Generator) -> Run:
    """Measure points of the toy model with the fake load generator."""

    def run(*points: LoadPoint, plan: Plan = QUICK, **options: Any) -> Mapping[LoadPoint, Outcome]:
        model = toy.model()
        with input_data(model, toy.samples().load([0]), None) as data:
            jobs = load_points.samplings_of(
                server_of(tmp_path),
                "toy",
                model,
                dict.fromkeys(points or (ONLINE,), 0.0),
                shared_memory="system",
                data=data,
            )
            return load_points.measure(jobs, plan, **options)

    return run


def measured(outcomes: Mapping[LoadPoint, Outcome], point: LoadPoint = ONLINE) -> Measurement:
    """The outcome of a point that was measured."""
    outcome = outcomes[point]
    assert isinstance(outcome, Measurement)
    return outcome


def codes(one: Load) -> list[str]:
    """Of the marks that do not depend on what else this machine does."""
    return [mark.code for mark in one.marks if not mark.code.startswith(("client", "cpu"))]


# --- what a point yields -----------------------------------------------------------------------------------


def test_a_point_has_the_speed_of_its_timestamps(run: Run) -> None:
    found = measured(run()).load

    assert found.throughput_per_s.value == pytest.approx(ONLINE.concurrency * 1000 / LATENCY_MS, rel=1e-6)
    assert {name: value.value for name, value in found.latency_ms.items()} == pytest.approx(
        dict.fromkeys(("avg", "p50", "p90", "p95", "p99"), LATENCY_MS)
    )


def test_throughput_counts_inferences_not_requests(run: Run) -> None:
    point = LoadPoint("offline", 8, 1)

    assert measured(run(point), point).load.throughput_per_s.value == pytest.approx(8 * 1000 / LATENCY_MS)


def test_the_record_keeps_every_pass(run: Run) -> None:
    found = measured(run()).load

    assert [one.throughput_per_s for one in found.passes] == pytest.approx([400] * load_points.FEWEST_PASSES)
    assert sum(one.requests for one in found.passes) == found.requests
    assert sum(one.duration_s for one in found.passes) == pytest.approx(found.duration_s, abs=1e-3)
    assert {one.latency_ms["p99"] for one in found.passes} == {LATENCY_MS}


def test_every_latency_of_the_estimates_is_returned_in_seconds(run: Run) -> None:
    found = measured(run())

    assert len(found.latencies_s) == found.load.requests > 100
    assert set(found.latencies_s) == {LATENCY_MS / 1e3}


def test_a_rate_is_measured_too(run: Run) -> None:
    point = LoadPoint("online", 1, 0, 200.0, "constant")

    found = measured(run(point), point).load

    assert found.throughput_per_s.value == pytest.approx(200, rel=0.1)
    assert (found.request_rate_per_s, found.arrivals, found.concurrency) == (200.0, "constant", 0)
    assert found.slip_ms == pytest.approx(0, abs=1e-3)


def test_components_are_shares_of_the_average_latency(run: Run) -> None:
    components = measured(run()).load.components_ms

    assert tuple(components) == schema.COMPONENTS
    assert sum(components.values()) == pytest.approx(LATENCY_MS)
    assert components["network_server_send_recv"] == pytest.approx(0.2)
    assert components["server_compute_infer"] == pytest.approx(8.0)


@pytest.mark.parametrize("factor", [0.5, 1, 2])
def test_components_make_up_the_average_even_where_the_start_up_was_slow(factor: float) -> None:
    means_us = dict.fromkeys(schema.COMPONENTS, 1000.0)
    timeline = Timeline(np.arange(3), np.arange(3) + 1, 0, 4, 1)
    one = perf_analyzer.Run(timeline, means_us, CpuTime(1, 0, 0, 0, 0), 1.0, 0.1)
    average = samples.estimate(7.0 * factor)

    components = load_points._components([one], average)

    assert sum(components.values()) == pytest.approx(average.value)
    assert min(components.values()) >= 0


# --- in turns ----------------------------------------------------------------------------------------------


def batches(generator: Generator) -> list[int]:
    """The batch of each call, in order."""
    return [int(option(call, "-b")) for call in generator.calls]


def test_points_are_measured_in_turns(run: Run, generator: Generator) -> None:
    run(*POINTS)

    calls = batches(generator)
    rounds = [set(calls[at : at + 3]) for at in range(0, len(calls), 3)]
    assert rounds == [{1, 2, 4}] * (2 + load_points.FEWEST_PASSES), "two of warm-up, then each pass of all"


def test_the_order_of_the_turns_is_random(run: Run, generator: Generator) -> None:
    run(*POINTS, plan=Plan(precision_target=0.0001, budget_s=1.0))

    calls = batches(generator)
    orders = {tuple(calls[at : at + 3]) for at in range(6, len(calls) - 2, 3)}
    assert len(orders) > 1


def test_a_point_is_done_when_its_interval_is_narrow(run: Run) -> None:
    found = measured(run(plan=Plan(budget_s=60))).load

    assert len(found.passes) == load_points.LEAST_PASSES
    assert codes(found) == []


def test_a_point_that_varies_goes_on_until_its_budget_is_spent(run: Run, generator: Generator) -> None:
    generator.plan("good", "good", *("good", "slow") * 100)

    found = measured(run(plan=Plan(budget_s=2.0))).load

    assert len(found.passes) > load_points.LEAST_PASSES
    assert codes(found) == ["wide-interval"]
    (text,) = (mark.text for mark in found.marks if mark.code == "wide-interval")
    assert text.startswith("its interval is ± ")
    assert "wider than the 5% asked for, after " in text


def test_a_point_that_is_done_leaves_the_others_their_turns(run: Run, generator: Generator) -> None:
    class Uneven:
        """Four in flight are steady, five are not."""

        def __init__(self) -> None:
            self.insist = perf_analyzer.insist
            self.count = 0

        def __call__(self, job: perf_analyzer.Job, window_s: float, damaged: list[str]) -> perf_analyzer.Run:
            self.count += job.point.concurrency == 5
            generator.plan("slow" if job.point.concurrency == 5 and self.count % 2 else "good")
            generator.program.with_name("calls.jsonl").unlink(missing_ok=True)
            return self.insist(job, window_s, damaged)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(perf_analyzer, "insist", Uneven())
        outcomes = run(ONLINE, LoadPoint("online", 1, 5), plan=Plan(budget_s=2))

    steady, uneven = (len(measured(outcomes, point).load.passes) for point in outcomes)
    assert steady == load_points.LEAST_PASSES < uneven


def test_few_requests_are_noted_and_more_are_measured_where_there_is_time(
    run: Run, generator: Generator
) -> None:
    generator.plan("slow")
    point = POINTS[0]

    hasty = measured(run(point), point).load
    patient = measured(run(point, plan=Plan(budget_s=60)), point).load

    assert hasty.requests < 100 <= patient.requests
    assert codes(hasty) == ["few-requests"]
    assert hasty.marks[0].text == f"{hasty.requests} requests in all: p99 is the largest latency"
    assert codes(patient) == []


def test_a_larger_budget_makes_passes_longer_not_more_only(run: Run, generator: Generator) -> None:
    run(plan=Plan(budget_s=60))

    assert set(generator.windows_ms()[2:]) == {634}, (
        "60 s over 30 passes of 3 windows, less 0.1 s to start each"
    )


def test_passes_last_several_latencies(run: Run, generator: Generator, monkeypatch: Any) -> None:
    monkeypatch.setattr(load_points, "LEAST_WINDOW_S", 0.001)
    monkeypatch.setattr(load_points, "_LATENCIES_PER_WINDOW", 10)

    run(POINTS[0])

    assert set(generator.windows_ms()[-3:]) == {100}


def test_a_window_that_was_too_short_is_not_tried_again(run: Run, generator: Generator) -> None:
    generator.plan("good", "good", "no-requests", "good")

    run(POINTS[0])

    windows_ms = generator.windows_ms()[2:]
    assert windows_ms == [120] + [480] * (len(windows_ms) - 1)


# --- warm-up -----------------------------------------------------------------------------------------------


def test_latencies_that_do_not_settle_are_noted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "warm_up_end", lambda _latencies: None)

    found = measured(run(POINTS[0], plan=Plan(budget_s=60)), POINTS[0]).load

    assert codes(found) == ["not-warm"]
    assert found.warm_up_s == pytest.approx(load_points._PROBES * 3 * load_points.SHORTEST_WINDOW_S, rel=0.2)


def test_a_warm_up_goes_on_until_latencies_settle(
    run: Run, generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimates, "warm_up_end", lambda latencies: 7 if len(latencies) > 40 else None)

    found = measured(run(POINTS[0]), POINTS[0]).load

    assert len(generator.calls) == 3 + load_points.FEWEST_PASSES, "18 latencies in each"
    assert found.warm_up_s == pytest.approx(7 * LATENCY_MS / 1e3, rel=0.1)


def test_a_warm_up_goes_on_while_the_server_gets_faster(run: Run, generator: Generator) -> None:
    generator.plan("slow", "good")

    found = measured(run()).load

    assert len(generator.calls) == 3 + load_points.FEWEST_PASSES
    assert found.latency_ms["p99"].value == LATENCY_MS


# --- what goes wrong ---------------------------------------------------------------------------------------


def test_damaged_passes_are_repeated_and_noted(run: Run, generator: Generator) -> None:
    generator.plan("good", "good", "good", "empty", "killed", "good")

    found = measured(run()).load

    assert found.throughput_per_s.value == pytest.approx(400, rel=1e-6)
    assert len(found.passes) == load_points.FEWEST_PASSES
    assert codes(found) == ["damaged-passes"]
    assert ": 2, the last: it ended with status 137" in found.marks[0].text


def test_a_point_that_cannot_be_measured_leaves_the_others(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    insist = perf_analyzer.insist

    def refuse(job: perf_analyzer.Job, window_s: float, damaged: list[str]) -> perf_analyzer.Run:
        if job.point == POINTS[1]:
            raise ProofError("refused", where="here")
        return insist(job, window_s, damaged)

    monkeypatch.setattr(perf_analyzer, "insist", refuse)

    outcomes = run(*POINTS)

    assert [isinstance(outcomes[point], Measurement) for point in POINTS] == [True, False, True]
    assert "refused" in str(outcomes[POINTS[1]])


def test_each_round_is_saved_so_that_a_killed_run_keeps_it(run: Run) -> None:
    saved: list[Sequence[Load]] = []

    outcomes = run(*POINTS, save=saved.append)

    assert [len(loads) for loads in saved] == [0, 3, 3], "two passes make an interval"
    assert {code for one in saved[1] for code in codes(one)} == {"unfinished", "few-requests"}
    assert list(saved[2]) == [measured(outcomes, point).load for point in POINTS]


def test_progress_names_the_pass_and_the_running_estimate(run: Run) -> None:
    said: list[str] = []

    run(ONLINE, report=lambda point, text: said.append(f"{point} {text}"))

    assert said == [
        "b001-c004 warm up",
        "b001-c004 warm up",
        "b001-c004 pass 1, 0 of 1 points known",
        "b001-c004 pass 2, 0 of 1 points known",
        "b001-c004 pass 3, 0 of 1 points known; 400.0 infer/s ± 0%",
    ]


# --- servers of known speed --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[timed_server.Timed]:
    """Measure a server of known service times; and what its rate under load was by its own clock."""
    with timed_server.served(tmp_path_factory.mktemp("known")) as functions:
        yield functions
    assert not list(Path("/dev/shm").glob(f"*_{os.getpid()}_IN*"))


@pytest.mark.parametrize("shape", timed_server.SHAPES_MS)
def test_a_server_of_known_service_time_is_measured_right(timed: timed_server.Timed, shape: str) -> None:
    """A serial server that is always busy, which notes itself when it begins each request."""
    run, busy_rate_per_s = timed
    times_ms = np.tile(timed_server.SHAPES_MS[shape], 100)
    alone, crowded = LoadPoint("online", 1, 1), LoadPoint("online", 1, 8)

    serial = measured(run(shape, alone, plan=Plan(budget_s=3)), alone).load
    waiting = measured(run(shape, crowded, plan=Plan(budget_s=3)), crowded).load

    for found in (serial, waiting):
        in_flight = found.throughput_per_s.value * found.latency_ms["avg"].value / 1e3
        assert in_flight == pytest.approx(found.concurrency, rel=0.05), "Little's law"
        assert sum(found.components_ms.values()) == pytest.approx(found.latency_ms["avg"].value)
    rate, truth_per_s = waiting.throughput_per_s, busy_rate_per_s(shape, waiting.requests)
    # Twice the 95 % interval, which a right estimate leaves once in a thousand times.
    assert abs(rate.value - truth_per_s) < max(rate.high - rate.low, 0.02 * truth_per_s)
    assert waiting.components_ms["server_queue"] > 5 * times_ms.mean()
    if shape == "drifting":
        return  # its percentiles depend on where in the drift the passes fell
    share_ms = serial.latency_ms["p50"].value - np.median(times_ms)
    assert 0 < share_ms < 2, "Triton's own and the network's"
    assert serial.latency_ms["p90"].value < np.percentile(times_ms, 90) + share_ms + 2
    for percent in (90, 95, 99):
        assert serial.latency_ms[f"p{percent}"].value >= np.percentile(times_ms, percent)


def test_latencies_at_a_rate_count_from_the_schedule(timed: timed_server.Timed) -> None:
    """Poisson arrivals at a serial server of fixed time: the mean wait is that of an M/D/1 queue."""
    run, _ = timed
    hard, beyond = (LoadPoint("online", 1, 0, rate, "poisson") for rate in (100.0, 300.0))

    outcomes = run("fixed", hard, beyond, plan=Plan(budget_s=4))

    found = measured(outcomes, hard).load
    service_ms = SERVICE_MS + 0.6  # with Triton's own share, which is between 0.2 and 1 ms
    busy = 100.0 * service_ms / 1e3
    expected_ms = service_ms * (1 + busy / (2 * (1 - busy)))
    assert found.latency_ms["avg"].value == pytest.approx(expected_ms, rel=0.4)
    assert "overloaded" not in codes(found)
    assert found.slip_ms is not None
    drowned = measured(outcomes, beyond).load
    assert "overloaded" in codes(drowned)
    assert drowned.throughput_per_s.value < 205
    assert drowned.latency_ms["p99"].value > 10 * SERVICE_MS, (
        "a generator that waits would show one service time"
    )
