"""The search and a comparison in whole runs, of a runtime that sleeps in each request."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from fixtures.outcomes import STATUS
from tests.helpers import ROOT, git, present
from tests.whole_runs.suite import GIVEN, suite
from tritonproof.build.runtime_files import RUNTIMES
from tritonproof.record.setup import Deployment
from tritonproof.reports.speed_text import comparison_text, search_text
from tritonproof.serve.launch import serve
from tritonproof.serve.server_spec import ServerSetup, ServerSpec

SLEEP_S = 0.004
"""Seconds that each request sleeps, so that the searches' loads leave the cores to other tests."""
SMALL = ("--batches", "1,8", "--concurrencies", "1,4", "--point-budget-s", "0.5")
Slowed = Callable[[float], tuple[str, ...]]


@pytest.fixture
def slowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slowed:
    """`slowed(0.04)`: the options of a run whose ONNX Runtime sleeps for so many seconds in each request."""

    def options(seconds: float) -> tuple[str, ...]:
        source = (RUNTIMES / "onnx.py").read_text()
        slowly = f"= __import__('time').sleep({seconds}) or session.run("
        slow_source = source.replace("= session.run(", slowly)
        assert slow_source != source
        runtimes = tmp_path / "runtimes"
        shutil.copytree(RUNTIMES, runtimes)
        (runtimes / "onnx.py").write_text(slow_source)
        (tmp_path / "slowed.py").write_text(
            "from pathlib import Path\nfrom tritonproof.build import runtime_files\n"
            f"runtime_files.RUNTIMES = Path({str(runtimes)!r})\n"
        )
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
        return ("-p", "slowed")

    return options


def test_winner_configuration_loads_elsewhere(given: tuple[str, ...], slowed: Slowed, tmp_path: Path) -> None:
    # Any machine keeps a budget of ten seconds, however busy it is.
    chosen = (*given, "-v", "-k", f"{GIVEN} and search", "--latency-budget-ms", "10000", *SMALL)
    deployment = ("--deployment", "instances=1,preferred_batch_sizes=4+8,max_queue_delay_us=100")
    done = suite(*chosen, *deployment, *slowed(SLEEP_S), repos=tmp_path / "repos", results=tmp_path)

    assert done.status == 0, done.text
    search = present(done.record(GIVEN).search)
    assert (search.latency_budget_ms, search.percentile, search.verdict) == (10_000, "p99", "passed")
    assert search.configurations == 2
    assert search.pass_count >= 8 + 6
    accuracy = present(search.accuracy)
    assert (accuracy.passed, accuracy.samples) == (True, 64)
    assert search.result.throughput_per_s.value > 0
    assert present(search.result.answers_under_load).count > 0
    assert search.deployment == Deployment(32, 1, (4, 8), 100, cuda_graphs=False, warmup=True)
    assert search_text(search) in done.text
    assert f"`{search.config}`" in done.text, "the summary says where the configuration is"

    text = (tmp_path / "cpu" / search.config).read_text()
    config = text_format.Parse(text, model_config_pb2.ModelConfig())
    assert config.HasField("dynamic_batching") == (search.result.point.scenario == "online")
    models = tmp_path / "taken" / GIVEN
    shutil.copytree(tmp_path / "repos" / "cpu" / GIVEN, models)
    (models / "config.pbtxt").write_text(text)
    with serve(ServerSpec("embedded"), ServerSetup(models.parent, tmp_path / "log", "cpu")) as server:
        server.client.load_model(GIVEN)
        assert server.client.is_model_ready(GIVEN)


def test_impossible_budget_fails_with_lowest_latency(
    given: tuple[str, ...], slowed: Slowed, tmp_path: Path
) -> None:
    stale = tmp_path / "cpu" / f"{GIVEN}.search" / "config.pbtxt"
    stale.parent.mkdir(parents=True)
    stale.write_text("of another search")

    budget = ("--latency-budget-ms", "0.01", "--latency-percentile", "90")
    chosen = (*given, "-k", f"{GIVEN} and search", "--batches", "1", "--concurrencies", "1", *budget)
    deployment = ("--deployment", "instances=1,preferred_batch_sizes=4+8,max_queue_delay_us=0")
    options = (*chosen, "--point-budget-s", "0.5", *deployment, *slowed(SLEEP_S))
    done = suite(*options, repos=tmp_path / "repos", results=tmp_path)

    assert done.status == STATUS["speed"]
    search = present(done.record(GIVEN).search)
    assert (search.verdict, search.accuracy, search.config) == ("failed", None, "")
    assert not stale.exists()


def test_slower_runtime_than_a_commits_fails_the_run(
    given: tuple[str, ...], slowed: Slowed, tmp_path: Path
) -> None:
    """The commit's build has its own runtime."""
    # Many times the model's own time: a pass lasts several latencies, and eight pairs show the difference.
    chosen = f"{GIVEN} and (b001-c004 or test_conversion or test_accuracy)"
    point = ("-v", "-k", chosen, "--concurrencies", "4", "--point-budget-s", "60")
    options = (*given, *point, *slowed(0.04), "--against", "HEAD")
    done = suite(*options, repos=tmp_path / "repos", results=tmp_path)

    assert done.status == STATUS["speed"], done.text
    commit = git(ROOT, "rev-parse", "HEAD")
    folder = tmp_path / "repos" / ".against" / commit / "model_repos" / "cpu" / GIVEN
    assert (folder / "config.pbtxt").is_file()
    comparison = present(done.record(GIVEN).points[0].comparison)
    assert (comparison.verdict, comparison.baseline_name) == ("failed", f"HEAD ({commit[:7]})")
    assert comparison_text(comparison) in done.text
    assert "Verdict" in done.text
