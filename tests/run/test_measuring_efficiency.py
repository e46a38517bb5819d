"""The fastest load points among measured ones and on record, and what is recorded of one in turns."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec import structs

from tests import sample_records, toy
from tests.helpers import present, preset
from tests.run.conftest import RunOf
from tests.run.stand_in_case import MODEL, prepare
from tests.sample_records import SERVING
from tritonproof.base.errors import NotAvailableError, ProofError
from tritonproof.cases import cases_of, reference_of
from tritonproof.efficiency import in_turns
from tritonproof.efficiency.in_turns import Turns, batch_in_process
from tritonproof.efficiency.worker import peak_kind
from tritonproof.host.targets import EVERY_TARGET
from tritonproof.record import correctness, fields
from tritonproof.record.speed import LoadPoint, fastest_closed_loop
from tritonproof.reports.publishable import publishable
from tritonproof.run import measuring_efficiency
from tritonproof.run.case_run import MeasuredPoint
from tritonproof.run.measuring_efficiency import fastest_by_scenario, known_results, results_of

RECORD = sample_records.record()


def test_fastest_point_is_one_of_closed_loops() -> None:
    """A full model has a fastest point of each scenario, a micro model has one."""
    closed = [sample_records.measured("offline", 8, per_s) for per_s in (5, 7, 6)]
    results = [*closed, sample_records.at_rate(9, 9)]
    assert fastest_closed_loop(results) is results[1]
    assert fastest_closed_loop(results[3:]) is None
    with pytest.raises(NotAvailableError):
        fastest_by_scenario(toy.case(), results[3:])
    offline, online = sample_records.measured("offline", 8, 5.0), sample_records.measured("online", 16, 7.0)
    assert fastest_by_scenario(toy.case(), [online, offline]) == [offline, online]
    assert fastest_by_scenario(toy.case(toy.model(micro=True)), [online, offline]) == [online]


def test_this_runs_points_join_those_on_record(run_of: RunOf) -> None:
    run = run_of()
    light, heavy, anew = (sample_records.measured("online", *one) for one in ((1, 5.0), (32, 9.0), (1, 6.0)))
    build = structs.replace(RECORD.build, digest=run.build.facts.digest)
    of_this = {"case": run.case.key, "machine": run.machine, "deployment": run.deployment, "build": build}
    sample_records.store(run.settings.results, structs.replace(RECORD, points=(light, heavy), **of_this))
    run.measured = {anew.point: MeasuredPoint(anew, []), LoadPoint("online", 1, 4): ProofError("refused")}
    assert known_results(run) == [anew, heavy]


@pytest.mark.parametrize(
    ("changes", "points", "reference"),
    [
        ({}, True, True),
        ({"conversion": sample_records.failed_conversion()}, True, False),
        ({"conversion": None}, True, False),
        ({"accuracy": sample_records.failed_accuracy()}, True, False),
        ({"accuracy": None}, True, False),
        ({"gates": (correctness.GateResult("transport", 8, "HTTP", "other answers"),)}, True, False),
        ({"points": (sample_records.wrong_under_load(RECORD.points[0]),)}, True, False),
        ({"failures": (sample_records.step_failure(),)}, True, False),
        ({"points": ()}, False, False),
        ({"serving": structs.replace(SERVING, triton="2.40.0")}, False, False),
        ({"serving": structs.replace(SERVING, shared_memory="none")}, False, False),
        ({"serving": None}, False, False),
        ({"machine": structs.replace(RECORD.machine, cores=3)}, False, False),
        ({"build": structs.replace(RECORD.build, digest="77aa")}, False, False),
        ({"deployment": structs.replace(RECORD.deployment, instances=2)}, False, False),
    ],
    ids=lambda value: next(iter(value), "as it is") if isinstance(value, dict) else "",
)
def test_recorded_points_need_same_machine_build_deployment_and_server(
    changes: dict[str, Any], points: bool, reference: bool, run_of: RunOf
) -> None:
    """A reference must also be right."""
    this = run_of(), RECORD.build.digest, RECORD.deployment
    record = structs.replace(RECORD, **{"machine": this[0].machine, **changes})
    assert bool(results_of(record, *this)) is points
    assert bool(results_of(publishable(record), *this)) is reference
    assert results_of(None, *this) == ()


def test_reference_is_published_format_or_onnx_fp32() -> None:
    by_name = {str(case): case for target in EVERY_TARGET for case in cases_of(target)}
    assert str(reference_of(by_name["cpu-resnet50-micro-ts-trace-fp32"])) == "cpu-resnet50-micro-onnx-fp32"
    assert str(reference_of(by_name["a100-resnet50-onnx-fp32"])) == "a100-resnet50-onnx-trt-fp16"


def test_entry_joins_turns_process_and_the_peak_of_all_gpus(
    run_of: RunOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The case is its model's reference itself."""
    case, best = replace(toy.case(MODEL), gpus=2), sample_records.measured("offline", 4, 95.0)
    run = run_of(prepare(case=case))
    run.measured = {best.point: MeasuredPoint(best, [])}
    run.model_run.suite_run.peaks[peak_kind(run.case, run.deployment)] = fields.Estimate(2e9, 1e9, 4e9)
    preset(run.model_run, flops_per_inference=7.0)
    monkeypatch.setattr(measuring_efficiency, "reference_of", lambda case: case)
    worker, turns = Mock(threads=2, spinning=True), Turns({"served": (90, 110), "in_process": (100, 100)})
    monkeypatch.setattr(measuring_efficiency, "artifact_worker", lambda *_, **__: nullcontext(worker))
    monkeypatch.setattr(in_turns, "measure_in_turns", taken := Mock(return_value=turns))
    (entry,) = measuring_efficiency.measure_efficiency(run)
    assert taken.call_args.args[1:] == (worker, 4, run.settings.plan(), ["served"])
    assert (entry.in_process_batch, entry.threads, entry.spinning, entry.turn_count) == (4, 2, True, 2)
    assert (entry.ratio, entry.flops_per_inference, run.loader.is_cold) == (turns.ratio(), 7.0, False)
    assert entry.peak_flops_per_s == fields.Estimate(4e9, 2e9, 8e9)
    assert present(entry.reference).ratio.value == 1.0


@pytest.mark.parametrize(
    ("scenario", "size", "preferred", "gpus", "expected"),
    [
        ("offline", 32, (8,), 4, 32),
        ("online", 64, (16, 32), 1, 32),
        ("online", 64, (), 1, 48),
        ("online", 4, (16, 32), 1, 4),
        ("online", 30, (16, 32), 4, 8),
    ],
)
def test_in_process_batch_matches_server_batching(
    scenario: str, size: int, preferred: tuple[int, ...], gpus: int, expected: int
) -> None:
    deployment = structs.replace(toy.DEPLOYMENT, max_batch_size=48, preferred_batch_sizes=preferred)
    assert batch_in_process(sample_records.measured(scenario, size, 1.0), deployment, gpus) == expected
