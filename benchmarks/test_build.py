"""The models alone, for --convert-only: a later run finds them converted."""

import pytest

from fixtures.build.repository import BuiltModel


@pytest.mark.stage("build")
def test_build(build: BuiltModel) -> None:
    """The model is in the model repository, converted now or unchanged; the output says which."""
    assert build.artifact.exists()
