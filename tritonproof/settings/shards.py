"""Groups tests that have to run on one machine, and splits a run into shards, equally on every machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tritonproof.spec import Case


@dataclass(frozen=True)
class CaseGroup:
    """Tests that share weights, builds or servers, so that they run on one machine."""

    target: str
    """The name of the hardware; the CPU for tests without a case."""
    model: str
    """The name of the model; for tests without a case that of their file."""
    tests: tuple[str, ...]
    """The ids of the tests, in the order of collection."""

    def __str__(self) -> str:
        return f"{self.target} {self.model}"


def groups_of(cases: Mapping[str, Case | None], *, by: Literal["model", "case"]) -> list[CaseGroup]:
    """The tests of `cases`, a mapping from a test's id to its case, in groups, the largest first: `by` model
    and hardware, so that weights and samples are loaded once, or by case, which is built and served once."""
    tests: dict[tuple[str, ...], list[str]] = {}
    for test, case in cases.items():
        key: tuple[str, ...] = ("cpu", test.partition("::")[0])
        if case is not None:
            key = (case.target.name, case.model.name, *([str(case)] if by == "case" else []))
        tests.setdefault(key, []).append(test)
    groups = [CaseGroup(target, model, tuple(ids)) for (target, model, *_), ids in tests.items()]
    return sorted(groups, key=lambda group: (-len(group.tests), group.target, group.model, group.tests))


@dataclass(frozen=True)
class Shard:
    """One of the equal parts of a run."""

    number: int
    """Which of the parts it is, from 1 to `count`."""
    count: int

    def __str__(self) -> str:
        return f"{self.number} of {self.count}"


def split(groups: Sequence[CaseGroup], count: int) -> list[list[CaseGroup]]:
    """The groups in `count` shards, each group in exactly one; some shards are empty if there are fewer
    groups. Shards are parts of one sorted list, cut where the number of tests comes nearest to an equal
    share. So they differ by no more tests than the largest group has, and few models are in more than one
    shard, each of which has to load their weights and samples."""
    shards: list[list[CaseGroup]] = [[] for _ in range(count)]
    total = sum(len(group.tests) for group in groups)
    placed = 0
    for group in sorted(groups, key=lambda group: (group.target, group.model, group.tests)):
        middle = placed + len(group.tests) / 2
        shards[int(middle / total * count)].append(group)
        placed += len(group.tests)
    return shards
