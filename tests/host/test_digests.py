"""Sizes of artifacts, be they a file or a folder."""

from pathlib import Path

import pytest

from fixtures.host import digests


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as a SavedModel is one."""
    found = tmp_path / "model.savedmodel"
    (found / "variables").mkdir(parents=True)
    (found / "saved_model.pb").write_bytes(b"graph")
    (found / "variables" / "index").write_bytes(b"12345678")
    return found


def test_a_folder_is_as_large_as_its_files(folder: Path) -> None:
    assert digests.size_bytes(folder) == 13
    assert digests.size_bytes(folder / "saved_model.pb") == 5
