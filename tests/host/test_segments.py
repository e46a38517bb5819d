"""Shared memory that somebody uses is told from what is left, whoever it is."""

import mmap
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.host import segments
from tests.helpers import theirs


@pytest.fixture
def segment() -> Iterator[Path]:
    """A segment of 4 KiB that nobody uses."""
    path = segments.MEMORY / f"test-{uuid.uuid4().hex}"
    path.write_bytes(b"\0" * mmap.PAGESIZE)
    yield path
    path.unlink(missing_ok=True)


def test_what_nobody_has_open_is_removed(segment: Path) -> None:
    assert segments.remove_unused([segment]) == [segment]
    assert not segment.exists()


def test_only_the_own_segments_of_the_name_are_made_private(tmp_path: Path) -> None:
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


def test_what_is_mapped_stays_though_its_file_was_closed(segment: Path) -> None:
    with segment.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    try:
        assert segments.remove_unused([segment]) == []
        assert os.getpid() in segments.users_of(segment)
    finally:
        memory.close()
    assert segments.is_unused(segment)


def test_what_is_another_users_stays(segment: Path) -> None:
    theirs(segment)

    assert segments.remove_unused([segment]) == []
    assert segment.exists()


IN_A_CONTAINER = """
import mmap, sys
with open(sys.argv[1], "wb+") as file:
    file.truncate(mmap.PAGESIZE)
    memory = mmap.mmap(file.fileno(), 0)
print("mapped", flush=True)
sys.stdin.read()
"""


def test_a_containers_segment_of_the_same_name_is_another_one(segment: Path) -> None:
    own_memory = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"]
    with subprocess.Popen(
        [*own_memory, sys.executable, "-c", IN_A_CONTAINER, str(segment)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as container:
        assert container.stdout is not None
        if container.stdout.readline() != b"mapped\n":
            pytest.skip("only root can mount a file system, and not in each container")
        users = segments.users_of(segment)
        container.communicate()

    assert users == []


@pytest.mark.parametrize("kind", ["link", "fifo", "nothing"])
def test_what_is_no_segment_is_no_leftover(kind: str, segment: Path, tmp_path: Path) -> None:
    path = tmp_path / "tritonproof-a"
    if kind == "link":
        path.symlink_to(segment)
    elif kind == "fifo":
        os.mkfifo(path)

    assert segments.remove_unused([path]) == []
    assert segment.exists()
