"""Whole runs: output, records, and failures that a user meets."""

import re
from pathlib import Path

import numpy as np
import pytest

from fixtures.outcomes import STATUS
from tests import classifier, sample_records
from tests.classifier import write_network
from tests.helpers import present
from tests.serve.programs import serve_everybody
from tests.whole_runs.suite import BIOPSY, FAST, GIVEN, Run, suite
from tritonproof.record.setup import Deployment, Serving
from tritonproof.reports.publishable import publishable
from tritonproof.serve.server_spec import ServerSetup, ServerSpec


def test_run_converts_serves_and_measures(first: Run) -> None:
    assert first.status == 0, first.text
    record = first.record(BIOPSY)
    assert not publishable(record).why_no_speed
    assert present(record.conversion).passed
    accuracy = present(record.accuracy)
    assert (accuracy.passed, accuracy.samples) == (True, 190)
    (score,) = accuracy.scores
    assert score.served == pytest.approx(score.framework, abs=0.004)
    assert record.serving == Serving("embedded", "2.51.0", "python", "system")
    points = [sample_records.load_point(*one) for one in (("offline", 1), ("offline", 8), ("online", 4))]
    assert [result.point for result in record.points] == points


def test_fastest_point_is_measured_in_process(first: Run) -> None:
    record = first.record(BIOPSY)
    assert record.price_per_hour == 0.09
    (efficiency,) = record.efficiency
    best = max(record.points, key=lambda result: result.throughput_per_s.value)
    assert efficiency.point == best.point
    assert efficiency.flops_per_inference == pytest.approx(2 * (30 * 64 + 64 * 2), rel=0.01)
    assert efficiency.turn_count >= 5


def test_workers_share_cases_without_loss(tmp_path: Path) -> None:
    """Two workers of xdist run two networks with other settings of the deployment."""
    network = tmp_path / "network.onnx"
    write_network(network)
    files = ("--onnx", f"left={network}", "--onnx", f"right={network}")
    settings = ("--deployment", "instances=2,max_queue_delay_us=100,preferred_batch_sizes=4+8")
    options = ("-n", "2", "-k", "onnx and (accuracy or (left and offline))", *settings, *FAST)

    by_workers = suite(*files, *options, repos=tmp_path / "repos", results=tmp_path / "results")

    assert by_workers.status == 0, by_workers.text
    left = by_workers.record("cpu-left-onnx-fp32")
    assert len(left.points) == 2
    assert left.deployment == Deployment(32, 2, (4, 8), 100, False, True), "the options change it"
    for model in ("left", "right"):
        case = f"cpu-{model}-onnx-fp32"
        assert by_workers.record(case).accuracy is not None
        assert re.search(rf"\| {model} +\| ONNX +\| FP32 ", by_workers.text)
        # One worker ran the whole case, and its lines name it.
        (worker,) = set(re.findall(rf"\[(gw\d)\] {case}: start Triton", by_workers.text))
        assert re.search(rf"\[{worker}\] {case}: built in", by_workers.text)


def test_separately_started_server_receives_models(given: tuple[str, ...], tmp_path: Path) -> None:
    models, results = tmp_path / "models", tmp_path / "results"
    models.mkdir()
    with serve_everybody(ServerSpec("embedded"), ServerSetup(models, tmp_path / "log", "cpu")) as server:
        options = ("--triton", server.address, "--target", "cpu", *FAST[:2], "--batches", "8", *FAST[4:])
        selection = ("-k", f"{GIVEN} and not efficiency")
        done = suite(*given, *selection, *options, repos=tmp_path / "repos", results=results)
        assert done.status == 0, done.text
        loaded = [statistics.name for statistics in server.client.get_inference_statistics().model_stats]
        assert loaded == [], "the model is unloaded at the end"
    record = done.record(GIVEN)
    assert record.serving == Serving("remote", "2.51.0", "python", "none")
    assert record.machine.is_client
    assert record.accuracy is not None
    assert len(record.points) == 2
    assert not list(models.iterdir()), "nothing is put on the server's disk"


def test_worse_model_fails_gate_and_shows_no_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifier, "WEIGHTS", np.array([[1, -1], [1, -1], [1, -1], [-1, 1]], np.float32))
    case = "cpu-left-onnx-fp32"
    selection = ("-k", f"{case} and (conversion or accuracy or b001-c001)", "--point-budget-s", "0.5")
    done = suite(*classifier.write_two(tmp_path), *selection, repos=tmp_path / "repos", results=tmp_path)
    assert done.status == STATUS["accuracy"]
    assert re.search(r"served accuracy [\d.]+ % is below its floor of 98\.0 %", done.text)
    assert done.record(case).points
    assert "network.onnx, sha256" in done.record(case).build.weights_source
