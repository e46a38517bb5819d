"""Errors name a full temporary folder, and truncated files are not reused."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.accuracy.stages import room_for
from fixtures.errors import ProofError
from fixtures.measure.load_data import input_data
from tests import toy

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_truncated_load_data_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Path.write_text

    def cut(path: Path, text: str, *arguments: Any) -> int:
        original(path, text[:10], *arguments)
        raise FULL

    with input_data(toy.model(), toy.samples(), tmp_path) as data:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "write_text", cut)
            with pytest.raises(ProofError) as raised:
                data.file(1)
        assert raised.value.where == str(data.folder)
        assert "TMPDIR" in raised.value.fix

        assert json.loads(data.file(1).read_text())["data"]


def test_full_disk_error_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> None:
        raise FULL

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "posix_fallocate", full)

    with pytest.raises(ProofError) as raised:
        room_for({"OUT": np.zeros((2, 3), np.float32)}, 8)
    assert raised.value.where == str(tmp_path)
