"""Archives are unpacked by each Python that the suite runs on, Debian 12's 3.11.2 among them."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from fixtures.host import archives


def archive_of(name: str) -> tarfile.TarFile:
    """An archive of one file."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as made:
        made.addfile(tarfile.TarInfo(name))
    content.seek(0)
    return tarfile.open(fileobj=content)


@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="this Python cannot refuse it")
def test_a_path_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    with archive_of("../outside") as archive, pytest.raises(tarfile.FilterError):
        archives.unpack(archive, tmp_path / "folder")

    assert not (tmp_path / "outside").exists()


def test_a_python_that_knows_no_filters_unpacks_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack_all: Any = tarfile.TarFile.extractall

    def of_before(archive: tarfile.TarFile, path: Path) -> None:
        unpack_all(archive, path)

    with archive_of("file") as archive, monkeypatch.context() as before:
        before.delattr(tarfile, "data_filter", raising=False)
        before.setattr(tarfile.TarFile, "extractall", of_before)
        archives.unpack(archive, tmp_path / "folder")

    assert (tmp_path / "folder" / "file").is_file()
