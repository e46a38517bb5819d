"""--shard I/N: each test of a selection is in exactly one shard, though machines do not communicate."""

import pytest

from tests.helpers import Collect, Collected

CPU = ("--target", "cpu")


def shards(collect: Collect, count: int, *arguments: str) -> list[Collected]:
    return [collect("--shard", f"{number}/{count}", *arguments) for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("count", "arguments"),
    [
        (1, CPU),
        (4, CPU),
        (2, (*CPU, "-m", "not load")),
        (3, ("--target", "cpu,t4", "-k", "resnet50 and not int8", "--batches", "1,2,4")),
    ],
    ids=["one", "all", "-m", "two targets"],
)
def test_shards_have_each_selected_test_once(
    count: int, arguments: tuple[str, ...], collect: Collect
) -> None:
    whole = collect(*arguments)
    collected = shards(collect, count, *arguments)

    assert sorted(name for shard in collected for name in shard.names) == sorted(whole.names)
    for number, shard in enumerate(collected, 1):
        assert shard.status == 0
        assert shard.names == [name for name in whole.names if name in set(shard.names)], "in their order"
        summary = f"shard {number} of {count}: {len(shard.names)} of {len(whole.names)} tests"
        assert summary in shard.text
    cases = [
        {item.callspec.params["case"].key for item in shard.selected}  # type: ignore[attr-defined]
        for shard in collected
    ]
    assert sum(map(len, cases)) == len(set.union(*cases)), "the tests of a case stay in one shard"


def test_empty_shard_passes_but_empty_selection_does_not(collect: Collect) -> None:
    collected = shards(collect, 4, *CPU, "-k", "resnet50-micro and onnx")

    assert sorted(bool(shard.names) for shard in collected) == [False, False, True, True]
    assert {shard.status for shard in collected} == {0}
    nothing = collect(*CPU, "-k", "no-such-case", "--shard", "1/2")
    assert nothing.status == pytest.ExitCode.NO_TESTS_COLLECTED
