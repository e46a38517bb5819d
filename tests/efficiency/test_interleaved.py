"""Served throughput against in-process throughput and another format: turns, points, records."""

import math
from typing import Any, cast

import numpy as np
import pytest
from msgspec import structs

from tests import examples, toy
from tests.conftest import DEPLOYMENT
from tritonproof.cases import cases_of, reference_of
from tritonproof.efficiency import interleaved
from tritonproof.efficiency.interleaved import (
    Turns,
    batch_in_process,
    best_points,
    is_done,
    loads_of,
    mean_of,
    reference_load,
    take_turns,
)
from tritonproof.errors import NotAvailableError
from tritonproof.host.targets import EVERY_TARGET
from tritonproof.measure.job import Job, PassResult
from tritonproof.measure.stopping import MeasuringPlan
from tritonproof.record.schema import Estimate, Load, best_of
from tritonproof.reports.text.publishable import publishable
from tritonproof.spec import LoadPoint

QUICK = MeasuringPlan(budget_s=0.1)
RECORD = examples.record()


def turns_of(served: Any, in_process: Any, spent_s: float = 0.0) -> Turns:
    return Turns({"served": served, "in_process": in_process}, spent_s)


def test_each_turn_runs_all_sides_in_random_order() -> None:
    order: list[str] = []

    def side(name: str, rate: float) -> Any:
        return lambda: order.append(name) or rate  # type: ignore[func-returns-value]

    rates = {"served": 90.0, "in_process": 100.0, "reference": 60.0}
    sides = {name: side(name, rate) for name, rate in rates.items()}
    turns = take_turns(sides, lambda so_far: len(so_far.per_s["served"]) == 40)

    rounds = [tuple(order[place : place + 3]) for place in range(0, len(order), 3)]
    assert {frozenset(each) for each in rounds} == {frozenset(rates)}
    assert len(set(rounds)) > 1
    assert turns.per_s == {name: [rate] * 40 for name, rate in rates.items()}
    assert (turns.ratio().value, turns.ratio("reference").value) == pytest.approx((0.9, 1.5))


@pytest.mark.parametrize(
    ("count", "spread", "spent_s", "slow", "done"),
    [
        (4, 0.0, 1, False, False),
        (5, 0.0, 1, False, True),
        (5, 0.2, 1, False, False),
        (5, 0.2, 9.9, False, True),
        (3, 0.2, 99, False, False),
        (3, 0.2, 99, True, True),
    ],
)
def test_turns_end_once_ratio_is_known_or_budget_spent(
    count: int, spread: float, spent_s: float, *, slow: bool, done: bool
) -> None:
    turns = turns_of([1 + spread * (-1) ** turn for turn in range(count)], [1.0] * count, spent_s)
    assert is_done(turns, MeasuringPlan(precision_target=0.05, budget_s=10), slow=slow) is done


def test_ratio_interval_has_stated_coverage() -> None:
    generator = np.random.default_rng(1)
    intervals = [mean_of(values) for values in 0.9 * np.exp(generator.normal(0, 0.1, (1000, 5)))]
    assert 930 <= sum(interval.low <= 0.9 <= interval.high for interval in intervals) <= 970


class Process:
    """A worker that runs 25 batches a second, once it has compiled in its first run."""

    is_compiled = False

    def batches_per_s(self, _batch: int, _least_s: float, _least: int) -> float:
        rate_per_s, self.is_compiled = 25.0 if self.is_compiled else 0.1, True
        return rate_per_s


def measure(
    request_s: float = 0.01, *, is_cold: bool = False, gpus: int = 1, batch: int = 1
) -> tuple[Turns, int]:
    """Measure a point in turns with a worker; returns the number of passes of the load generator too."""
    job = toy.job(LoadPoint("offline", batch, 1), request_s=request_s)
    generator, process = toy.LoadGenerator(), cast(Any, Process())

    def run_pass(job: Job, _window_s: float) -> PassResult:
        return generator.run_pass(job, 0.12)

    cold = [job] * is_cold
    turns = interleaved.measure(job, process, batch, QUICK, run_pass=run_pass, gpus=gpus, cold=cold)
    return turns, len(generator.calls)


def test_two_gpus_are_compared_with_twice_one_in_process_once_it_has_compiled() -> None:
    single, double = (measure(gpus=gpus)[0] for gpus in (1, 2))
    assert set(single.per_s["in_process"]) == {25.0}
    assert set(double.per_s["in_process"]) == {50.0}


def test_rates_count_inferences_of_each_batch() -> None:
    single, batched = (measure(batch=batch)[0].per_s for batch in (1, 8))
    assert set(batched["in_process"]) == {200.0}
    assert np.mean(batched["served"]) == pytest.approx(8 * np.mean(single["served"]), rel=0.2)


@pytest.mark.parametrize(
    ("is_cold", "request_s", "uncounted"), [(False, 0.01, 0), (True, 0.01, 1), (True, 2, 0)]
)
def test_cold_model_runs_once_before_measuring(is_cold: bool, request_s: float, uncounted: int) -> None:
    turns, passes = measure(request_s, is_cold=is_cold)
    assert passes - len(turns.per_s["served"]) == uncounted


def test_best_point_is_fastest_closed_loop() -> None:
    """A full model has a best point of each scenario, a micro model has one."""

    def at(rate: float, request_rate_per_s: float | None = None) -> Load:
        return structs.replace(examples.load("offline", 8, rate), request_rate_per_s=request_rate_per_s)

    loads = [at(5), at(7), at(6), at(9, request_rate_per_s=9)]
    assert best_of(loads) is loads[1]
    assert best_of(loads[3:]) is None
    with pytest.raises(NotAvailableError):
        best_points(toy.case(), loads[3:])
    offline, online = examples.load("offline", 8, 5.0), examples.load("online", 16, 7.0)
    assert best_points(toy.case(), [online, offline]) == [offline, online]
    assert best_points(toy.case(toy.model(micro=True)), [online, offline]) == [online]


@pytest.mark.parametrize(
    ("scenario", "size", "preferred", "expected"),
    [
        ("offline", 32, (8,), 32),
        ("online", 64, (16, 32), 32),
        ("online", 64, (), 48),
        ("online", 4, (16, 32), 4),
    ],
)
def test_in_process_batch_matches_server_batching(
    scenario: str, size: int, preferred: tuple[int, ...], expected: int
) -> None:
    deployment = structs.replace(DEPLOYMENT, max_batch_size=48, preferred_batch_sizes=preferred)
    assert batch_in_process(examples.load(scenario, size, 1.0), deployment) == expected


@pytest.mark.parametrize(
    ("changes", "loads", "reference"),
    [
        ({}, True, True),
        ({"conversion": examples.failed_conversion()}, True, False),
        ({"conversion": None}, True, False),
        ({"accuracy": examples.failed_accuracy()}, True, False),
        ({"failures": (examples.step_failure(),)}, True, False),
        ({"loads": ()}, False, False),
        ({"machine": structs.replace(RECORD.machine, cores=3)}, False, False),
        ({"build": structs.replace(RECORD.build, digest="77aa")}, False, False),
        ({"deployment": structs.replace(RECORD.deployment, instances=2)}, False, False),
    ],
    ids=lambda value: next(iter(value), "as it is") if isinstance(value, dict) else "",
)
def test_recorded_points_need_same_machine_build_and_deployment(
    changes: dict[str, Any], loads: bool, reference: bool
) -> None:
    """A reference must also be right."""
    this = RECORD.machine, RECORD.build.digest, RECORD.deployment
    record = structs.replace(RECORD, **changes)
    assert bool(loads_of(record, *this)) is loads
    best = reference_load(record, *this)
    assert (best is not None and (best.scenario, best.concurrency) == ("online", 32)) is reference
    assert loads_of(None, *this) == ()
    assert reference_load(None, *this) is None


def test_reference_is_published_format_or_onnx_fp32() -> None:
    by_name = {str(case): case for target in EVERY_TARGET for case in cases_of(target)}
    assert str(reference_of(by_name["cpu-resnet50-micro-ts-trace-fp32"])) == "cpu-resnet50-micro-onnx-fp32"
    assert str(reference_of(by_name["a100-resnet50-onnx-fp32"])) == "a100-resnet50-onnx-trt-fp16"


def test_turns_are_summarized_by_geometric_means() -> None:
    turns, peak = turns_of((90.0, 110.0), (100.0, 100.0)), Estimate(2e9, 1e9, 4e9)
    entry = interleaved.efficiency_entry(
        turns, examples.load("offline", 8, 1.0), 2, 8, 1e6, peak_flops_per_s=peak, gpus=2, spinning=True
    )
    assert entry.ratio.value == pytest.approx(math.sqrt(0.9 * 1.1))
    assert entry.peak_flops_per_s == Estimate(4e9, 2e9, 8e9), "of both GPUs"
    assert (entry.pairs, entry.in_process_batch, entry.threads, entry.spinning) == (2, 8, 2, True)


@pytest.mark.parametrize(
    ("served_per_s", "in_process", "codes"),
    [
        ((104.0, 104.0), 100.0, []),
        ((106.0, 106.0), 100.0, ["faster-than-in-process"]),
        ((127.0, 128.0, 126.0), 200.0, ["not-repeated"]),
        ((73.0, 72.0, 74.0), 200.0, ["not-repeated"]),
        ((108.0, 109.0, 107.0), 200.0, []),  # two figures known within 5 % may differ so much
        ((80.0, 200.0, 120.0), 200.0, []),  # too much spread to show a change
    ],
)
def test_doubtful_ratio_is_marked(
    served_per_s: tuple[float, ...], in_process: float, codes: list[str]
) -> None:
    """The load point was measured with 100 inferences per second before."""
    turns = turns_of(served_per_s, [in_process] * len(served_per_s))
    entry = interleaved.efficiency_entry(turns, examples.load("offline", 1, 100.0), 2, 1, None)
    (published,) = publishable(structs.replace(RECORD, efficiency=(entry,))).efficiency
    assert [mark.code for mark in published.marks] == codes
