"""Digests and sizes of artifacts, be they a file or a folder."""

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


def test_an_equal_folder_has_an_equal_digest(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    (copy / "variables").mkdir(parents=True)
    (copy / "variables" / "index").write_bytes(b"12345678")
    (copy / "saved_model.pb").write_bytes(b"graph")

    assert digests.digest(copy) == digests.digest(folder)


def test_every_change_in_a_folder_changes_its_digest(folder: Path) -> None:
    before = [digests.digest(folder)]
    (folder / "variables" / "index").write_bytes(b"12345679")
    before.append(digests.digest(folder))
    (folder / "variables" / "index").rename(folder / "variables" / "other")
    before.append(digests.digest(folder))
    (folder / "more").write_bytes(b"")
    before.append(digests.digest(folder))

    assert len(set(before)) == 4


def test_what_is_not_there_has_no_digest(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        digests.digest(tmp_path / "missing")
