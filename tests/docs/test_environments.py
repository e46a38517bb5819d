"""The small environments of tox ask for the same packages as the project does."""

import tomllib
from pathlib import Path

import pytest

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())


def test_what_proves_a_repository_asks_for_the_projects_own_versions() -> None:
    own = set(PROJECT["project"]["dependencies"])

    assert set(PROJECT["dependency-groups"]["prove"]) <= own


@pytest.mark.parametrize("framework", ["torch", "tensorflow", "onnx", "transformers"])
def test_what_proves_a_repository_takes_no_framework(framework: str) -> None:
    assert not [one for one in PROJECT["dependency-groups"]["prove"] if one.startswith(framework)]
