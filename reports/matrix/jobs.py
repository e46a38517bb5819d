"""The jobs that run this suite on several kinds of hardware: which, on which runner, and which part of the tests each.

It needs the standard library alone.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.commands import UsageError

_CPU = "cpu"
_ON_CUDA_12 = ("v100",)
"""Hardware for which CUDA 13 has no code: docs/gpus.md."""
_MOST_SHARDS = 1000
"""The most shards that --shard takes."""


@dataclass(frozen=True)
class Job:
    """One job: a shard of the tests of one kind of hardware."""

    target: str
    """The value of --target in this job."""
    number: int
    """The shard, from 1 to `shards`."""
    shards: int
    runner: Sequence[str]
    """The labels that a runner must have; empty for any."""
    environment: str
    """The environment of tox that has the packages for the hardware."""
    options: str
    """What else pytest is given, as a shell has it; may be empty."""

    @property
    def name(self) -> str:
        """Unlike any other job's: of the job, of its folder of records, of its artifact."""
        return self.target if self.shards == 1 else f"{self.target}-{self.number}of{self.shards}"

    @property
    def shard(self) -> str:
        """The value of --shard in this job."""
        return f"{self.number}/{self.shards}"


def jobs_of(
    targets: Sequence[str],
    shards: Mapping[str, int],
    runners: Mapping[str, Sequence[str]],
    environments: Mapping[str, str],
    options: str,
) -> list[Job]:
    """The jobs of each target in the order given. Without an entry a target has one shard, a runner that is labelled by
    its name (the CPU any), and the environment of docs/gpus.md with TensorRT."""
    return [
        Job(
            target,
            number + 1,
            count,
            runners.get(target, () if target == _CPU else (target,)),
            environments.get(target, environment_of(target)),
            options,
        )
        for target in targets
        for count in [shards.get(target, 1)]
        for number in range(count)
    ]


def environment_of(target: str) -> str:
    """The environment of tox for hardware with a driver of today."""
    if target == _CPU:
        return "benchmarks"
    return f"benchmarks-gpu{'-cuda12' if target in _ON_CUDA_12 else ''}-trt"


def targets_in(text: str) -> list[str]:
    """The names in a list, each once; raises UsageError for what no target is called."""
    names = [name.strip().lower() for name in text.split(",")]
    for name in names:
        if not re.fullmatch(r"[a-z][a-z0-9]*", name):
            raise UsageError(f"--targets {text!r}: {name!r} is no hardware's name. Write --targets cpu,a100")
    return list(dict.fromkeys(names))


def shards_in(texts: Sequence[str], targets: Sequence[str]) -> dict[str, int]:
    """How many shards each target has: N for all, TARGET=N for one, the later counts."""
    found: dict[str, int] = {}
    for text in texts:
        name, equals, count = text.rpartition("=")
        if not re.fullmatch(r"[0-9]{1,6}", count) or not 1 <= int(count) <= _MOST_SHARDS:
            raise UsageError(
                f"--shards {text!r}: not a number from 1 to {_MOST_SHARDS:,}. Write --shards 2, or a100=4"
            )
        of = [_one_of(targets, name, "--shards", text)] if equals else targets
        found |= dict.fromkeys(of, int(count))
    return found


def values_in(
    option: str, texts: Sequence[str], targets: Sequence[str], pattern: str, example: str
) -> dict[str, str]:
    """The values of a repeatable option TARGET=VALUE, where each fits the pattern."""
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not re.fullmatch(pattern, value):
            raise UsageError(f"{option} {text!r}: not a target and its value. Write {option} {example}")
        found[_one_of(targets, name, option, text)] = value
    return found


def _one_of(targets: Sequence[str], name: str, option: str, text: str) -> str:
    if name.strip().lower() not in targets:
        raise UsageError(
            f"{option} {text!r}: {name!r} is none of the targets {', '.join(targets)}. Name it in --targets too"
        )
    return name.strip().lower()
