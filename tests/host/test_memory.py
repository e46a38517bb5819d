"""What a user's network may take of memory."""

import resource

import numpy as np
import pytest

from fixtures.host.memory import free_memory_gib, limited_memory


def test_more_memory_than_is_free_is_an_error_and_not_the_end_of_the_process() -> None:
    too_much = int(1.1 * free_memory_gib() * 2**30) + 2**30
    with limited_memory(), pytest.raises(MemoryError):
        np.empty(too_much, np.uint8)  # which is never used, so that it takes none where it is given


def test_what_is_free_can_be_had_and_the_limit_ends_with_the_block() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with limited_memory():
        np.empty(int(0.5 * free_memory_gib() * 2**30), np.uint8)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
