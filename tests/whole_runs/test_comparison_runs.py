"""Comparisons in whole runs, with verdicts that hold on a busy machine too."""

import subprocess
from pathlib import Path

import pytest

from reports.record.verdicts import comparison_text
from reports.run import STATUS
from tests.whole_runs.conftest import Slowed
from tests.whole_runs.suite import GIVEN, ROOT, Run, suite

POINT = ("-v", "-k", f"{GIVEN} and b001-c004", "--concurrencies", "4")


@pytest.fixture(scope="module")
def repos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of converted models of the run against the commit."""
    return tmp_path_factory.mktemp("repos")


@pytest.fixture(scope="module")
def against_commit(given: tuple[str, ...], repos: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run against the last commit."""
    options = (*given, *POINT, "--against", "HEAD", "--point-budget-s", "4")
    return suite(*options, repos=repos, results=tmp_path_factory.mktemp("results"))


def test_run_against_commit_builds_and_shows_ratio(against_commit: Run, repos: Path) -> None:
    # A busy machine may favour one of two equal sides.
    assert against_commit.status in (0, STATUS["speed"]), against_commit.text
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    folder = repos / ".against" / commit / "model_repos" / "cpu" / GIVEN
    assert (folder / "config.pbtxt").is_file()
    comparison = against_commit.record(GIVEN).loads[0].comparison
    assert comparison is not None
    assert comparison.reference == f"HEAD ({commit[:7]})"
    assert comparison_text(comparison) in against_commit.text
    assert "Verdict" in against_commit.text


def test_slower_runtime_fails_the_run(
    given: tuple[str, ...], against_commit: Run, repos: Path, slowed: Slowed, tmp_path: Path
) -> None:
    # Many times the model's own time: a pass lasts several latencies, and eight pairs show the difference.
    options = (*given, *POINT, *slowed(0.04), "--against", str(repos), "--point-budget-s", "60")
    done = suite(*options, repos=tmp_path / "repos", results=tmp_path)
    assert done.status == STATUS["speed"], done.text
    comparison = done.record(GIVEN).loads[0].comparison
    assert comparison is not None
    assert comparison.verdict == "slower", "it is on record"
