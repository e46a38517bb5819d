"""Whole runs of the suite, as its users start them: what they print, what they record, how they fail."""

import json
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file

from fixtures.models import resnet50
from fixtures.serve.choice import Choice
from fixtures.serve.launch import serve
from reports.record import files, schema
from reports.record.schema import Record
from reports.run.exit_status import STATUS
from tests.conftest import program_name
from tests.serve.programs import script

ROOT = Path(__file__).parents[2]
ONNX = "cpu-resnet50-micro-onnx-fp32"
FAST = ("--point-budget-s", "0.5", "--batches", "1,8", "--concurrencies", "4")


@dataclass(frozen=True)
class Run:
    """A finished run."""

    status: int
    text: str
    results: Path

    def record(self, case: str) -> Record:
        return files.read(self.results / "cpu" / f"{case}.json")


def command(*arguments: str, repos: Path, results: Path) -> list[str]:
    places = ["--model-repos", str(repos), "--results", str(results)]
    return [sys.executable, "-m", "pytest", "benchmarks", "-p", "no:cacheprovider", *places, *arguments]


def suite(*arguments: str, repos: Path, results: Path) -> Run:
    """Run the suite to its end."""
    done = subprocess.run(
        command(*arguments, repos=repos, results=results),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,  # bounds a hang, on a busy machine too
        check=False,
    )
    return Run(done.returncode, done.stdout + done.stderr, results)


@pytest.fixture(scope="module")
def own_repos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which nothing is built yet."""
    return tmp_path_factory.mktemp("repos")


@pytest.fixture(scope="module")
def first(own_repos: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of one case, with every report that pytest's own plugins make of it."""
    results = tmp_path_factory.mktemp("results")
    reports = ("--benchmark-json", str(results / "benchmark.json"), "--junit-xml", str(results / "junit.xml"))
    return suite("-v", "-k", ONNX, *FAST, *reports, repos=own_repos, results=results)


def test_a_run_converts_serves_proves_and_measures(first: Run) -> None:
    assert first.status == 0, first.text
    found = first.record(ONNX)
    assert found.conversion is not None
    assert found.conversion.passed
    assert found.accuracy is not None
    assert found.accuracy.passed
    assert found.accuracy.samples == 500
    (score,) = found.accuracy.scores
    assert score.served == pytest.approx(score.framework, abs=0.004)
    assert found.serving == schema.Serving("embedded", "2.51.0", "python", "system")
    assert [(one.scenario, one.batch, one.concurrency) for one in found.loads] == [
        ("offline", 1, 1),
        ("offline", 8, 1),
        ("online", 1, 4),
    ]


def test_every_load_point_has_intervals_and_components_that_add_up(first: Run) -> None:
    for load in first.record(ONNX).loads:
        for one in (load.throughput_per_s, *load.latency_ms.values()):
            assert 0 <= one.low <= one.value <= one.high
        assert sum(load.components_ms.values()) == pytest.approx(load.latency_ms["avg"].value, rel=1e-6)
        # Little's law: what is in flight is the rate of requests times the time each takes.
        in_flight = load.throughput_per_s.value / load.batch * load.latency_ms["avg"].value / 1e3
        assert in_flight == pytest.approx(load.concurrency, rel=0.25)


def test_a_run_prints_conditions_figures_and_the_summary(first: Run) -> None:
    for text in (
        r"target: cpu; .*, \d+ cores, \d+ GiB; ",
        r"server: Triton 2\.51\.0 embedded \(nvidia-pytriton 0\.7\.0\)",
        r"versions: python 3.*torch .*onnxruntime",
        r"load: perf_analyzer 2\.51\.0, shared memory: system",
        rf"{ONNX}: built in [\d.]+ s",
        r"test_accuracy\[.*\] PASSED top-1 [\d.]+ % served",
        r"test_online\[.*-b001-c004\] PASSED [\d,.]+ infer/s ± [\d.]+ %, p99 [\d.]+ ms",
        r"\| resnet50-micro +\| ONNX +\| FP32 +\| top-1 [\d.]+ % +\| [\d.]+ % +\| +[\d.]+ ±",
    ):
        assert re.search(text, first.text), text


def test_pytest_benchmark_holds_the_real_latencies(first: Run) -> None:
    entries = json.loads((first.results / "benchmark.json").read_text())["benchmarks"]
    loads = first.record(ONNX).loads
    assert len(entries) == len(loads)
    for load in loads:
        (entry,) = (
            e
            for e in entries
            if e["extra_info"]["batch"] == load.batch and e["extra_info"]["scenario"] == load.scenario
        )
        assert entry["stats"]["rounds"] == load.requests
        assert entry["stats"]["mean"] * 1e3 == pytest.approx(load.latency_ms["avg"].value)
        assert entry["stats"]["median"] * 1e3 == pytest.approx(load.latency_ms["p50"].value)
        assert entry["extra_info"]["throughput_per_s"] == load.throughput_per_s.value
        assert entry["extra_info"]["server_compute_infer_ms"] > 0


def test_junit_carries_the_figures(first: Run) -> None:
    cases = ElementTree.parse(first.results / "junit.xml").getroot().iter("testcase")
    figures = {
        str(case.get("name")): {str(one.get("name")): str(one.get("value")) for one in case.iter("property")}
        for case in cases
    }
    found = first.record(ONNX)
    assert found.accuracy is not None
    offline = figures[f"test_offline[{ONNX}-b008-c001]"]
    assert "infer/s" in offline["figure"]
    assert float(offline["throughput_per_s"]) == found.loads[1].throughput_per_s.value
    assert float(offline["latency_p99_high_ms"]) == found.loads[1].latency_ms["p99"].high
    served = figures[f"test_accuracy[{ONNX}]"]["top-1_served_percent"]
    assert float(served) == pytest.approx(100 * found.accuracy.scores[0].served)
    assert any("_in_process_ratio" in name for name in figures[f"test_efficiency[{ONNX}]"])
    assert {each.get("record") for each in figures.values()} == {f"cpu/{ONNX}.json"}


def test_a_second_run_reuses_the_build_and_replaces_what_it_measures(first: Run, own_repos: Path) -> None:
    again = suite("-q", "-k", f"{ONNX} and offline", *FAST, repos=own_repos, results=first.results)
    assert again.status == 0, again.text
    assert f"{ONNX}: unchanged, reused" in again.text
    loads = again.record(ONNX).loads
    assert [(one.scenario, one.batch) for one in loads] == [("offline", 1), ("offline", 8), ("online", 1)]
    assert again.record(ONNX).accuracy is not None


def test_workers_share_the_cases_and_lose_nothing(repos: Path, tmp_path: Path) -> None:
    done = suite(
        "-n", "2", "-k", "resnet50-micro and onnx and not efficiency", *FAST, repos=repos, results=tmp_path
    )
    assert done.status == 0, done.text
    for case in (ONNX, ONNX.replace("fp32", "int8")):
        assert len(done.record(case).loads) == 3
        assert re.search(rf"\| resnet50-micro +\| ONNX +\| {case[-4:].upper()} ", done.text)
        # All of a case went to one worker, which said what it did.
        (worker,) = set(re.findall(rf"\[(gw\d)\] {case}: start Triton", done.text))
        assert re.search(rf"\[{worker}\] {case}: (built|unchanged)", done.text)


def test_overridden_settings_are_served_and_recorded(repos: Path, tmp_path: Path) -> None:
    settings = "instances=2,max_queue_delay_us=100,preferred_batch_sizes=4+8"
    done = suite(
        "-k", f"{ONNX} and (accuracy or conversion)", "--deployment", settings, repos=repos, results=tmp_path
    )
    assert done.status == 0, done.text
    assert done.record(ONNX).deployment == schema.Deployment(32, 2, (4, 8), 100, False, True)


# --- what bad use gets -------------------------------------------------------------------------------------


def micro_weights(change: float, path: Path) -> Path:
    """The committed weights with noise of `change` standard deviations; NaN where it is NaN."""
    torch.manual_seed(0)
    state = {k: v.float() for k, v in load_file(resnet50.MICRO_WEIGHTS).items()}
    changed = {
        k: v + change * v.std(correction=0) * torch.randn_like(v) if k.endswith("weight") else v
        for k, v in state.items()
    }
    save_file(changed, path)
    return path


def test_a_worse_model_fails_the_gate_and_shows_no_speed(repos: Path, tmp_path: Path) -> None:
    worse = micro_weights(0.3, tmp_path / "worse.safetensors")
    done = suite(
        *("-k", f"{ONNX} and (conversion or accuracy or b001-c001)"),
        *("--checkpoint", f"resnet50-micro={worse}", "--point-budget-s", "0.5"),
        repos=repos,
        results=tmp_path,
    )
    assert done.status == STATUS["accuracy"]
    assert re.search(r"served top-1 [\d.]+ % is below its floor of 97\.0 %", done.text)
    assert "1 failed, 2 passed" in done.text
    assert "No throughput is shown" in done.text
    assert done.record(ONNX).loads
    assert "worse.safetensors, sha256" in done.record(ONNX).build.weights


def test_a_model_that_returns_nan_is_one_readable_error(repos: Path, tmp_path: Path) -> None:
    nan = micro_weights(float("nan"), tmp_path / "nan.safetensors")
    done = suite(
        "-k", f"{ONNX} and conversion", "--checkpoint", f"resnet50-micro={nan}", repos=repos, results=tmp_path
    )
    assert done.status == STATUS["accuracy"]
    assert "NaN or infinity for" in done.text
    assert "Traceback" not in done.text
    assert "fixtures/prove/parity.py" not in done.text


def test_a_bad_checkpoint_stops_the_run_with_one_error(repos: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pt"
    broken.write_bytes(b"PK\x03\x04 cut short")
    done = suite(
        "-k",
        "resnet50-micro and onnx",
        "--checkpoint",
        f"resnet50-micro={broken}",
        repos=repos,
        results=tmp_path,
    )
    assert done.status == pytest.ExitCode.USAGE_ERROR
    assert done.text.count("the checkpoint is truncated or not a PyTorch file") == 1
    assert str(broken) in done.text
    assert "1 error" in done.text
    assert " passed" not in done.text
    assert "Traceback" not in done.text


def test_the_trace_is_there_for_who_asks(repos: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pt"
    broken.write_bytes(b"cut short")
    given = ("-k", "resnet50-micro and onnx", "--checkpoint", f"resnet50-micro={broken}", "--full-trace")
    assert "fixtures/frameworks/pytorch.py" in suite(*given, repos=repos, results=tmp_path).text


def test_no_load_generator_is_one_error(repos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere.py").write_text(
        "from types import SimpleNamespace\n"
        "from fixtures.serve import wheels\n"
        "wheels.sys = SimpleNamespace(executable='/no/bin/python', version_info=wheels.sys.version_info)\n"
        "wheels.shutil = SimpleNamespace(which=lambda _name: None)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    done = suite("-p", "elsewhere", "-k", f"{ONNX} and online", repos=repos, results=tmp_path)
    assert done.status == STATUS["infrastructure"]
    assert "the load tests need perf_analyzer, which is not installed" in done.text
    assert "1 failed" in done.text
    assert " error" not in done.text.splitlines()[-1]
    assert "Traceback" not in done.text


def test_an_empty_data_set_is_one_error_before_anything_is_converted(repos: Path, tmp_path: Path) -> None:
    given = ("-k", "cpu-resnet50-ts-trace-fp32 and conversion", "--dataset", f"resnet50={tmp_path}")
    done = suite(*given, repos=repos, results=tmp_path)
    assert done.status == pytest.ExitCode.USAGE_ERROR
    assert "the data set has 0 class folders" in done.text
    assert "convert" not in done.text.replace("test_conversion", "")
    assert "Traceback" not in done.text


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--triton", "kubernetes", "unknown server 'kubernetes'"),
        ("--triton", "local:/no/tritonserver", "there is no program '/no/tritonserver'"),
        ("--checkpoint", "resnet50=/no/such/file", "there is no such file"),
        ("--dataset", "vgg=/tmp", "unknown model 'vgg'"),
        ("--deployment", "instances=many", "instances is 'many'"),
        ("--batches", "one", "not a list of whole numbers"),
    ],
)
def test_a_bad_option_is_a_usage_error(
    option: str, value: str, said: str, repos: Path, tmp_path: Path
) -> None:
    done = suite(option, value, repos=repos, results=tmp_path)
    assert done.status == pytest.ExitCode.USAGE_ERROR
    assert said in done.text
    assert "cure:" in done.text
    assert "Traceback" not in done.text


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999"])
def test_a_server_that_is_not_there_is_one_error(address: str, repos: Path, tmp_path: Path) -> None:
    done = suite("-k", f"{ONNX} and accuracy", "--triton", address, repos=repos, results=tmp_path)
    assert done.status in (STATUS["infrastructure"], pytest.ExitCode.USAGE_ERROR)
    assert f"--triton {address}" in done.text or "unknown server" in done.text
    assert "Traceback" not in done.text


def test_a_native_backend_is_given_the_malloc_of_the_runtime(repos: Path, tmp_path: Path) -> None:
    program = script(
        tmp_path / "bin" / "tritonserver", 'echo "malloc $MALLOC_MMAP_MAX_ $MALLOC_TRIM_THRESHOLD_"; exit 1'
    )
    library = tmp_path / "backends" / "pytorch" / "libtriton_pytorch.so"
    library.parent.mkdir(parents=True)
    library.touch()
    selection = "cpu-resnet50-micro-ts-trace-fp32 and accuracy"
    found = suite("-k", selection, "--triton", f"local:{program}", repos=repos, results=tmp_path / "results")
    assert found.status == STATUS["infrastructure"]
    assert "malloc 0 2147483647" in found.text


def test_a_server_that_was_started_apart_is_given_the_models(repos: Path, tmp_path: Path) -> None:
    models, results = tmp_path / "models", tmp_path / "results"
    models.mkdir()
    with serve(Choice("embedded"), models, tmp_path / "log", device="cpu") as apart:
        given = ("--triton", apart.address, *FAST[:2], "--batches", "8", "--concurrencies", "4")
        done = suite("-k", f"{ONNX} and not efficiency", *given, repos=repos, results=results)
        assert done.status == 0, done.text
        assert not apart.client.is_model_ready(ONNX), "the model is unloaded at the end"
    found = done.record(ONNX)
    assert found.serving == schema.Serving("remote", "2.51.0", "python", "none")
    assert found.accuracy is not None
    assert len(found.loads) == 2
    assert not list(models.iterdir()), "nothing is put on the server's disk"


# --- what stays after a run that was killed ----------------------------------------------------------------


def below(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_a_run_that_is_ended_leaves_no_process_and_what_it_had_measured(
    how: signal.Signals, repos: Path, tmp_path: Path
) -> None:
    segments = set(Path("/dev/shm").iterdir())
    log = tmp_path / "log"
    with log.open("w") as output:
        run = subprocess.Popen(
            command("-v", "-k", ONNX, *FAST[4:], "--point-budget-s", "60", repos=repos, results=tmp_path),
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + 600  # bounds a hang
    path = tmp_path / "cpu" / f"{ONNX}.json"
    while time.monotonic() < deadline and not (path.is_file() and '"unfinished"' in path.read_text()):
        time.sleep(0.05)
    started = below(run.pid)
    names = {program_name(process) for process in started}
    assert "tritonserver" in names, log.read_text()
    run.send_signal(how)
    run.wait(timeout=300)
    _, alive = psutil.wait_procs(started, timeout=120)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    found = Run(run.returncode, log.read_text(), tmp_path).record(ONNX)
    assert found.accuracy is not None
    (load,) = found.loads
    assert load.marks[0].code == "unfinished"
    assert len(load.passes) > 1
    left = [path.name for path in Path("/dev/shm").iterdir() if path not in segments]
    assert not [name for name in left if "PUT__0" in name or "tritonproof" in name]
