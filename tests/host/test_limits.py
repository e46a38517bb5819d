"""What the process may take of memory."""

import resource

import numpy as np
import pytest

from fixtures.host.limits import free_memory_gib, limited_memory


def test_more_memory_than_is_free_is_an_error_and_not_the_end_of_the_process() -> None:
    free_bytes, before = int(free_memory_gib() * 2**30), resource.getrlimit(resource.RLIMIT_AS)
    with limited_memory():
        np.empty(free_bytes // 2, np.uint8)
        with pytest.raises(MemoryError):
            np.empty(
                int(1.1 * free_bytes) + 2**30, np.uint8
            )  # never used, so that it takes none where granted
    assert resource.getrlimit(resource.RLIMIT_AS) == before
