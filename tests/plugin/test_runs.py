"""What the tests of a run share: a model's weights and a case's server."""

import re
from pathlib import Path

from tests.classifier import write_two
from tests.helpers import run_pytest

TESTS = """\
import gc
import subprocess
import sys
import weakref
from types import SimpleNamespace

import pytest

from tritonproof.base.errors import ProofError
from tritonproof.efficiency import worker
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSpec

ALIVE, PEAKS = [], []


def peak_per_s(kind):
    PEAKS.append(kind)
    raise ProofError("no memory")


worker.peak_per_s = peak_per_s


@pytest.fixture(scope="session")
def run(run):
    client = SimpleNamespace(is_server_live=lambda **_limits: process.poll() is None)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    vars(run.prepared)["server"] = Server(ServerSpec("embedded"), "127.0.0.1:1", "2.51.0", None, client, process=process)
    yield run
    process.kill()
    process.wait()


@pytest.mark.step("conversion")
def test_first(run):
    assert PEAKS == [("cpu", "fp32", None), ("cpu", "int8", None)], "those of all cases, before any server"
    weights, framework_answers = run.model_run.cpu_model, run.model_run.framework_answers
    gc.collect()
    ALIVE[:] = [one for one in ALIVE if one() is not None]
    assert all(one() is weights for one in ALIVE), "the weights of another model are in memory"
    ALIVE.append(weakref.ref(weights))
    assert len(framework_answers.decisions) > 0


@pytest.mark.step("accuracy")
def test_second(case, run):
    assert ALIVE[-1]() is run.model_run.cpu_model
    assert len(run.model_run.samples) > 0
    if str(case) == "cpu-left-onnx-fp32":
        run.server.process.kill()
        run.server.process.wait()


@pytest.mark.step("gates")
def test_passes_without_asking_it(case, run):
    pass


@pytest.mark.step("gates")
def test_needs_no_server(case):
    pass


@pytest.mark.speed
@pytest.mark.step("online")
def test_points(case, point, suite_run):
    assert suite_run.point_count == 2 * 3, "two of each case, and none of the efficiency tests"


@pytest.mark.speed
@pytest.mark.step("efficiency")
def test_peaks(case, suite_run):
    assert {str(suite_run.measure_peak(kind, None)) for kind in PEAKS} == {"no memory"}, "each once"
    assert len(PEAKS) == 2
"""
"""They are given two precisions of one model, and one of another."""


def test_cases_share_what_belongs_to_their_model_and_their_run(tmp_path: Path) -> None:
    file = tmp_path / "test_of_models.py"
    file.write_text(TESTS)
    folders = (f"--model-repos={tmp_path / 'models'}", f"--results={tmp_path / 'results'}")
    words = ("-k", "onnx and (left and (fp32 or int8) or right and fp32)", "--concurrencies=1,2")

    done = run_pytest(str(file), "-p", "conftest", "-rf", *write_two(tmp_path), *words, *folders)

    assert sorted(re.findall(r"(?m)^ +(\S+): load weights$", done.stdout)) == ["left", "right"]
    failed = re.findall(r"(?m)^FAILED .*::(\S+)", done.stdout)
    assert failed == ["test_passes_without_asking_it[cpu-left-onnx-fp32]"], done.stdout + done.stderr
    assert re.search(r"\b1 failed, 20 passed", done.stdout)
