"""A run converts cases in parallel before the first test, in processes that end with the run."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from fixtures import converting
from fixtures.converting import cases_to_convert, convert_all, worker_count
from tests.helpers import ROOT, Collect, present, run_pytest, wait_until
from tests.user_models.networks import linear, rows
from tritonproof.formats import trt
from tritonproof.host import machine
from tritonproof.host.targets import TARGETS, present_targets
from tritonproof.settings.settings import Settings

PAIR = ("-k", "cpu-resnet50-micro and ts and fp32")


@pytest.mark.parametrize(
    ("arguments", "are_converted_first"),
    [
        pytest.param(("-k", "cpu and (resnet50-micro or fastpitch-micro)"), True, id="all steps"),
        pytest.param(("-k", "cpu and resnet50-micro and offline"), True, id="one step"),
        pytest.param((*PAIR, "--convert-only"), True, id="converting alone"),
        pytest.param(("--target", "a100", "-k", "resnet50"), False, id="on a GPU, which has one memory"),
        pytest.param((*PAIR, "--tx", "popen"), False, id="workers of xdist, which convert what they run"),
    ],
)
def test_cpu_cases_are_converted_first_in_test_order(
    arguments: tuple[str, ...], are_converted_first: bool, collect: Collect, tmp_path: Path
) -> None:
    folders = ("--model-repos", str(tmp_path), "--results", str(tmp_path / "results"))
    collected = collect(*folders, *arguments)
    session = present(collected.session)
    session.config.option.collectonly = False  # as in a run
    cases = [item.callspec.params["case"] for item in collected.selected]  # type: ignore[attr-defined]
    names = list(dict.fromkeys(map(str, cases)))
    assert len(names) > 1
    assert cases_to_convert(session) == (names if are_converted_first else [])


@pytest.mark.parametrize(
    ("jobs", "cores", "gib", "workers"),
    [(1, 8, 64, 1), (5, 2, 64, 2), (5, 8, 64, 5), (5, 8, 13, 3), (5, 8, 1, 1), (0, 8, 64, 1)],
)
def test_workers_are_limited_by_cases_cores_and_memory(
    jobs: int, cores: int, gib: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "cores", lambda: cores)
    monkeypatch.setattr(machine, "free_memory_gib", lambda: gib + 0.5)
    assert worker_count(jobs) == workers


def settings_of(folder: Path) -> Settings:
    """The settings of a run of a small ONNX file with samples."""
    network, samples = linear(folder / "one.onnx"), rows(folder / "samples", 64)
    return Settings.of(onnx=[f"one={network}"], samples=[str(samples)], model_repos=str(folder / "repos"))


def test_failing_conversion_leaves_other_cases_alone(tmp_path: Path) -> None:
    names = ["cpu-one-onnx-fp32", "cpu-other-onnx-fp32", "cpu-one-onnx-int8"]
    reports: list[str] = []
    assert convert_all(names, settings_of(tmp_path), 2, reports.append) == 2
    converted = {path.parent.name for path in (tmp_path / "repos" / "cpu").glob("*/build.json")}
    assert converted == {"cpu-one-onnx-fp32", "cpu-one-onnx-int8"}
    assert reports == ["1 of 3", "2 of 3", "3 of 3"]


def test_nothing_is_converted_without_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converting, "_begin", os.abort)  # fails: it takes no arguments
    assert convert_all(["cpu-one-onnx-fp32"] * 2, settings_of(tmp_path), 2) == 0


STUCK = """\
import subprocess
from fixtures.converting import convert_all


class Stuck:
    def __reduce__(self):
        return subprocess.call, (["sleep", "600"],)


if __name__ == "__main__":
    convert_all([Stuck(), Stuck()], None, 2)
"""


@pytest.mark.parametrize(
    ("who", "how"),
    [("run", signal.SIGINT), ("run", signal.SIGKILL), (1, signal.SIGTERM)],
    ids=["interrupted", "killed", "the last worker ended"],
)
def test_workers_and_their_processes_end_with_the_run(
    who: str | int, how: signal.Signals, tmp_path: Path
) -> None:
    script, log = tmp_path / "stuck.py", tmp_path / "log"
    script.write_text(STUCK)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with log.open("w") as output:
        run = subprocess.Popen([sys.executable, str(script)], env=environment, stderr=output)
    parent = psutil.Process(run.pid)

    def compilers() -> list[psutil.Process]:
        return [process for process in parent.children(recursive=True) if process.name() == "sleep"]

    wait_until(lambda: run.poll() is not None or len(compilers()) == 2, 300, log.read_text)
    started = parent.children(recursive=True)
    workers = sorted(process.ppid() for process in compilers())
    os.kill(run.pid if isinstance(who, str) else workers[who], how)
    assert (run.wait(timeout=60) != 0) == (who == "run")
    _, alive = psutil.wait_procs(started, timeout=60)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


LARGE_MACHINE = """
from tritonproof.host import machine
from fixtures import converting

machine.cores, converting._WORKER_GIB = lambda: 2, 1e-9
"""


def test_run_converts_its_cases_at_once_and_reuses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large.py").write_text(LARGE_MACHINE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    network, samples = linear(tmp_path / "one.onnx"), rows(tmp_path / "samples", 64)
    given = ("--onnx", f"one={network}", "--samples", str(samples))
    selected = ("--target", "cpu", "-k", "onnx and (fp32 or int8)", f"--model-repos={tmp_path / 'models'}")
    words = ("benchmarks", "--convert-only", *given, *selected, "-p", "large")
    first, second = (run_pytest(*words).stdout for _ in range(2))
    assert "2 of 2 models converted" in first, first
    assert "models converted" not in second
    for case in ("cpu-one-onnx-fp32", "cpu-one-onnx-int8"):
        assert re.search(rf"{case}: built in .*, reused", second), second
    assert "start Triton" not in first
    assert {path.name for path in (tmp_path / "models").iterdir()} == {"cpu"}


def test_convert_only_for_absent_gpu_tries_cpu_formats(tmp_path: Path) -> None:
    absent = next(target for target in reversed(TARGETS) if target not in present_targets())
    words = "resnet50-micro and fp16 and (ts-trace or (trt and not onnx))"
    folders = (f"--model-repos={tmp_path / 'models'}", f"--results={tmp_path / 'results'}")
    done = run_pytest("benchmarks", "--convert-only", "--target", absent.name, "-k", words, *folders)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b1 passed, 1 skipped", done.stdout), done.stdout
    assert f"SKIPPED [1] benchmarks:1: {trt.FORMAT.why_built_on_gpu}: needs {absent.label}" in done.stdout
    assert not list(tmp_path.rglob("*.pt")), "a run on the GPU would not reuse it"
