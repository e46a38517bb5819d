"""The batches in which the evaluation data is sent: of mixed sizes, each sample once, the same each time."""

import pytest

from fixtures.accuracy.through_server import mixed_batches


@pytest.mark.parametrize("largest", [1, 2, 8, 128])
@pytest.mark.parametrize("count", [1, 7, 500])
def test_mixed_batches_cover_every_sample_once(count: int, largest: int) -> None:
    batches = list(mixed_batches(count, largest))

    assert [index for batch in batches for index in batch] == list(range(count))
    assert {len(batch) for batch in batches} <= set(range(1, largest + 1))


def test_mixed_batches_are_of_all_sizes() -> None:
    sizes = [len(batch) for batch in mixed_batches(500, 8)]

    assert set(sizes) == set(range(1, 9))


def test_mixed_batches_are_the_same_each_time() -> None:
    assert list(mixed_batches(500, 8)) == list(mixed_batches(500, 8))


def test_the_last_batch_may_be_partial() -> None:
    whole = [len(batch) for batch in mixed_batches(500, 8)]
    first = next(i for i, size in enumerate(whole) if size > 1)

    assert len(list(mixed_batches(sum(whole[:first]) + 1, 8))[-1]) == 1
