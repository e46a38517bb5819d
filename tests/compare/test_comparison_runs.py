"""Comparisons on real servers, and in whole runs of the suite. Verdicts are certain on a busy machine too."""

import contextlib
import os
import shutil
import subprocess
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
from reports.record.schema import Comparison
from reports.record.verdicts import comparison_text
from reports.run.exit_status import STATUS
from tests.conftest import DEPLOYMENT, MakeBuild
from tests.whole_runs import ONNX, ROOT, Run, suite

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


POINT = ("-v", "-k", f"{ONNX} and b001-c004", "--concurrencies", "4")
"""The online point that the first run has too."""


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
    return ("-p", "slower")


def test_a_run_against_a_commit_builds_it_and_shows_the_ratio(repos: Path, tmp_path: Path) -> None:
    done = suite(*POINT, "--against", "HEAD", "--point-budget-s", "4", repos=repos, results=tmp_path)
    # A busy machine may favour one of two that are alike.
    assert done.status in (0, STATUS["speed"]), done.text
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    folder = repos / ".against" / commit / "model_repos" / "cpu" / ONNX
    assert (folder / "config.pbtxt").is_file()
    assert f"compared with: HEAD ({commit[:7]}); allowed slow-down: 3 %" in done.text
    one = done.record().loads[0].comparison
    assert one is not None
    assert one.reference == f"HEAD ({commit[:7]})"
    assert comparison_text(one) in done.text
    assert "Verdict" in done.text


def test_a_slower_runtime_fails_the_run(repos: Path, slower: tuple[str, ...], tmp_path: Path) -> None:
    other = tmp_path / "other" / ONNX
    shutil.copytree(repos / "cpu" / ONNX, other)
    options = ("--against", str(other.parent), "--point-budget-s", "60")
    done = suite(*POINT, *slower, *options, repos=tmp_path / "repos", results=tmp_path)
    assert done.status == STATUS["speed"], done.text
    assert "slower than the 3 % allowed, shown at 95 %" in done.text
    found = done.record().loads[0].comparison
    assert found is not None
    assert found.verdict == "slower", "it is on record"


def test_a_baseline_is_looked_up_point_by_point(first: Run, repos: Path, tmp_path: Path) -> None:
    options = ("--baseline", str(first.results), "--point-budget-s", "0.5", "--concurrencies", "3,4")
    done = suite("-v", "-k", f"{ONNX} and online", *options, repos=repos, results=tmp_path)
    assert f"to {first.results}: " in done.text
    assert f"no baseline in {first.results}" in done.text
