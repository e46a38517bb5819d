"""A repository against the one that it replaces: whole runs over models with planted faults, noisy and right
ones."""

import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.serve.launch import serve
from fixtures.serve.server_spec import Choice
from reports.record import files
from reports.record.verdicts import costlier
from reports.run import STATUS
from tests.helpers import Collect
from tests.user_models.repositories import code, config, write_model
from tests.whole_runs.suite import Run, suite

FAST = ("--point-budget-s", "60", "--batches", "1,4", "--triton", "embedded", "-v")
RIGHT = code("2 * values")
ONE_ROW_OFF = code("2 * values * np.where(values[:, :1] > 0.9, np.float32(1.0001), np.float32(1))")
"""Doubles the values, and adds a ten-thousandth in rows that begin with more than 0.9."""
NOISY = code("values + np.random.default_rng().normal(0, 1e-3, values.shape).astype(np.float32)")
TAKES_40_MS, TAKES_42_MS = (code(f"__import__('time').sleep({s}) or 2 * values") for s in (0.04, 0.042))
DEAR = RIGHT.replace(
    "    def execute",
    """    def initialize(self, args):
        self.kept = np.ones(1 << 25)  # 256 MiB
        __import__("time").sleep(4)
        pb_utils.Logger.log_warn("this is dear")

    def execute""",
)
"""A model that loads longer, uses more memory and logs a warning."""
MODELS = {
    "alike": (RIGHT, RIGHT),
    "noisy": (NOISY, NOISY),
    "moved": (ONE_ROW_OFF, RIGHT),
    "slower": (TAKES_42_MS, TAKES_40_MS),
    "dear": (DEAR, RIGHT),
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
                write_model(
                    root / side, name, model, config(batch=2 if (name, side) == ("slower", "old") else 4)
                )
    return root / "new", root / "old"


@pytest.fixture(scope="module")
def run(repositories: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that compares the answers of all models, and the speed of one."""
    new, old = map(str, repositories)
    chosen = ("-k", "against or (slower and offline)")
    results = tmp_path_factory.mktemp("results")
    return suite("--repository", new, "--against", old, *chosen, *FAST, results=results)


@pytest.mark.parametrize("name", ["alike", "noisy", "slower", "dear"])
def test_unchanged_answers_pass(run: Run, name: str) -> None:
    (gate,) = run.record(f"cpu-{name}-asis").gates

    assert (gate.gate, gate.wrong) == ("other", ""), run.text
    assert gate.same is not None
    assert gate.same.samples == 64


def test_small_change_in_some_rows_fails_run(run: Run) -> None:
    (gate,) = run.record("cpu-moved-asis").gates

    assert gate.wrong
    assert gate.same is not None
    assert not gate.same.passed
    assert run.status == STATUS["accuracy"]


def test_wrong_answer_writes_a_reproducer(run: Run, repositories: tuple[Path, Path], tmp_path: Path) -> None:
    """The script finds the difference on the server that has it, and none on the other."""
    folder = run.results / "cpu/cpu-moved-asis.reproducer/other"
    assert {path.name for path in folder.iterdir()} == {
        *("config.pbtxt", "request.npz", "request.json", "expected.npz", "given.npz", "show.py", "issue.md")
    }
    assert not (run.results / "cpu/cpu-alike-asis.reproducer").exists()
    outputs = []
    for repository in repositories:
        with serve(
            Choice("embedded"), repository, tmp_path / "log", device="cpu", open_to_all=True
        ) as server:
            server.load_as_found(repository / "moved")
            command = [sys.executable, str(folder / "show.py"), server.address]
            outputs.append(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    assert ["OUT differs" in output for output in outputs] == [True, False]


def test_costs_and_verdict_are_recorded(run: Run) -> None:
    against = run.record("cpu-alike-asis").against

    assert against is not None
    assert against.here.triton == against.there.triton != ""
    assert against.here.loads_s[0] > 0
    assert costlier(against) == []
    assert against.there.used["memory of the server"] > 0
    assert against.here.noise == 0
    assert against.warnings == ()
    noisy = run.record("cpu-noisy-asis").against
    assert noisy is not None
    assert noisy.here.noise
    assert "Not safe to upgrade" in run.text


def test_costlier_model_fails_with_its_new_warning(run: Run) -> None:
    against = run.record("cpu-dear-asis").against

    assert against is not None
    assert len(costlier(against)) == 2, "start-up and memory"
    assert against.warnings == ("this is dear",)
    assert "FAILED benchmarks/test_against.py::test_costs_no_more_than_the_other[cpu-dear-asis]" in run.text
    assert "test_costs_no_more_than_the_other[cpu-alike-asis] PASSED" in run.text


def test_5_percent_slower_model_is_reported_slower(run: Run) -> None:
    single, batched = run.record("cpu-slower-asis").loads

    assert single.comparison is not None
    assert single.comparison.verdict == "slower"
    assert batched.comparison is None, "the other takes batches up to 2"


def test_missing_model_fails_and_new_model_skips(run: Run) -> None:
    assert "ERROR benchmarks/test_against.py::test_same_answer_as_the_other[cpu-gone-asis]" in run.text
    assert "SKIPPED [2] benchmarks:1: fresh is new" in run.text
    for name in ("gone", "fresh"):
        assert (
            not files.path_of(run.record("cpu-alike-asis").case, run.results)
            .with_stem(f"cpu-{name}-asis")
            .exists()
        )


def test_missing_model_has_one_test(repositories: tuple[Path, Path], collect: Collect) -> None:
    new, old = map(str, repositories)
    collected = collect("--repository", new, "--against", old, "--target", "cpu")

    assert [name for name in collected.names if "gone" in name] == [
        "test_same_answer_as_the_other[cpu-gone-asis]"
    ]
    assert {"cpu-alike-asis", "cpu-fresh-asis"} <= collected.cases("test_declared_output")
    assert not collect("--repository", new, "--target", "cpu").cases("test_same_answer_as_the_other")
