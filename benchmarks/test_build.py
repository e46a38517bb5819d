"""Converts the models only, for --convert-only, so that a later run finds them converted."""

import pytest

from fixtures.run.case_run import CaseRun


@pytest.mark.stage("build")
def test_build(run: CaseRun) -> None:
    """The model is in the model repository; the output says whether it was converted now or unchanged."""
    assert run.build.artifact.exists()
