"""A comparison in a whole run, with a verdict that holds on a busy machine too."""

import subprocess
from pathlib import Path

from reports.record.verdicts import comparison_text
from reports.run import STATUS
from tests.helpers import ROOT
from tests.whole_runs.conftest import Slowed
from tests.whole_runs.suite import GIVEN, suite


def test_slower_runtime_than_a_commits_fails_the_run(
    given: tuple[str, ...], slowed: Slowed, tmp_path: Path
) -> None:
    """The commit's build has its own runtime."""
    # Many times the model's own time: a pass lasts several latencies, and eight pairs show the difference.
    point = ("-v", "-k", f"{GIVEN} and b001-c004", "--concurrencies", "4", "--point-budget-s", "60")
    done = suite(
        *given, *point, *slowed(0.04), "--against", "HEAD", repos=tmp_path / "repos", results=tmp_path
    )

    assert done.status == STATUS["speed"], done.text
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    folder = tmp_path / "repos" / ".against" / commit / "model_repos" / "cpu" / GIVEN
    assert (folder / "config.pbtxt").is_file()
    comparison = done.record(GIVEN).loads[0].comparison
    assert comparison is not None
    assert (comparison.verdict, comparison.reference) == ("failed", f"HEAD ({commit[:7]})")
    assert comparison_text(comparison) in done.text
    assert "Verdict" in done.text
