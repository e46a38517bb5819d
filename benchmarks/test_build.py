"""Converts the models only, for --convert-only, so that a later run finds them converted."""

import pytest

from fixtures.build.repository import BuiltModel


@pytest.mark.stage("build")
def test_build(build: BuiltModel) -> None:
    """The model is in the model repository; the output says whether it was converted now or found unchanged."""
    assert build.artifact.exists()
