"""--shard I/N: each test of a selection is in exactly one shard, though machines do not communicate."""

import re
from pathlib import Path

import pytest

from tests.helpers import ROOT, Collect, Collected

CPU = ("--target", "cpu")


def shards(collect: Collect, count: int, *arguments: str) -> list[Collected]:
    return [collect("--shard", f"{number}/{count}", *arguments) for number in range(1, count + 1)]


def digest_of(collected: Collected) -> str:
    (digest,) = re.findall(r"every shard of this split says (\w+)", collected.text)
    return str(digest)


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
    assert len({digest_of(shard) for shard in collected}) == 1
    for number, shard in enumerate(collected, 1):
        assert shard.status == 0
        assert shard.names == [name for name in whole.names if name in set(shard.names)], "in their order"
        summary = f"shard {number} of {count}: {len(shard.names)} of {len(whole.names)} tests, about "
        assert summary in shard.text
    said = [re.findall(r"about ([\d.]+) of ([\d.]+) min", shard.text)[0] for shard in collected]
    (all_minutes,) = {float(in_all) for _own, in_all in said}
    assert sum(float(own) for own, _in_all in said) == pytest.approx(all_minutes, abs=0.1 * count)
    cases = [
        {item.callspec.params["case"].key for item in shard.selected}  # type: ignore[attr-defined]
        for shard in collected
    ]
    assert sum(map(len, cases)) == len(set.union(*cases)), "the tests of a case stay in one shard"


def test_only_the_records_for_shards_decide_the_split(collect: Collect, tmp_path: Path) -> None:
    """The records that a run writes do not split it: they would change the next shard on that machine."""
    half = (*CPU, "--shard", "1/2")
    own, with_results, with_records = (
        collect(*half, *more)
        for more in ((), ("--results", str(ROOT / "reports/readme")), ("--shard-records", str(tmp_path)))
    )
    assert own.names == with_results.names
    assert digest_of(own) != digest_of(with_records)


def test_empty_shard_passes_but_empty_selection_does_not(collect: Collect) -> None:
    collected = shards(collect, 4, *CPU, "-k", "resnet50-micro and onnx")

    assert sorted(bool(shard.names) for shard in collected) == [False, False, True, True]
    assert {shard.status for shard in collected} == {0}
    nothing = collect(*CPU, "-k", "no-such-case", "--shard", "1/2")
    assert nothing.status == pytest.ExitCode.NO_TESTS_COLLECTED
