"""A server that begins to answer wrongly after it was proven right, in whole runs with one folder of results."""

from pathlib import Path

import pytest

from reports.text.publishable import publishable
from tests.whole_runs.planting import PLANTED
from tests.whole_runs.suite import FAST, TRACE, Run, suite

pytestmark = pytest.mark.campaign


def test_a_failed_accuracy_takes_an_earlier_pass_away_and_every_later_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(selection: str) -> Run:
        repos = Path(__file__).parents[2] / "model_repos"
        of_case = f"resnet50-micro and ts-trace and fp32 and ({selection})"
        plugin = ("-p", "tests.whole_runs.planting")
        return suite(*plugin, "-k", of_case, *FAST, repos=repos, results=tmp_path / "results")

    right = run("conversion or accuracy or offline")
    assert right.status == 0, right.text
    assert publishable(right.record(TRACE)).loads

    monkeypatch.setenv(PLANTED, "1")
    wrong = run("accuracy or offline")
    assert wrong.status == 12, wrong.text
    assert "top-1" not in wrong.text
    assert "No throughput is shown: accuracy failed" in wrong.text
    assert not publishable(wrong.record(TRACE)).loads

    later = run("offline")
    assert later.record(TRACE).loads, "it was measured again"
    assert not publishable(later.record(TRACE)).loads
    assert "No throughput is shown: accuracy failed" in later.text
