"""Comparisons on real servers, and in whole runs of the suite. Verdicts are certain on a busy machine too."""

import contextlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fixtures.build.repository import BuiltModel
from fixtures.build.runtimes import RUNTIMES
from fixtures.compare import other_builds
from fixtures.compare.comparison import OtherBuild
from fixtures.measure import measured, sweep
from fixtures.measure.job import input_data, jobs_of
from fixtures.measure.record_entry import Measurement, outcomes
from fixtures.measure.stopping import MeasuringPlan
from fixtures.serve.choice import Choice
from fixtures.serve.launch import serve
from fixtures.spec import LoadPoint
from reports.record import files
from reports.record.schema import Comparison
from reports.record.verdicts import comparison_text
from reports.run.exit_status import STATUS
from tests.conftest import DEPLOYMENT, MakeBuild

ROOT = Path(__file__).parents[2]
ONNX = "cpu-resnet50-micro-onnx-fp32"
SLEEPING = """\
import time

def load(artifact, settings):
    def predict(arrays):
        time.sleep({seconds})
        return [2 * arrays[0]]
    return predict
"""


def compare_builds(mine: BuiltModel, theirs: BuiltModel, folder: Path) -> Comparison:
    """Serve two builds by a Triton each and compare them at one point."""
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(
                serve(Choice("embedded"), one.folder.parent, folder / f"log{number}", device="cpu")
            )
            for number, one in enumerate((mine, theirs))
        ]
        servers[0].load(mine, DEPLOYMENT, "offline")
        config = other_builds.for_scenario(other_builds.configuration(theirs.folder), mine.case, "offline")
        servers[1].load_as_is(config, theirs.folder)
        name, model, point = str(mine.case), mine.case.model, LoadPoint("offline", 1, 1)
        sample = {model.inputs[0].name: np.ones((1, 4), np.float32)}
        data = stack.enter_context(input_data(model, sample, folder))
        (job,) = jobs_of(servers[0], name, model, {point: 0.0}, shared_memory="system", data=data)
        state = measured.against(measured.begin(job), servers[1], name, OtherBuild("the other", 0.03))
        plan = MeasuringPlan(budget_s=120.0)
        outcome = outcomes(sweep.measure([state], plan), plan)[point]
    assert isinstance(outcome, Measurement), outcome
    assert outcome.load.comparison is not None
    return outcome.load.comparison


def test_a_slower_build_is_found(make_build: MakeBuild, tmp_path: Path) -> None:
    """Each request sleeps for 60 ms in one and for 5 ms in the other."""
    name = f"toy{os.getpid()}"  # names its shared memory too
    mine = make_build(tmp_path / "mine", name, SLEEPING.format(seconds=0.06))
    theirs = make_build(tmp_path / "theirs", name, SLEEPING.format(seconds=0.005))

    one = compare_builds(mine, theirs, tmp_path)

    assert one.verdict == "slower", comparison_text(one)
    assert one.ratio.value < 0.5


# --- whole runs --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Places:
    """Folders of the runs of this file."""

    repos: Path
    results: Path


def run(places: Places, *arguments: str, results: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """A run of the suite on one load point."""
    folders = ("--model-repos", str(places.repos), "--results", str(results or places.results))
    command = [sys.executable, "-m", "pytest", "benchmarks", "-v", "-p", "no:cacheprovider", *folders]
    return subprocess.run(
        [*command, "-k", f"{ONNX} and b001-c002", "--concurrencies", "2", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Folders with a build of the case, and its record."""
    found = Places(tmp_path_factory.mktemp("repos"), tmp_path_factory.mktemp("results"))
    done = run(found, "--point-budget-s", "0.5")
    assert done.returncode == 0, done.stdout + done.stderr
    return found


@pytest.fixture
def slower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Options of a run whose runtime sleeps for 100 ms in each request, many times what the model takes."""
    own = (RUNTIMES / "onnx.py").read_text()
    slow = own.replace("return session.run(", "import time; time.sleep(0.1); return session.run(")
    assert slow != own
    runtimes = tmp_path / "runtimes"
    shutil.copytree(RUNTIMES, runtimes)
    (runtimes / "onnx.py").write_text(slow)
    (tmp_path / "slower.py").write_text(
        "from pathlib import Path\nfrom fixtures.build import runtimes\n"
        f"runtimes.RUNTIMES = Path({str(runtimes)!r})\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    return ("-p", "slower", "--model-repos", str(tmp_path / "repos"))


def test_a_run_against_a_commit_builds_it_and_shows_the_ratio(places: Places, tmp_path: Path) -> None:
    done = run(places, "--against", "HEAD", "--point-budget-s", "4", results=tmp_path)
    text = done.stdout + done.stderr
    assert done.returncode in (0, STATUS["speed"]), (
        text
    )  # a busy machine may favour one of two that are alike
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    folder = places.repos / ".against" / commit / "model_repos" / "cpu" / ONNX
    assert (folder / "config.pbtxt").is_file()
    assert f"compared with: HEAD ({commit[:7]}); allowed slow-down: 3 %" in text
    one = files.read(tmp_path / "cpu" / f"{ONNX}.json").loads[0].comparison
    assert one is not None
    assert one.reference == f"HEAD ({commit[:7]})"
    assert comparison_text(one) in text
    assert "Verdict" in text


def test_a_slower_runtime_fails_the_run(places: Places, slower: tuple[str, ...], tmp_path: Path) -> None:
    other = tmp_path / "other" / ONNX
    shutil.copytree(places.repos / "cpu" / ONNX, other)
    done = run(places, *slower, "--against", str(other.parent), "--point-budget-s", "60", results=tmp_path)
    text = done.stdout + done.stderr
    assert done.returncode == STATUS["speed"], text
    assert "slower than the 3 % allowed, shown at 95 %" in text
    found = files.read(tmp_path / "cpu" / f"{ONNX}.json").loads[0].comparison
    assert found is not None
    assert found.verdict == "slower", "it is on record"


def test_a_baseline_is_looked_up_point_by_point(places: Places, tmp_path: Path) -> None:
    options = ("--baseline", str(places.results), "--point-budget-s", "0.5", "--concurrencies", "2,3")
    done = run(places, *options, "-k", f"{ONNX} and online", results=tmp_path)
    text = done.stdout + done.stderr
    assert f"to {places.results}: " in text
    assert f"no baseline in {places.results}" in text
