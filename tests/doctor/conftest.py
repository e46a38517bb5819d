"""Parts that several tests of the doctor need."""

from pathlib import Path

import pytest

from fixtures.host import locks


@pytest.fixture
def private_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Locks that no other run knows."""
    monkeypatch.setattr(locks, "folder", lambda: tmp_path)
    return tmp_path
