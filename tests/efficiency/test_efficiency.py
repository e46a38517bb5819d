"""The served throughput beside the same artifact in process: the turns, which point, and what is recorded."""

import dataclasses
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from fixtures.build.repository import BuiltModel
from fixtures.efficiency import interleaved
from fixtures.efficiency.best_point import batch_in_process, best_of, best_points, loads_of
from fixtures.efficiency.in_process import in_process
from fixtures.efficiency.interleaved import Sides, Turns, is_done, mean_of, take_turns
from fixtures.errors import NotAvailableError
from fixtures.host.cpu import CpuTime
from fixtures.measure.job import Job, Run, jobs_of
from fixtures.measure.load_data import input_data
from fixtures.measure.stopping import MeasuringPlan
from fixtures.serve.launch import serve
from fixtures.serve.server_spec import Choice
from fixtures.spec import LoadPoint
from reports.record.schema import Estimate, Load
from reports.text.publishable import publishable
from tests import toy
from tests.conftest import DEPLOYMENT, MakeBuild
from tests.samples import efficiency as an_efficiency
from tests.samples import load as a_load
from tests.samples import record as a_record
from tests.toy import samples_of

# --- the turns -----------------------------------------------------------------------------------------------


def rates(*values: float) -> Iterator[float]:
    return itertools.cycle(values)


def test_all_sides_are_run_in_each_turn_in_random_order() -> None:
    order: list[str] = []

    def side(name: str, rate: float) -> float:
        order.append(name)
        return rate

    found = take_turns(
        Sides(
            lambda: side("served", 90.0),
            lambda: side("in process", 100.0),
            lambda: side("reference", 60.0),
        ),
        lambda so_far: len(so_far.served_per_s) == 40,
    )

    rounds = [tuple(order[place : place + 3]) for place in range(0, len(order), 3)]
    assert {frozenset(each) for each in rounds} == {frozenset(("served", "in process", "reference"))}
    assert len(set(rounds)) > 1
    assert (found.served_per_s, found.in_process_per_s) == ((90.0,) * 40, (100.0,) * 40)
    assert found.ratio().value == pytest.approx(0.9)
    beside = found.ratio_to_reference()
    assert beside is not None
    assert beside.value == pytest.approx(1.5)


def test_turns_go_on_until_the_ratio_is_known() -> None:
    plan = MeasuringPlan(precision_target=0.05, budget_s=1000)
    noisy = rates(80.0, 120.0)
    found = take_turns(
        Sides(lambda: next(noisy), lambda: 100.0), lambda so_far: is_done(so_far, plan, slow=False)
    )
    assert len(found.served_per_s) > 5
    assert found.ratio().high / found.ratio().low < 1.11


def test_turns_end_when_the_ratio_is_known_or_the_budget_spent() -> None:
    def taken(count: int, spread: float, spent_s: float) -> Turns:
        served = tuple(1 + spread * (-1) ** i for i in range(count))
        return Turns(served, (1.0,) * count, spent_s=spent_s)

    plan = MeasuringPlan(precision_target=0.05, budget_s=10)
    assert not is_done(taken(4, 0.0, 1), plan, slow=False)
    assert is_done(taken(5, 0.0, 1), plan, slow=False)
    assert not is_done(taken(5, 0.2, 1), plan, slow=False)
    assert is_done(taken(5, 0.2, 9.9), plan, slow=False)
    assert not is_done(taken(3, 0.2, 99), plan, slow=False)
    assert is_done(taken(3, 0.2, 99), plan, slow=True)


def test_the_interval_of_a_ratio_holds_the_truth_as_often_as_it_says() -> None:
    generator = np.random.default_rng(1)
    found = [mean_of(values) for values in 0.9 * np.exp(generator.normal(0, 0.1, (1000, 5)))]
    held = sum(one.low <= 0.9 <= one.high for one in found)
    assert 930 <= held <= 970


def test_a_summary_of_turns_is_of_their_geometric_means() -> None:
    taken, of_one = Turns((90.0, 110.0), (100.0, 100.0)), Estimate(2e9, 1e9, 4e9)
    found = interleaved.record_entry(
        taken, a_load("offline", 8, 1.0), 2, 8, 1e6, peak_flops_per_s=of_one, gpus=2, spinning=True
    )
    assert found.ratio.value == pytest.approx(math.sqrt(0.9 * 1.1))
    assert found.peak_flops_per_s == Estimate(4e9, 2e9, 8e9), "of both GPUs"
    assert (found.pairs, found.in_process_batch, found.threads, found.spinning) == (2, 8, 2, True)


class OneGpu:
    """A process that runs so many batches a second."""

    def batches_per_s(self, _batch: int, _least_s: float, _least: int) -> float:
        return 25.0


def test_a_server_on_two_gpus_is_set_beside_twice_what_one_does_in_process() -> None:
    job = toy.job(LoadPoint("offline", 1, 1))
    plan = MeasuringPlan(budget_s=0.1)

    def ratio(gpus: int) -> tuple[float, float]:
        one: Any = OneGpu()
        take = toy.LoadGenerator().take
        found = interleaved.measure(job, one, 1, plan, take=take, gpus=gpus)
        return found.ratio().value, found.in_process_per_s[0]

    assert ratio(2) == pytest.approx((ratio(1)[0] / 2, 2 * ratio(1)[1]), rel=0.05)


@pytest.mark.parametrize(
    ("is_cold", "request_s", "uncounted"), [(False, 0.01, 0), (True, 0.01, 1), (True, 2, 0)]
)
def test_what_was_not_run_since_it_was_loaded_is_run_once_before_it_counts(
    is_cold: bool, request_s: float, uncounted: int
) -> None:
    job = dataclasses.replace(toy.job(LoadPoint("offline", 1, 1)), request_s=request_s)
    one: Any = OneGpu()
    generator, runs = toy.LoadGenerator(), []

    def take(job: Job, window_s: float) -> Run:
        runs.append(window_s)
        return generator.take(job, 0.12)

    plan = MeasuringPlan(budget_s=0.1)
    found = interleaved.measure(job, one, 1, plan, take=take, cold=[job] if is_cold else [])
    assert len(runs) - len(found.served_per_s) == uncounted


@pytest.mark.parametrize(("request_s", "compiled"), [(0.01, True), (2, False)])
def test_what_is_compiled_in_its_second_run_counts_from_the_third_on(
    request_s: float, compiled: bool
) -> None:
    """As TorchScript is on a GPU, for seconds; of a model whose requests take seconds one batch has to do."""

    class Compiling(OneGpu):
        runs = 0

        def batches_per_s(self, batch: int, least_s: float, least: int) -> float:
            is_compiled, self.runs = self.runs >= 2, self.runs + least
            return super().batches_per_s(batch, least_s, least) if is_compiled else 0.1

    job = dataclasses.replace(toy.job(LoadPoint("offline", 1, 1)), request_s=request_s)
    one: Any = Compiling()
    plan = MeasuringPlan(budget_s=0.1)
    take = toy.LoadGenerator().take
    found = interleaved.measure(job, one, 1, plan, take=lambda job, _window_s: take(job, 0.12))
    assert (set(found.in_process_per_s) == {25.0}) is compiled


SLOWER_SERVED = """
import sys, time
SECONDS = 0.060 if "triton_python_backend_utils" in sys.modules else 0.005
def load(artifact, settings):
    return lambda arrays: time.sleep(SECONDS) or [2 * arrays[0]]
"""


def test_a_model_that_is_slower_when_served_shows_it(make_build: MakeBuild, tmp_path: Path) -> None:
    """A real Triton and a real process; twelve times as slow stays slower on any machine, however busy."""
    build: BuiltModel = make_build(tmp_path, "slower", SLOWER_SERVED)
    model = build.case.model
    sample = {model.inputs[0].name: np.array([[1, 2, 3, 4]], np.float32)}
    with (
        serve(Choice("embedded"), tmp_path, tmp_path / "server.log", device="cpu") as server,
        input_data(model, samples_of(sample), server.scratch) as data,
        in_process(build, DEPLOYMENT, sample) as worker,
    ):
        server.load(build, DEPLOYMENT, "offline")
        worker.wait_ready()
        points = {LoadPoint("offline", 1, 1): 0.06}
        (job,) = jobs_of(server, str(build.case), model, points, shared_memory="system", data=data)
        found = interleaved.measure(job, worker, 1, MeasuringPlan(budget_s=1.0))
    assert len(found.served_per_s) == len(found.in_process_per_s) >= 5
    assert max(found.served_per_s) < 1 / 0.06 * 1.05
    assert found.ratio().low <= found.ratio().value < 0.5


# --- which point, which batch --------------------------------------------------------------------------------


def test_the_best_point_is_the_fastest_of_those_in_closed_loops() -> None:
    def at(rate: float, request_rate_per_s: float | None = None) -> Load:
        return structs.replace(
            a_load("offline", 8, 1.0),
            throughput_per_s=Estimate(rate, rate, rate),
            request_rate_per_s=request_rate_per_s,
        )

    loads = [at(5), at(7), at(6), at(9, request_rate_per_s=9)]
    assert best_of(loads) is loads[1]
    assert best_of([at(9, request_rate_per_s=9)]) is None


@pytest.mark.parametrize(
    ("scenario", "batch", "concurrency", "preferred", "expected"),
    [
        ("offline", 32, 1, (8,), 32),
        ("online", 1, 64, (16, 32), 32),
        ("online", 1, 64, (), 48),
        ("online", 1, 4, (16, 32), 4),
    ],
)
def test_in_process_runs_the_batch_that_the_server_can_join(
    scenario: str, batch: int, concurrency: int, preferred: tuple[int, ...], expected: int
) -> None:
    point = structs.replace(
        a_load("offline", 8, 1.0), scenario=scenario, batch=batch, concurrency=concurrency
    )
    deployment = structs.replace(DEPLOYMENT, max_batch_size=48, preferred_batch_sizes=preferred)
    assert batch_in_process(point, deployment) == expected


def test_a_model_without_a_closed_loop_has_no_best_point() -> None:
    rate_alone = structs.replace(a_load("online", 0, 9.0), request_rate_per_s=9.0)
    with pytest.raises(NotAvailableError):
        best_points(toy.case(), [rate_alone])


def test_a_micro_model_has_one_best_point_and_a_full_one_of_each_scenario() -> None:
    offline, online = a_load("offline", 8, 5.0), a_load("online", 16, 7.0)
    full, micro = toy.case(), toy.case(toy.model(micro=True))
    assert best_points(full, [online, offline]) == [offline, online]
    assert best_points(micro, [online, offline]) == [online]


def test_points_on_record_count_for_the_same_machine_build_and_deployment_alone() -> None:
    stored = a_record()
    same = (stored.machine, stored.build.digest, stored.deployment)
    assert loads_of(stored, *same) == stored.loads
    assert stored.loads
    assert loads_of(None, *same) == ()
    assert loads_of(stored, structs.replace(stored.machine, cores=99), *same[1:]) == ()
    assert loads_of(stored, stored.machine, "another", stored.deployment) == ()
    other = structs.replace(stored.deployment, instances=9)
    assert loads_of(stored, stored.machine, stored.build.digest, other) == ()


# --- what is recorded ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("nice", "codes"), [(5, ["niced"]), (0, [])])
def test_a_ratio_of_a_niced_run_is_marked(nice: int, codes: list[str]) -> None:
    times = CpuTime(0.5, 0.05, 0.25, 0.3, 0.0, nice=nice)
    generator = toy.LoadGenerator(changes=lambda _job, _number: {"cpu": times})
    one: Any = OneGpu()
    plan = MeasuringPlan(budget_s=0.1)
    taken = interleaved.measure(toy.job(LoadPoint("offline", 1, 1)), one, 1, plan, take=generator.take)
    found = interleaved.record_entry(taken, a_load("offline", 1, 1.0), 2, 1, None)
    assert [mark.code for mark in found.marks] == codes
    seen = publishable(structs.replace(a_record(), efficiency=(found,)))
    assert [mark.code for one in seen.efficiency for mark in one.marks] == codes


def test_a_case_that_is_not_proven_right_shows_no_efficiency() -> None:
    assert publishable(a_record(efficiency=(an_efficiency(),))).efficiency
    assert not publishable(a_record(efficiency=(an_efficiency(),), conversion=None)).efficiency
