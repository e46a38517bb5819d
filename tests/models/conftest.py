"""A checkpoint of a small BERT in NVIDIA's layout."""

from pathlib import Path

import pytest

from tests.models.bert_folder import small_state, write_folder
from tests.models.published import State


@pytest.fixture(scope="session")
def state() -> State:
    """Its state dictionary."""
    return small_state()


@pytest.fixture
def folder(state: State, tmp_path: Path) -> Path:
    """Its folder, which the test may change."""
    return write_folder(state, tmp_path / "dist-4l-qa")
