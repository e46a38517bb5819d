"""What a user asks of single cases decides whole runs of the suite."""

from pathlib import Path

import pytest

from reports.run.outcomes import STATUS
from tests.whole_runs.suite import ONNX, suite

pytestmark = pytest.mark.campaign

SELECTED = ("-k", f"{ONNX} and (accuracy or online)", "--concurrencies", "4", "--point-budget-s", "0.5")


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ("limits = { top-1 = 1.0 }", "accuracy"),
        ("p99_ms = { 'b001-*' = 0.000001 }", "speed"),
        ("limits = { top-1 = 0.5 }\np99_ms = 80_000_000", None),
    ],
)
def test_a_run_ends_by_what_the_file_asks_of_its_case(
    repos: Path, tmp_path: Path, asked: str, kind: str | None
) -> None:
    file = tmp_path / "asked.toml"
    file.write_text(f"[[cases]]\nmatch = '{ONNX}'\nsource = 'agreed in May'\n{asked}\n")

    done = suite(*SELECTED, "--thresholds", str(file), repos=repos, results=tmp_path / "results")

    assert done.status == (STATUS[kind] if kind else 0), done.text
    found = done.record()
    assert found.accuracy is not None
    limits = [limit.source for score in found.accuracy.scores for limit in score.limits]
    assert any("agreed in May" in source for source in limits) is ("limits" in asked)
    budgets = [load.budget.source for load in found.loads if load.budget is not None]
    assert budgets == (["agreed in May"] if "p99_ms" in asked else [])
    assert ("agreed in May" in done.text) is (kind is not None)
