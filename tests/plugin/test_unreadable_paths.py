"""Unreadable paths end a run with a usage error that names them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.plugin.options import as_usage_errors, has_answers
from tests.helpers import closed


@pytest.fixture
def given(tmp_path: Path) -> Iterator[Path]:
    """A file in an unreadable folder."""
    folder = tmp_path / "of-another"
    folder.mkdir()
    (folder / "file").touch()
    with closed(folder):
        yield folder / "file"


def test_unreadable_or_looping_path_is_a_usage_error(given: Path, tmp_path: Path) -> None:
    (tmp_path / "self").symlink_to("self")
    for path in (given, tmp_path / "self"):
        with pytest.raises(pytest.UsageError, match=f"where: {path}"), as_usage_errors():
            path.read_text()


def test_unreadable_answers_folder_is_an_error(given: Path) -> None:
    with pytest.raises(PermissionError):
        has_answers(given.parent)
