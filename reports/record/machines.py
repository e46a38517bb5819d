"""Which machine made each measurement of a record, and what that machine is called beside others.

It needs the standard library alone. What is made by the hundred thousand are tuples.
"""

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from reports.record.schema import (
    Accuracy,
    AnswerGate,
    Conversation,
    Efficiency,
    Load,
    Machine,
    Origin,
    Parity,
    Record,
    Search,
    Soak,
    StageFailure,
    Start,
    place,
)

NAMELESS = "anonymous-"
"""How the host begins of one of several machines whose names were left out; its number among them follows."""
_LONGEST_HOST = 40
_LONGEST_UUID = len("GPU-1a2b3c4d")
"""How much of a UUID is shown: as much as an eye needs to find it in what `nvidia-smi -L` prints."""


class MachineId(NamedTuple):
    """What tells two machines of one kind apart: the host, and on it the GPUs that were used."""

    host: str
    gpu_uuids: tuple[str, ...]
    """The UUIDs of the GPUs in the order of the alphabet."""

    @property
    def is_told(self) -> bool:
        """Whether the record says which machine it was; records from before say nothing of a CPU's."""
        return bool(self.host or self.gpu_uuids)

    @property
    def label(self) -> str:
        """The machine's name in those of files; two machines never share one."""
        said = "-".join([self.host[:_LONGEST_HOST], *(uuid[:_LONGEST_UUID] for uuid in self.gpu_uuids[:2])])
        name = re.sub(r"[^A-Za-z0-9_-]", "-", said).strip("-") or "unknown"
        if not self.gpu_uuids and name == self.host:
            return name
        whole = "\0".join([self.host, *self.gpu_uuids])
        return f"{name}-{hashlib.sha256(whole.encode(errors='surrogatepass')).hexdigest()[:8]}"


Key = tuple[Any, ...]
"""What was measured: `("load", "offline", 8, 1, 0.0, "")`, `("accuracy",)` and so on."""


class Measurement(NamedTuple):
    """One measurement of a record, of whatever kind."""

    key: Key
    value: Any
    """A Load, a Parity and so on."""
    machine: MachineId
    missing: str | None = None
    """Beside a ledger: why the task's metric is not in it."""

    @property
    def origin(self) -> Origin | None:
        return self.value.origin

    @property
    def run(self) -> str:
        """The id of its run; empty in records from before."""
        return self.origin.run if self.origin else ""

    @property
    def started(self) -> str:
        """When its run began; empty, which sorts first, in records from before."""
        return self.origin.started if self.origin else ""


def measurements(record: Record) -> list[Measurement]:
    """All that was measured. What does not say where it comes from is of the one machine that the rest is of; of GPUs that
    the record names; else of a machine that is not told."""
    found = list(_values(record))
    told = {machine_of(value.origin) for _, value, _ in found if value.origin is not None}
    told |= {_machine(part.host, tuple(part.gpu_uuids)) for part in record.parts}
    other = told.pop() if len(told) == 1 else _machine("", () if told else tuple(record.machine.gpu_uuids))
    return [
        Measurement(key, value, other if value.origin is None else machine_of(value.origin), missing)
        for key, value, missing in found
    ]


def machine_of(origin: Origin) -> MachineId:
    """The machine that an origin names."""
    return _machine(origin.host, tuple(origin.gpu_uuids))


def machines_of(record: Record, measured: Sequence[Measurement] | None = None) -> list[MachineId]:
    """The machines that the record's measurements, or those of them that are given, were made on, in the order of their
    names."""
    found = {one.machine for one in (measurements(record) if measured is None else measured)}
    return sorted(found) or [_machine("", tuple(record.machine.gpu_uuids))]


def label_of(record: Record) -> str:
    """What the record's machine is called where others measured the same case."""
    return machines_of(record)[0].label


def machine_digest(machine: Machine) -> str:
    """Eight hexadecimal digits that stand for the stamp of a machine."""
    stamp = json.dumps(dataclasses.asdict(machine), sort_keys=True)
    return hashlib.sha256(stamp.encode()).hexdigest()[:8]


def origins_of(record: Record) -> list[Origin]:
    """Where the record's measurements come from, each once, the earliest run first."""
    found = {(one.started, one.run, one.machine): one.origin for one in measurements(record)}
    return [origin for key in sorted(found) if (origin := found[key]) is not None]


@functools.lru_cache(maxsize=4096)
def _machine(host: str, gpu_uuids: tuple[str, ...]) -> MachineId:
    return MachineId(host, tuple(sorted(gpu_uuids)))


class Several(NamedTuple):
    """A field of a record that holds any number of measurements."""

    kind: str
    """What their keys begin with."""
    type: type[Any]
    place: Callable[[Any], Key]
    """What tells one of them from the others, in its key."""


SINGLE: Mapping[str, type[Any]] = {
    "conversion": Parity,
    "accuracy": Accuracy,
    "search": Search,
    "conversation": Conversation,
    "soak": Soak,
}
"""The fields of a record that hold one measurement, or None, by name, which is its key, with the type."""
SEVERAL: Mapping[str, Several] = {
    "failures": Several("failure", StageFailure, lambda failure: (failure.test,)),
    "gates": Several("gate", AnswerGate, lambda gate: (gate.gate,)),
    "starts": Several("start", Start, lambda start: (start.scenario,)),
    "loads": Several("load", Load, place),
    "efficiency": Several("efficiency", Efficiency, lambda one: (one.scenario, one.batch, one.concurrency)),
}
"""The fields of a record that hold any number of measurements, by name."""


def _values(record: Record) -> Iterator[tuple[Key, Any, str | None]]:
    for name in SINGLE:
        value = getattr(record, name)
        if value is not None:
            yield (name,), value, record.accuracy_missing if name == "accuracy" else None
    for name, several in SEVERAL.items():
        for value in getattr(record, name):
            yield (several.kind, *several.place(value)), value, None
