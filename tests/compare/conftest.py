"""Two folders of records, and the output of the command that compares them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from reports.record.schema import Record
from tests import examples as sample


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "before", tmp_path / "after"


@pytest.fixture
def shown(folders: tuple[Path, Path], printed: Callable[..., str]) -> Any:
    """Runs the command on two sets of records; returns its output."""

    def show(before: Sequence[Record], after: Sequence[Record], *options: str) -> str:
        sample.store(folders[0], *before)
        sample.store(folders[1], *after)
        return printed("compare", *folders, *options)

    return show
