"""Shared memory in use is distinguished from leftovers."""

import mmap
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.host import segments
from tests.helpers import theirs


@pytest.fixture
def segment() -> Iterator[Path]:
    """An unused segment of 4 KiB."""
    path = segments.MEMORY / f"test-{uuid.uuid4().hex}"
    path.write_bytes(b"\0" * mmap.PAGESIZE)
    yield path
    path.unlink(missing_ok=True)


def test_unused_segment_is_removed(segment: Path) -> None:
    assert segments.remove_unused([segment]) == [segment]
    assert not segment.exists()


def test_only_own_segments_become_private(tmp_path: Path) -> None:
    own, other, secret, strange = (
        tmp_path / name for name in ("triton-ab", "triton-x", "secret", "triton-abc")
    )
    for path in (own, other, secret):
        path.touch(0o644)
    strange.symlink_to(secret)
    os.mkfifo(tmp_path / "triton-abd")
    segments.make_private("triton-ab", tmp_path)
    modes = [path.stat().st_mode & 0o777 for path in (own, other, secret)]
    assert modes == [0o600, 0o644, 0o644]


def test_mapped_segment_stays_after_its_file_is_closed(segment: Path) -> None:
    with segment.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    try:
        assert segments.remove_unused([segment]) == []
    finally:
        memory.close()
    assert segments.is_unused(segment)


def test_segment_of_another_user_stays(segment: Path) -> None:
    theirs(segment)

    assert segments.remove_unused([segment]) == []
    assert segment.exists()
