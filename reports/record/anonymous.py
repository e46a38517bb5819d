"""Records without the names of hosts and the UUIDs of GPUs, for readers elsewhere.

It needs the standard library alone.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from reports.record.machines import NAMELESS, MachineId
from reports.record.schema import MachinePart, Origin, Record


def numbered(machines: Iterable[MachineId]) -> Mapping[MachineId, str]:
    """A name for each of several machines that says nothing of it: its number among them. Those that have one keep their
    order."""

    def order(machine: MachineId) -> tuple[bool, int, MachineId]:
        number = machine.host.removeprefix(NAMELESS)
        is_numbered = machine.host.startswith(NAMELESS) and number.isdecimal()
        return (not is_numbered, int(number) if is_numbered else 0, machine)

    return {
        machine: f"{NAMELESS}{number}" for number, machine in enumerate(sorted(set(machines), key=order), 1)
    }


def without_names(record: Record, names: Mapping[MachineId, str]) -> Record:
    """The record without hosts and UUIDs; a machine that is in `names` is called that in place of its host."""
    changes: dict[str, Any] = {
        key: _without(getattr(record, key), names)
        for key in ("conversion", "accuracy", "search", "conversation", "soak")
    }
    changes |= {
        key: tuple(_without(one, names) for one in getattr(record, key))
        for key in ("server_ends", "gates", "starts", "loads", "efficiency")
    }
    machine = dataclasses.replace(record.machine, gpu_uuids=())
    parts = tuple(_part(part, names) for part in record.parts)
    return dataclasses.replace(record, machine=machine, parts=parts, **changes)


def _without(one: Any, names: Mapping[MachineId, str]) -> Any:
    """A measurement, with those inside it, such as a search's."""
    if one is None:
        return None
    changes: dict[str, Any] = {
        name: _without(getattr(one, name), names) for name in ("load", "accuracy") if hasattr(one, name)
    }
    if one.origin is not None:
        changes["origin"] = _origin(one.origin, names)
    return dataclasses.replace(one, **changes)


def _origin(origin: Origin, names: Mapping[MachineId, str]) -> Origin:
    return dataclasses.replace(origin, host=_name(origin.host, origin.gpu_uuids, names), gpu_uuids=())


def _part(part: MachinePart, names: Mapping[MachineId, str]) -> MachinePart:
    return dataclasses.replace(part, host=_name(part.host, part.gpu_uuids, names), gpu_uuids=())


def _name(host: str, gpu_uuids: Iterable[str], names: Mapping[MachineId, str]) -> str:
    return names.get(MachineId(host, tuple(sorted(gpu_uuids))), "")
