"""The order of tests, and shards."""

from collections.abc import Sequence
from itertools import groupby
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.collection import pytest_xdist_make_scheduler
from fixtures.steps import step_of
from tests.helpers import Collect, Collected, run_pytest


def test_cases_stay_together_in_step_order(collect: Collect) -> None:
    arguments = ("-k", "cpu and resnet50-micro and onnx", "--batches", "1,16", "--concurrencies", "4")
    collected = collect(*arguments, "--soak", "10m", "--latency-budget-ms", "7")

    correctness, speed = ["conversion", "accuracy", "gates"], ["online", "offline"]
    steps = [*correctness, *speed, "reload", "efficiency", "search", "soak"]
    assert [step for step, _ in groupby(map(step_of, collected.selected))] == steps * 2
    assert sum("test_offline" in name for name in collected.names) == 2 * 2
    half = len(collected.names) // 2
    assert ["onnx-fp32" in name for name in collected.names] == [True] * half + [False] * half


def test_reference_comes_first_and_compiled_formats_last(collect: Collect) -> None:
    """All cases of a model are adjacent, so that a run loads its weights once; sorted by name, `resnet50-tf`
    would come between `resnet50-onnx` and `resnet50-ts-trace`."""
    collected = collect("-k", "(cpu and fastpitch-micro or t4 and (resnet50 or resnet50-tf)) and conversion")

    cases = [item.callspec.params["case"] for item in collected.selected]  # type: ignore[attr-defined]
    formats = [case.format.name for case in cases if case.model.name == "fastpitch-micro"]
    assert (formats[0], formats[-1]) == ("onnx", "pt2")
    assert len(formats) > 2
    groups = [name for name, _ in groupby((case.target.name, case.model.name) for case in cases)]
    assert len({case.model.name for case in cases if case.target.name == "t4"}) > 1
    assert len(groups) == len(set(groups))


# --- shards: each test is in exactly one, though machines do not communicate ----------------------------------

ON_CPU = ("--target", "cpu")


def shards(collect: Collect, count: int, *arguments: str) -> list[Collected]:
    return [collect("--shard", f"{number}/{count}", *arguments) for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("count", "arguments"),
    [
        (1, ON_CPU),
        (4, ON_CPU),
        (2, (*ON_CPU, "-m", "not speed")),
        (3, ("--target", "cpu,t4", "-k", "resnet50 and not int8", "--batches", "1,2,4")),
    ],
    ids=["one", "all", "-m", "two targets"],
)
def test_shards_have_each_selected_test_once(count: int, arguments: Sequence[str], collect: Collect) -> None:
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
    collected = shards(collect, 4, *ON_CPU, "-k", "resnet50-micro and onnx")

    assert sorted(bool(shard.names) for shard in collected) == [False, False, True, True]
    assert {shard.status for shard in collected} == {0}
    nothing = collect(*ON_CPU, "-k", "no-such-case", "--shard", "1/2")
    assert nothing.status == pytest.ExitCode.NO_TESTS_COLLECTED
    words = ("--shard", "3/3", "-k", "cpu-resnet50-micro-onnx-fp32", "-n", "1")
    assert run_pytest("benchmarks", *words).returncode == 0, "as only the workers know"


def test_workers_get_all_tests_of_a_case() -> None:
    config: Any = SimpleNamespace(getoption=lambda _: "load", getvalue=lambda _: ["popen"])
    scope_of = pytest_xdist_make_scheduler(config, None)._split_scope
    for point in ("", "-b001-c032", "-b128-c1000", "-b001-r00120-poisson", "-b001-r00000.5-constant"):
        assert scope_of(f"benchmarks/a.py::test_a[cpu-b128-c1-onnx{point}]") == "cpu-b128-c1-onnx", point
