"""The search in whole runs of the suite."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from fixtures.plugin.exit import STATUS
from fixtures.serve.launch import Choice
from fixtures.serve.server import serve
from fixtures.spec import Deployment
from reports.words.latency_budget import found_text
from tests.plugin.test_runs import ROOT, suite
from tests.plugin.test_selection import collect

ONNX = "cpu-resnet50-micro-onnx-fp32"
SMALL = ("--batches", "1,8", "--concurrencies", "1,4", "--point-budget-s", "0.5")


def test_the_winner_can_be_taken_away(repos: Path, tmp_path: Path) -> None:
    # Any machine keeps a budget of ten seconds, however busy it is.
    done = suite(
        *("-v", "-k", f"{ONNX} and search", "--latency-budget-ms", "10000", *SMALL),
        *("--deployment", "instances=1,preferred_batch_sizes=4+8,max_queue_delay_us=100"),
        repos=repos,
        results=tmp_path,
    )

    assert done.status == 0, done.text
    found = done.record(ONNX).search
    assert found is not None
    assert (found.budget_ms, found.percentile, found.verdict) == (10_000, "p99", "within")
    assert found.configurations == 2
    assert found.passes >= 8 + 6
    assert found.accuracy is not None
    assert found.accuracy.passed
    assert found.accuracy.samples == 500
    assert found.load.throughput_per_s.value > 0
    assert found.deployment == Deployment(32, 1, (4, 8), 100, cuda_graphs=False, warmup=True)
    figure = re.search(rf"test_search\[{ONNX}\] PASSED (.*)", done.text)
    assert figure is not None
    assert figure[1].startswith(found_text(found))
    assert re.match(r"[\d,]+ infer/s with p99 [\d.]+ ms \([\d.]+ to [\d.]+\) within 10,000 ms: ", figure[1])
    assert re.search(
        r"configuration 2 of 2, online, instances 1, preferred 4 8, delay 100 µs: best so far", done.text
    )
    assert f"`{found.config}`" in done.text, "the summary says where the configuration is"

    text = (tmp_path / "cpu" / found.config).read_text()
    config = text_format.Parse(text, model_config_pb2.ModelConfig())
    assert config.HasField("dynamic_batching") == (found.load.scenario == "online")
    models = tmp_path / "taken" / ONNX
    shutil.copytree(repos / "cpu" / ONNX, models)
    (models / "config.pbtxt").write_text(text)
    with serve(Choice("embedded"), models.parent, tmp_path / "log", device="cpu") as server:
        server.client.load_model(ONNX)
        assert server.client.is_model_ready(ONNX)


def test_a_budget_that_nothing_keeps_fails_with_the_lowest_latency(repos: Path, tmp_path: Path) -> None:
    stale = tmp_path / "cpu" / f"{ONNX}.search" / "config.pbtxt"
    stale.parent.mkdir(parents=True)
    stale.write_text("of another search")

    done = suite(
        *("-k", f"{ONNX} and search", "--latency-budget-ms", "0.01", "--latency-percentile", "90", *SMALL),
        *("--deployment", "instances=1,preferred_batch_sizes=4+8,max_queue_delay_us=0"),
        repos=repos,
        results=tmp_path,
    )

    assert done.status == STATUS["speed"]
    assert re.search(
        r"none of 2 configurations keeps p90 within 0.01 ms; the lowest reached is [\d.]+ ms", done.text
    )
    found = done.record(ONNX).search
    assert found is not None
    assert (found.verdict, found.accuracy, found.config) == ("beyond", None, "")
    assert not stale.exists()


def test_without_a_budget_there_is_no_search_and_no_word_of_it() -> None:
    ids, printed = collect("-k", "cpu and resnet50-micro and onnx")
    assert ids
    assert "search" not in printed


def test_with_a_budget_the_search_is_the_last_stage_of_a_case() -> None:
    ids, _ = collect("-k", ONNX, "--latency-budget-ms", "7", "--batches", "1")
    names = [re.findall(r"::(\w+)", one)[0] for one in ids]
    assert (len(names), names[-1]) == (6, "test_search")


@pytest.mark.parametrize(
    "asked",
    [
        ("benchmarks", "-k", f"{ONNX} and search"),
        ("benchmarks/test_search.py",),
    ],
)
def test_a_search_by_name_without_a_budget_says_what_it_needs(asked: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *asked]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    printed = done.stdout + done.stderr
    assert "::" not in done.stdout
    assert "the search needs a latency budget" in printed
    assert "add --latency-budget-ms MS" in printed
    assert "Caught" not in printed
    assert "selection.py" not in printed
