"""The served throughput beside the same artifact in process, and beside the machine's peak."""

import dataclasses
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fixtures.build.repository import Build
from fixtures.cases import cases_of
from fixtures.efficiency import in_process as worker_process
from fixtures.efficiency import peak
from fixtures.efficiency.in_process import in_process, peak_of
from fixtures.efficiency.turns import Turns, batch_in_process, best_of, mean_of, summarise, take_turns
from fixtures.errors import ProofError
from fixtures.frameworks import flops
from fixtures.host.targets import CPU
from fixtures.measure import load_points
from fixtures.measure.job import input_data
from fixtures.measure.load_points import Plan
from fixtures.models import all_models
from fixtures.serve.launch import Choice
from fixtures.serve.server import serve
from fixtures.spec import LoadPoint, Tensor
from reports import tables
from reports.record import files
from reports.record.schema import Efficiency, Estimate, Load
from reports.words.serving_cost import efficiency_section, efficiency_text
from tests.conftest import DEPLOYMENT, DOUBLING, MakeBuild
from tests.samples import load as a_load
from tests.samples import record as a_record

SAMPLE = np.array([[1, 2, 3, 4]], np.float32)
PLAN = Plan(budget_s=1.0)

NOTING = """
import json
def load(artifact, settings):
    def predict(arrays):
        (artifact.parent / "seen.json").write_text(json.dumps([arrays[0].tolist(), settings, str(artifact)]))
        return arrays
    return predict
"""
BROKEN = "def load(artifact, settings):\n    raise RuntimeError('no such operator')\n"
DYING = "import os\ndef load(artifact, settings):\n    return lambda arrays: os._exit(7)\n"
HANGING = "import time\ndef load(artifact, settings):\n    return lambda arrays: time.sleep(60)\n"
SLEEPING = "import time\ndef load(artifact, settings):\n    return lambda arrays: time.sleep(0.005) or [2 * arrays[0]]\n"
SLOWER_SERVED = """
import sys, time
SECONDS = 0.020 if "triton_python_backend_utils" in sys.modules else 0.005
def load(artifact, settings):
    return lambda arrays: time.sleep(SECONDS) or [2 * arrays[0]]
"""


def sample_of(build: Build) -> dict[str, np.ndarray]:
    return {build.case.model.inputs[0].name: SAMPLE}


def run_once(build: Build) -> None:
    with in_process(build, DEPLOYMENT, sample_of(build)) as worker:
        worker.wait_ready()
        worker.batches_per_s(1, 0, 1)


# --- the worker ----------------------------------------------------------------------------------------------


def test_the_worker_runs_the_builds_own_runtime_on_a_batch_of_the_sample(
    make_build: MakeBuild, tmp_path: Path
) -> None:
    build = make_build(tmp_path, "noting", NOTING)
    deployment = dataclasses.replace(DEPLOYMENT, instances=2)
    with in_process(build, deployment, sample_of(build)) as worker:
        worker.wait_ready()
        assert worker.batches_per_s(3, 0, 1) > 0
    rows, settings, artifact = json.loads((build.artifact.parent / "seen.json").read_text())
    assert rows == SAMPLE.tolist() * 3
    assert artifact == str(build.artifact)
    assert settings["device"] == "cpu"
    # All threads that the server's instances have together.
    assert settings["threads"] == str(worker.threads) == str(worker_process.machine.cores())


def test_the_worker_runs_for_as_long_and_as_often_as_asked(make_build: MakeBuild, tmp_path: Path) -> None:
    build = make_build(tmp_path, "sleeping", SLEEPING)
    with in_process(build, DEPLOYMENT, sample_of(build)) as worker:
        worker.wait_ready()
        for batch, seconds, least in ((1, 0.2, 1), (4, 0, 40)):
            started = time.monotonic()
            assert 100 < worker.batches_per_s(batch, seconds, least) < 200
            assert time.monotonic() - started > 0.2


def test_the_worker_and_its_folder_are_gone_afterwards(make_build: MakeBuild, tmp_path: Path) -> None:
    build = make_build(tmp_path, "doubling", DOUBLING)
    with in_process(build, DEPLOYMENT, sample_of(build)) as worker:
        worker.wait_ready()
        assert worker.process.poll() is None
        assert worker.folder.is_dir()
    assert worker.process.poll() is not None
    assert not worker.folder.exists()


@pytest.mark.parametrize(
    ("runtime", "said"),
    [(BROKEN, "no such operator"), (DYING, "ended with status 7")],
    ids=["cannot load", "dies"],
)
def test_a_worker_that_fails_says_why(make_build: MakeBuild, tmp_path: Path, runtime: str, said: str) -> None:
    build = make_build(tmp_path, "failing", runtime)
    with pytest.raises(ProofError, match=f"(?s){said}.*where: {build.case}.*cure:"):
        run_once(build)


def test_a_worker_that_hangs_is_given_up(
    make_build: MakeBuild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "_ANSWER_LIMIT_S", 0.3)
    build = make_build(tmp_path, "hanging", HANGING)
    with pytest.raises(ProofError, match="gave no answer within 0 s"):
        run_once(build)


# --- the ratio -----------------------------------------------------------------------------------------------


def turns_of(build: Build, tmp_path: Path) -> Turns:
    """A few turns of a build in a real Triton, one request at a time."""
    name, model = str(build.case), build.case.model
    sample = sample_of(build)
    with (
        serve(Choice("embedded"), tmp_path, tmp_path / "server.log", device="cpu") as server,
        input_data(model, sample, server.scratch) as data,
        in_process(build, DEPLOYMENT, sample) as worker,
    ):
        server.load(build, DEPLOYMENT, "offline")
        worker.wait_ready()
        points = {LoadPoint("offline", 1, 1): 0.005}
        (sampling,) = load_points.samplings_of(server, name, model, points, shared_memory="system", data=data)
        return take_turns(sampling, worker, 1, None, "cpu", PLAN)


def test_a_model_that_takes_five_milliseconds_loses_little_to_serving(
    make_build: MakeBuild, tmp_path: Path
) -> None:
    turns = turns_of(make_build(tmp_path, "sleeping", SLEEPING), tmp_path)
    ratio = turns.ratio()
    assert len(turns.served_per_s) == len(turns.in_process_per_s) >= 5
    assert 0.7 < ratio.value < 1.0
    assert ratio.low <= ratio.value <= ratio.high


def test_a_model_that_is_slower_when_served_shows_it(make_build: MakeBuild, tmp_path: Path) -> None:
    ratio = turns_of(make_build(tmp_path, "slower", SLOWER_SERVED), tmp_path).ratio()
    assert 0.2 < ratio.value < 0.26  # 5 ms over 20 ms


def test_the_interval_of_a_ratio_holds_the_truth_as_often_as_it_says() -> None:
    generator = np.random.default_rng(1)
    held = 0
    for _ in range(1000):
        found = mean_of(0.9 * np.exp(generator.normal(0, 0.1, 5)))
        held += found.low <= 0.9 <= found.high
    assert 930 <= held <= 970


def test_turns_end_when_the_ratio_is_known_or_the_budget_spent() -> None:
    def turns(count: int, spread: float, spent_s: float) -> Turns:
        served = [1 + spread * (-1) ** i for i in range(count)]
        return Turns(served, [1.0] * count, [], spent_s)

    plan = Plan(precision_target=0.05, budget_s=10)
    assert not turns(4, 0.0, 1).is_done(plan, slow=False)
    assert turns(5, 0.0, 1).is_done(plan, slow=False)
    assert not turns(5, 0.2, 1).is_done(plan, slow=False)
    assert turns(5, 0.2, 9.9).is_done(plan, slow=False)
    assert not turns(3, 0.2, 99).is_done(plan, slow=False)
    assert turns(3, 0.2, 99).is_done(plan, slow=True)


def test_the_best_point_is_the_fastest_of_those_in_closed_loops() -> None:
    def at(rate: float, request_rate_per_s: float | None = None) -> Load:
        return dataclasses.replace(
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
    point = dataclasses.replace(
        a_load("offline", 8, 1.0), scenario=scenario, batch=batch, concurrency=concurrency
    )
    deployment = dataclasses.replace(DEPLOYMENT, max_batch_size=48, preferred_batch_sizes=preferred)
    assert batch_in_process(point, deployment) == expected


# --- operations and peak -------------------------------------------------------------------------------------


class Attention(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)


@pytest.mark.parametrize(
    ("network", "shape", "expected"),
    [
        (torch.nn.Linear(7, 5), (7,), 2 * 7 * 5),
        (torch.nn.Conv2d(3, 4, 3, padding=1), (3, 6, 8), 2 * 3 * 4 * 9 * 6 * 8),
        (torch.nn.Conv1d(2, 6, 5, groups=2), (2, 20), 2 * 2 * 6 * 5 * 16 // 2),
        (Attention(), (2, 10, 16), 2 * 2 * (10 * 10 * 16) * 2),
        (torch.nn.ReLU(), (7,), None),
    ],
    ids=["linear", "convolution", "grouped", "attention", "nothing to count"],
)
def test_operations_of_a_layer_are_those_counted_by_hand(
    network: torch.nn.Module, shape: tuple[int, ...], expected: int | None
) -> None:
    model = dataclasses.replace(
        all_models()[0],
        framework="pytorch",
        inputs=(Tensor("x", "FP32", shape),),
        run=lambda net, arrays: {"y": net(torch.from_numpy(arrays["x"])).detach().numpy()},
    )
    assert flops.count(model, network, {"x": np.zeros((1, *shape), np.float32)}) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # 4.09 billion multiplications, as published for v1.5 at 224 x 224.
        ("resnet50", 8.18e9),
        ("resnet50-tf", 8.18e9),
        # 4 layers of width 288 with an inner one of 1152, on 384 tokens, and attention between all of them; two
        # outputs per token.
        ("bert-dist4l", 2 * 384 * (4 * (4 * 288**2 + 2 * 288 * 1152 + 2 * 384 * 288) + 2 * 288)),
    ],
)
def test_operations_of_a_model_are_those_known_of_it(name: str, expected: float) -> None:
    (model,) = (one for one in all_models() if one.name == name)
    sample = model.samples("evaluation", None, None).load([0])
    assert flops.count(model, model.load(None).network, sample) == pytest.approx(expected, rel=0.0005)


@pytest.fixture(scope="module")
def fp32_per_s() -> Iterator[float]:
    with peak_of("cpu", "fp32") as worker:
        worker.wait_ready()
        yield worker.batches_per_s(1, 0.3, 1) * peak.OPERATIONS["cpu"]


@pytest.mark.parametrize("precision", sorted({case.precision for case in cases_of(CPU)}))
def test_every_precision_of_cpus_has_a_peak(precision: str, fp32_per_s: float) -> None:
    with peak_of("cpu", precision) as worker:
        worker.wait_ready()
        found = worker.batches_per_s(1, 0.3, 1) * peak.OPERATIONS["cpu"]
    assert 1e9 < fp32_per_s < 1e14
    assert fp32_per_s / 10 < found < fp32_per_s * 100


# --- what is recorded and shown ------------------------------------------------------------------------------

ONE = Efficiency(
    scenario="offline",
    batch=8,
    concurrency=1,
    served_per_s=Estimate(97.0, 95, 99),
    in_process_per_s=Estimate(100.0, 99, 101),
    in_process_batch=8,
    threads=2,
    ratio=Estimate(0.97, 0.953, 0.991),
    pairs=5,
    flops_per_inference=1e9,
    peak_flops_per_s=Estimate(200e9, 190e9, 210e9),
)


def test_the_figure_says_both_fractions() -> None:
    text = "97 % of in process (95 to 99), 48 % of the machine's FP32 peak of 200 GFLOP/s"
    assert efficiency_text([ONE], "fp32") == text
    uncounted = dataclasses.replace(ONE, flops_per_inference=None, scenario="online")
    assert (
        efficiency_text([ONE, uncounted], "fp32") == f"offline {text}; online 97 % of in process (95 to 99)"
    )
    assert "INT8 peak of 200 GOP/s" in efficiency_text([ONE], "int8")
    small = dataclasses.replace(ONE, ratio=Estimate(0.0192, 0.0174, 0.0212))
    assert "1.9 % of in process (1.7 to 2.1)" in efficiency_text([small], "fp32")


def test_the_case_shows_the_table_and_what_it_means() -> None:
    measured = dataclasses.replace(a_record(), efficiency=(ONE,))
    section = efficiency_section(measured)
    assert "| offline, batch 8 |" in section
    for cell in ("97.0", "100.0", "97 % (95 to 99)", "200", "48 %"):
        assert f" {cell} |" in section
    assert section in tables.case_section(measured)
    assert efficiency_section(a_record()) == ""
    failed = dataclasses.replace(measured, conversion=None)
    assert "offline, batch 8" not in tables.case_section(failed)


def test_the_record_keeps_it(tmp_path: Path) -> None:
    measured = dataclasses.replace(a_record(), efficiency=(ONE,))
    files.write(measured, tmp_path / "case.json")
    assert files.read(tmp_path / "case.json").efficiency == (ONE,)


def test_a_summary_of_turns_is_of_their_geometric_means() -> None:
    class Anyone:
        threads = 2

    turns = Turns([90.0, 110.0], [100.0, 100.0], [1e9, 4e9])
    anyone: Any = Anyone()
    found = summarise(turns, a_load("offline", 8, 1.0), anyone, 8, 1e6)
    assert found.ratio.value == pytest.approx(math.sqrt(0.9 * 1.1))
    assert found.peak_flops_per_s is not None
    assert found.peak_flops_per_s.value == pytest.approx(2e9)
    assert (found.pairs, found.in_process_batch, found.threads) == (2, 8, 2)


# --- in a run ------------------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]
ONNX = "cpu-resnet50-micro-onnx-fp32"


def suite(repos: Path, folder: Path, *arguments: str, status: int = 0) -> str:
    """What a run of the suite on one case prints; its records are below the folder."""
    command = [sys.executable, "-m", "pytest", "benchmarks", "-v", "-p", "no:cacheprovider", *arguments]
    command += ["--model-repos", str(repos), "--results", str(folder / "results")]
    command += ["--point-budget-s", "0.5", "--batches", "8", "--concurrencies", "4"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def test_a_run_takes_the_best_point_of_now_or_of_the_record(repos: Path, tmp_path: Path) -> None:
    figure = r"test_efficiency\[.*\] (\n.*)*PASSED \d+ % of in process \(\d+ to \d+\), [\d.]+ % of the machine's FP32"
    alone = ("-k", f"{ONNX} and test_efficiency")

    text = suite(repos, tmp_path, *alone, status=pytest.ExitCode.NO_TESTS_COLLECTED)
    assert re.search(r"SKIPPED .*\n?.*the best load point is not known", text) is not None, text
    assert "select test_offline or test_online too" in text

    assert re.search(figure, suite(repos, tmp_path, "-k", ONNX, "-m", "load")), "with the points of the run"
    found = files.read(tmp_path / "results" / "cpu" / f"{ONNX}.json")
    (one,) = found.efficiency
    best = max(found.loads, key=lambda load: load.throughput_per_s.value)
    assert (one.scenario, one.batch, one.concurrency) == (best.scenario, best.batch, best.concurrency)
    assert one.flops_per_inference == pytest.approx(40.95e6, rel=0.01)
    assert one.pairs >= 5

    again = suite(repos, tmp_path, *alone)
    assert re.search(figure, again), again
    kept = files.read(tmp_path / "results" / "cpu" / f"{ONNX}.json")
    assert kept.loads == found.loads
    assert kept.efficiency != found.efficiency
