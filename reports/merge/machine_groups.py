"""Which machines' measurements of a case make one record, and which stay apart.

It needs the standard library alone.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reports.merge.inputs import Input
from reports.record.machines import Key, MachineId, Measurement
from reports.text.labels import full_point

START = "start"
"""The key of a server's start. Every run measures it again, so two machines that both have one may still be joined."""


class Found(NamedTuple):
    """One measurement with the record it is in."""

    one: Measurement
    within: Input


def groups(
    chosen: Mapping[MachineId, Mapping[Key, Sequence[Found]]], conflicts: list[str]
) -> list[list[MachineId]]:
    """The machines whose measurements make one record: all where none measured what another did, else those of one run
    of which that is true, and each of the others by itself."""
    names = sorted(chosen) or [MachineId("", ())]
    keys = {name: {key for key in chosen.get(name, ()) if key[0] != START} for name in names}
    if not _overlap(names, keys) and _may_join(names, chosen):
        return [names]
    for name in names:
        others = [other for other in names if other != name and _may_be_one(name, other)]
        if others and not name.host:
            conflicts.append(_not_told(chosen[name], chosen[others[0]]))
    runs = {
        name: {each.one.run for found in chosen[name].values() for each in found} - {""} for name in names
    }
    groups = []
    for group in _linked(names, runs):
        is_one = not _overlap(group, keys) and _may_join(group, chosen)
        groups += [group] if is_one else [[name] for name in group]
    return groups


def _overlap(names: Sequence[MachineId], keys: Mapping[MachineId, set[Key]]) -> bool:
    seen: set[Key] = set()
    for name in names:
        if not seen.isdisjoint(keys[name]):
            return True
        seen |= keys[name]
    return False


def _may_join(names: Sequence[MachineId], chosen: Mapping[MachineId, Mapping[Key, Sequence[Found]]]) -> bool:
    """Whether each measurement still says its machine in a record of all: where there are two, it has to say so itself."""
    told = [name for name in names if name.is_told]
    if len(told) < 2:
        return True
    return all(each.one.origin for name in names for found in chosen[name].values() for each in found)


def _may_be_one(name: MachineId, other: MachineId) -> bool:
    """Whether a machine without a name may be another."""
    return not name.gpu_uuids or not other.gpu_uuids or name.gpu_uuids == other.gpu_uuids


def _not_told(one: Mapping[Key, Sequence[Found]], other: Mapping[Key, Sequence[Found]]) -> str:
    shared = sorted(key for key in one if key in other and key[0] != START)
    first = one[shared[0]][0] if shared else next(iter(one.values()))[0]
    second = other[shared[0]][0] if shared else next(iter(other.values()))[0]
    if not shared:
        return (
            f"{first.within.path}: does not say on which machine it was measured, and several measured this case, such as "
            f"that of {second.within.path}. Merge it with the records of its own machine first, or leave it out."
        )
    return (
        f"{first.within.path} and {second.within.path}: both {text_of(first.one)}, and {first.within.path} does not say on "
        "which machine. Leave one of the files out."
    )


def _linked(names: Sequence[MachineId], runs: Mapping[MachineId, set[str]]) -> list[list[MachineId]]:
    """The machines by the runs that they share, with others or by way of others."""
    groups: list[tuple[list[MachineId], set[str]]] = []
    for name in names:
        mine: tuple[list[MachineId], set[str]] = ([name], set(runs[name]))
        apart = []
        for group in groups:
            if group[1].isdisjoint(mine[1]):
                apart.append(group)
            else:
                mine = ([*group[0], *mine[0]], group[1] | mine[1])
        groups = [*apart, mine]
    return sorted(sorted(group) for group, _ in groups)


def text_of(one: Measurement) -> str:
    """A measurement as the end of a sentence that begins with `both`: `measured offline, batch 8`."""
    if one.key[0] == "load":
        return f"measured {full_point(one.value)}"
    if one.key[0] == "efficiency":
        _, scenario, batch, concurrency = one.key
        return f"measured the efficiency of {scenario}, batch {batch}, concurrency {concurrency}"
    if one.key[0] == "gate":
        return f"looked at answers ({one.key[1]})"
    return f"have {one.key[0]}"
