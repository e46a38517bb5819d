"""Two folders of records, and the output of the command that compares them."""

from pathlib import Path

import pytest


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "before", tmp_path / "after"
