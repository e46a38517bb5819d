"""A repository against the one that it replaces: whole runs over faulty, noisy and right models."""

import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.outcomes import STATUS
from tests.helpers import Collect, present
from tests.serve.programs import serve_everybody
from tests.user_models.repositories import code, config, write_model
from tests.whole_runs.suite import Run, suite
from tritonproof.reports.speed_text import footprint_failures
from tritonproof.serve.loading import load_folder
from tritonproof.serve.server_spec import ServerSetup, ServerSpec

FAST = ("--point-budget-s", "1", "--batches", "1,4", "--triton", "embedded", "-v")
RIGHT = code("2 * values")
ONE_ROW_OFF = code("2 * values * np.where(values[:, :1] > 0.9, np.float32(1.0001), np.float32(1))")
"""Doubles the values, and adds a ten-thousandth in rows that begin with more than 0.9."""
NOISY = code("values + np.random.default_rng().normal(0, 1e-3, values.shape).astype(np.float32)")
TAKES_5_MS, TAKES_20_MS = (code(f"__import__('time').sleep({s}) or 2 * values") for s in (0.005, 0.02))
DEAR = NOISY.replace(
    "    def execute",
    """    def initialize(self, args):
        self.kept = np.ones(1 << 25)  # 256 MiB
        __import__("time").sleep(2)
        pb_utils.Logger.log_warn("this is dear")

    def execute""",
)
"""The noisy model, but it loads longer, uses more memory and logs a warning."""
MODELS = {
    "moved": (ONE_ROW_OFF, RIGHT),
    "slower": (TAKES_20_MS, TAKES_5_MS),
    "dear": (DEAR, NOISY),
    "fresh": (RIGHT, None),
    "gone": (None, RIGHT),
}
"""The code of each model in the new repository and in the old one."""


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The new repository and the old one."""
    root = tmp_path_factory.mktemp("repositories")
    for name, sides in MODELS.items():
        for side, model in zip(("new", "old"), sides, strict=True):
            if model is not None:
                batch = 2 if (name, side) == ("slower", "old") else 4
                write_model(root / side, name, model, config(batch=batch))
    return root / "new", root / "old"


@pytest.fixture(scope="module")
def run(repositories: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that compares the answers of all models, and the speed of one."""
    new, old = map(str, repositories)
    chosen = ("-k", "baseline or (slower and offline)")
    results = tmp_path_factory.mktemp("results")
    return suite("--repository", new, "--against", old, *chosen, *FAST, results=results)


def test_small_change_in_some_rows_fails_run_with_a_reproducer(
    run: Run, repositories: tuple[Path, Path], tmp_path: Path
) -> None:
    """The script finds the difference on the server that has it, and none on the other."""
    (gate,) = run.record("cpu-moved-asis").gates
    assert gate.fault
    assert present(gate.answer_comparison).wrong
    assert run.status == STATUS["accuracy"]
    folder = run.results / "cpu/cpu-moved-asis.reproducer/baseline"
    assert {path.name for path in folder.iterdir()} == {
        *("config.pbtxt", "request.npz", "expected.npz", "actual.npz", "show.py")
    }
    assert not (run.results / "cpu/cpu-slower-asis.reproducer").exists()
    outputs = []
    for repository in repositories:
        log = tmp_path / "log"
        with serve_everybody(ServerSpec("embedded"), ServerSetup(repository, log, "cpu")) as server:
            load_folder(server, repository / "moved")
            command = [sys.executable, str(folder / "show.py"), server.address]
            outputs.append(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    assert ["OUT differs" in output for output in outputs] == [True, False]


@pytest.mark.parametrize("name", ["slower", "dear"])
def test_unchanged_answers_pass(run: Run, name: str) -> None:
    (gate,) = run.record(f"cpu-{name}-asis").gates
    assert (gate.gate, gate.fault) == ("baseline", ""), run.text
    assert present(gate.answer_comparison).count == 2 * 64


def test_costs_are_recorded_and_fail_a_costlier_model(run: Run) -> None:
    alike, dear = (present(run.record(f"cpu-{name}-asis").baseline) for name in ("slower", "dear"))

    assert alike.current.triton == alike.baseline.triton != ""
    assert alike.current.loadings_s[0] > 0
    assert alike.baseline.used["memory of the server"] > 0
    assert alike.current.noise == 0
    assert dear.current.noise
    assert (alike.warnings, dear.warnings) == ((), ("this is dear",))
    assert footprint_failures(alike) == []
    assert len(footprint_failures(dear)) == 2, "start-up and memory"
    assert "FAILED benchmarks/test_baseline.py::test_footprint_near_baseline[cpu-dear-asis]" in run.text
    assert "test_footprint_near_baseline[cpu-slower-asis] PASSED" in run.text
    assert "Not safe to upgrade" in run.text


def test_speed_is_compared_where_both_take_the_batch(run: Run) -> None:
    """The budget holds the fewest pairs, which are too few for a verdict."""
    single, batched = run.record("cpu-slower-asis").points
    assert present(single.comparison).ratio.high < 0.6, "one takes 20 ms, the other 5 ms"
    assert batched.comparison is None, "the other takes batches up to 2"


def test_missing_model_fails_and_new_model_skips(
    run: Run, repositories: tuple[Path, Path], collect: Collect
) -> None:
    assert "ERROR benchmarks/test_baseline.py::test_baseline[cpu-gone-asis]" in run.text
    assert "SKIPPED [2] benchmarks:1: fresh is new" in run.text
    assert {path.stem for path in (run.results / "cpu").glob("*.json")} == {
        f"cpu-{name}-asis" for name in ("moved", "slower", "dear", "gone")
    }
    assert "gone is not in this repository" in run.record("cpu-gone-asis").failures[0].message
    new, old = map(str, repositories)
    collected = collect("--repository", new, "--against", old, "--target", "cpu")
    of_gone = [name for name in collected.names if "gone" in name]
    assert of_gone == ["test_baseline[cpu-gone-asis]"]
    assert not collect("--repository", new, "--target", "cpu").cases("test_baseline")
