"""Process limits on memory, files and shared memory."""

import resource
from pathlib import Path

import numpy as np
import pytest

from fixtures.host.limits import fix_of_limits, free_memory_gib, limited_memory


@pytest.mark.parametrize(
    ("files", "size", "writable", "named"),
    [
        (1024, resource.RLIM_INFINITY, True, None),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, True, None),
        (64, resource.RLIM_INFINITY, True, "ulimit -n"),
        (1024, 64, True, "ulimit -f"),
        (1024, resource.RLIM_INFINITY, False, "/gone"),
    ],
)
def test_limit_too_small_for_a_server_is_named(
    files: int, size: int, writable: bool, named: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {resource.RLIMIT_NOFILE: files, resource.RLIMIT_FSIZE: size}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], limits[kind]))
    fix = fix_of_limits(tmp_path if writable else Path("/gone"))
    assert fix is None if named is None else named in str(fix)


def test_allocating_more_than_free_memory_raises_memory_error() -> None:
    free_bytes, before = int(free_memory_gib() * 2**30), resource.getrlimit(resource.RLIMIT_AS)
    with limited_memory():
        np.empty(free_bytes // 2, np.uint8)
        with pytest.raises(MemoryError):
            np.empty(
                int(1.1 * free_bytes) + 2**30, np.uint8
            )  # never used, so that it takes none where granted
    assert resource.getrlimit(resource.RLIMIT_AS) == before
