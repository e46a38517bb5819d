"""Sizes of files and folders, and archives with paths outside their folder."""

import io
import tarfile
from pathlib import Path

import pytest

from fixtures.host import files


def test_folder_size_is_sum_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "variables").mkdir()
    (tmp_path / "saved_model.pb").write_bytes(b"graph")
    (tmp_path / "variables" / "index").write_bytes(b"12345678")
    assert files.size_bytes(tmp_path) == 13
    assert files.size_bytes(tmp_path / "saved_model.pb") == 5


def unpack(name: str, folder: Path) -> None:
    """Make an archive of one file and unpack it."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as new_archive:
        new_archive.addfile(tarfile.TarInfo(name))
    content.seek(0)
    with tarfile.open(fileobj=content) as archive:
        files.unpack(archive, folder)


@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="this Python cannot refuse it")
def test_path_outside_the_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tarfile.FilterError):
        unpack("../outside", tmp_path / "folder")
    assert not (tmp_path / "outside").exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_python_without_filters_unpacks_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    monkeypatch.setattr(
        tarfile.TarFile, "extraction_filter", staticmethod(lambda member, _path: member), raising=False
    )
    unpack("file", tmp_path / "folder")
    assert (tmp_path / "folder" / "file").is_file()
