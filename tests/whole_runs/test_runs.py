"""Whole runs: output, records, and results of pytest plugins."""

import json
import re
import shutil
from pathlib import Path

import pytest

from fixtures.serve.launch import serve
from fixtures.serve.server_spec import Choice
from reports import history
from reports.record import schema
from reports.text.publishable import publishable
from tests.faults.classifier import write_network
from tests.whole_runs.suite import BIOPSY, FAST, GIVEN, Run, suite


def test_run_converts_serves_and_measures(first: Run) -> None:
    assert first.status == 0, first.text
    record = first.record(BIOPSY)
    assert not publishable(record).no_speed
    assert record.conversion is not None
    assert record.conversion.passed
    assert record.accuracy is not None
    assert record.accuracy.passed
    assert record.accuracy.samples == 190
    (score,) = record.accuracy.scores
    assert score.served == pytest.approx(score.framework, abs=0.004)
    assert record.serving == schema.Serving("embedded", "2.51.0", "python", "system")
    assert [(load.scenario, load.batch, load.concurrency) for load in record.loads] == [
        ("offline", 1, 1),
        ("offline", 8, 1),
        ("online", 1, 4),
    ]
    stages = {"conversion", "accuracy", "answers", "online", "offline", "reload", "efficiency"}
    assert set(record.stage_seconds) == stages


def test_load_points_have_intervals_and_consistent_components(first: Run) -> None:
    for load in first.record(BIOPSY).loads:
        for estimate in (load.throughput_per_s, *load.latency_ms.values()):
            assert 0 <= estimate.low <= estimate.value <= estimate.high
        assert sum(load.components_ms.values()) == pytest.approx(load.latency_ms["avg"].value, rel=1e-6)
        # Little's law: requests in flight are their rate times their latency.
        in_flight = load.throughput_per_s.value / load.batch * load.latency_ms["avg"].value / 1e3
        assert in_flight == pytest.approx(load.concurrency, rel=0.25)


def test_each_measurement_is_in_history(first: Run) -> None:
    rows, _ = history.read(first.results / "history")
    accuracy = first.record(BIOPSY).accuracy
    assert accuracy is not None
    assert accuracy.origin is not None
    assert {row.run for row in rows} == {accuracy.origin.run}
    assert {row.kind for row in rows} == {"load", "accuracy", "efficiency"}
    assert len({row.at for row in rows if row.kind == "load"}) == 3


def test_pytest_benchmark_has_real_latencies(first: Run) -> None:
    entries = json.loads((first.results / "benchmark.json").read_text())["benchmarks"]
    figures = {
        (entry["extra_info"]["scenario"], entry["extra_info"]["batch"]): (
            entry["stats"]["rounds"],
            pytest.approx(entry["stats"]["mean"] * 1e3),
            pytest.approx(entry["stats"]["median"] * 1e3),
            entry["extra_info"]["throughput_per_s"],
        )
        for entry in entries
    }
    assert figures == {
        (load.scenario, load.batch): (
            load.requests,
            load.latency_ms["avg"].value,
            load.latency_ms["p50"].value,
            load.throughput_per_s.value,
        )
        for load in first.record(BIOPSY).loads
    }


def test_best_point_is_measured_in_process(first: Run) -> None:
    record = first.record(BIOPSY)
    assert record.price_per_hour == 0.09
    (efficiency,) = record.efficiency
    best = max(record.loads, key=lambda load: load.throughput_per_s.value)
    assert (efficiency.scenario, efficiency.batch, efficiency.concurrency) == (
        best.scenario,
        best.batch,
        best.concurrency,
    )
    assert efficiency.flops_per_inference == pytest.approx(2 * (30 * 64 + 64 * 2), rel=0.01)
    assert efficiency.pairs >= 5


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The options of runs of two networks with other deployment settings."""
    folder = tmp_path_factory.mktemp("networks")
    for name in ("left", "right"):
        write_network(folder / f"{name}.onnx")
    files = [arg for name in ("left", "right") for arg in ("--onnx", f"{name}={folder / name}.onnx")]
    return (*files, "--deployment", "instances=2,max_queue_delay_us=100,preferred_batch_sizes=4+8")


@pytest.fixture(scope="module")
def by_workers(networks: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of both networks by two workers of xdist."""
    folder = tmp_path_factory.mktemp("by_workers")
    options = ("-n", "2", "-k", "onnx and (accuracy or (left and offline))", *FAST)
    return suite(*networks, *options, repos=folder / "repos", results=folder / "results")


def test_workers_share_cases_without_loss(by_workers: Run) -> None:
    assert by_workers.status == 0, by_workers.text
    assert len(by_workers.record("cpu-left-onnx-fp32").loads) == 2
    for model in ("left", "right"):
        case = f"cpu-{model}-onnx-fp32"
        assert by_workers.record(case).accuracy is not None
        assert re.search(rf"\| {model} +\| ONNX +\| FP32 ", by_workers.text)
        # One worker ran the whole case, and its lines name it.
        (worker,) = set(re.findall(rf"\[(gw\d)\] {case}: start Triton", by_workers.text))
        assert re.search(rf"\[{worker}\] {case}: (built|unchanged)", by_workers.text)


def test_overridden_settings_are_served_and_recorded(by_workers: Run) -> None:
    record = by_workers.record("cpu-left-onnx-fp32")
    assert record.deployment == schema.Deployment(32, 2, (4, 8), 100, False, True)


def test_second_run_reuses_build_and_replaces_results(
    networks: tuple[str, ...], by_workers: Run, tmp_path: Path
) -> None:
    case = "cpu-left-onnx-fp32"
    repos, results = by_workers.results.parent / "repos", shutil.copytree(by_workers.results, tmp_path / "r")
    selection = ("-q", "-k", f"{case} and offline and b001", *FAST)
    again = suite(*networks, *selection, repos=repos, results=results)
    assert again.status == 0, again.text
    assert f"{case}: unchanged, reused" in again.text
    before, after = by_workers.record(case).loads, again.record(case).loads
    assert [(load.scenario, load.batch) for load in after] == [("offline", 1), ("offline", 8)]
    assert [old == new for old, new in zip(before, after, strict=True)] == [False, True]
    assert again.record(case).accuracy is not None


def test_separately_started_server_receives_models(given: tuple[str, ...], tmp_path: Path) -> None:
    models, results = tmp_path / "models", tmp_path / "results"
    models.mkdir()
    with serve(Choice("embedded"), models, tmp_path / "log", device="cpu", open_to_all=True) as server:
        options = (
            "--triton",
            server.address,
            "--target",
            "cpu",
            *FAST[:2],
            "--batches",
            "8",
            "--concurrencies",
            "4",
        )
        selection = ("-k", f"{GIVEN} and not efficiency")
        done = suite(*given, *selection, *options, repos=tmp_path / "repos", results=results)
        assert done.status == 0, done.text
        loaded = [statistics.name for statistics in server.client.get_inference_statistics().model_stats]
        assert loaded == [], "the model is unloaded at the end"
    record = done.record(GIVEN)
    assert record.serving == schema.Serving("remote", "2.51.0", "python", "none")
    assert record.machine.is_client
    assert record.accuracy is not None
    assert len(record.loads) == 2
    assert not list(models.iterdir()), "nothing is put on the server's disk"
