"""Two models on one server, in a whole run of the suite."""

from pathlib import Path

import pytest

from reports.text.publishable import publishable
from tests.whole_runs.suite import ONNX, TRACE, suite

pytestmark = pytest.mark.campaign


def test_each_is_measured_beside_the_other_and_answers_rightly_then(repos: Path, tmp_path: Path) -> None:
    options = ("--together", f"{ONNX},{TRACE}", "--concurrencies", "4", "--point-budget-s", "2")

    done = suite(*options, "-k", "not offline and not efficiency", repos=repos, results=tmp_path / "results")

    assert done.status == 0, done.text
    for case, other in ((ONNX, TRACE), (TRACE, ONNX)):
        (load,) = publishable(done.record(case)).loads
        (beside,) = load.beside
        assert (beside.other, beside.concurrency) == (other, 4)
        assert beside.answers is not None
        assert beside.answers.verified > beside.answers.wrong == 0
        assert f"beside {other}" in done.text
