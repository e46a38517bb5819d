"""Decides which records are kept of all records of one case, from any number of machines and runs.

What is kept depends on the measurements alone, however they were spread over records: each is there once, the later of
two of one machine stands, and machines that measured the same thing stay apart. It needs the standard library alone.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.compare.setup import Setting, differing
from reports.merge.inputs import Input
from reports.merge.machine_groups import START, Found, groups, text_of
from reports.merge.machine_parts import last_change_of, parts_of, whole
from reports.record import decoding
from reports.record.foreign import one_line
from reports.record.machines import NAMELESS, SEVERAL, Key, MachineId, Measurement
from reports.record.schema import Machine, MachinePart, Record

_LONGEST_SETTING = 300
"""Characters of a setting's two values in a sentence; a digest has 64."""
_CURE_OF_SETUP = "Measure the case again with one build and one setup, or leave one of the files out."


@dataclass(frozen=True)
class Kept:
    """One record that is to be kept of a case."""

    inputs: Sequence[Input]
    """The given records that have measurements of its machines."""
    of: Mapping[Key, Sequence[Input]]
    """The given records that hold each kept measurement, by the measurement's key."""
    latest: Sequence[Input]
    """The given records whose build, server and price are kept."""
    machine: str
    """The name of its machine in the name of the file; empty where only one machine measured the case."""
    content: Input | Record
    """The record itself: an input that holds it as it is, else a new one."""


@dataclass(frozen=True)
class Outcome:
    """The records that are kept of a case."""

    kept: Sequence[Kept]
    earlier: int
    """How many measurements gave way to a later one of the same machine."""


def outcome(records: Sequence[Input], conflicts: list[str]) -> Outcome:
    """The records to keep of a case. A sentence is added to `conflicts` for each conflict, and then none is kept."""
    if len(records) == 1:
        return Outcome([_alone(records[0])], 0)
    before = len(conflicts)
    conflicts += [text for other in records[1:] for text in _setup(records[0], other)]
    if len(conflicts) > before:
        return Outcome([], 0)
    found = _without_repeats([Found(one, within) for within in records for one in within.measured])
    chosen, earlier = _latest(found, conflicts)
    together = groups(chosen, conflicts)
    parts = parts_of(records, conflicts)
    if len(conflicts) > before:
        return Outcome([], 0)
    kept = [_kept(group, chosen, parts, records, is_one_of_several=len(together) > 1) for group in together]
    return Outcome(kept, earlier)


def _alone(one: Input) -> Kept:
    keys = {found.key: [one] for found in one.measured}
    return Kept([one], keys, [one], "", one)


def _setup(first: Input, second: Input) -> list[str]:
    """A sentence on what differs in build, machine, deployment or server; empty where nothing does. A record that was not
    served yet does not differ in its server."""
    if _plain_setup(first.record) == _plain_setup(second.record) and _same_serving(first, second):
        return []
    first, second = sorted((first, second), key=lambda one: str(one.path))
    before, after = (decoding.built(Record, one.record) for one in (first, second))
    served = before.serving and after.serving
    found = [
        setting
        for setting in differing(before, after)
        if setting.name != "machine.gpu_uuids" and (served or not setting.name.startswith("serving."))
    ]
    if not found:
        return []
    return [f"{first.path} and {second.path} differ in {fields_text(found)}. {_CURE_OF_SETUP}"]


def _same_serving(first: Input, second: Input) -> bool:
    one, other = first.record.serving, second.record.serving
    return one is None or other is None or one == other


def _plain_setup(record: Record) -> tuple[Any, ...]:
    build = record.build
    made = (build.digest, build.weights, build.format, build.engine)
    return stamp_of(record.machine), record.deployment, made


def stamp_of(machine: Machine) -> tuple[Any, ...]:
    """The stamp of a machine, which is equal for two machines of one kind: all fields except the UUIDs of the GPUs."""
    names = (
        field.name for field in dataclasses.fields(Machine) if field.name not in ("gpu_uuids", "versions")
    )
    return (*(getattr(machine, name) for name in names), *sorted(machine.versions.items()))


def fields_text(settings: Sequence[Setting]) -> str:
    """Settings that differ, each with both values: `build.digest (0f3c and 77aa), ...`."""
    return ", ".join(
        one_line(f"{one.name} ({one.before} and {one.after})", _LONGEST_SETTING) for one in settings
    )


# --- which measurements ------------------------------------------------------------------------------------


def _without_repeats(found: Sequence[Found]) -> list[Found]:
    """The measurements without those that are there twice, with the machine's name and without it."""
    told: dict[tuple[Key, str], list[Found]] = {}
    for each in found:
        if each.one.origin is not None and not _is_nameless(each.one.machine):
            told.setdefault((each.one.key, each.one.run), []).append(each)
    return [
        each
        for each in found
        if each.one.origin is None
        or not _is_nameless(each.one.machine)
        or not any(_is_same(each.one, other.one) for other in told.get((each.one.key, each.one.run), ()))
    ]


def _is_nameless(machine: MachineId) -> bool:
    return not machine.host or machine.host.startswith(NAMELESS)


def _is_same(one: Measurement, other: Measurement) -> bool:
    """Whether all but the machine's name is equal."""
    names = [name for name in _field_names(one.value) if name != "origin"]
    return (
        one.missing == other.missing
        and all(getattr(one.value, name) == getattr(other.value, name) for name in names)
        and all(
            getattr(one.origin, name) == getattr(other.origin, name)
            for name in ("commit", "clean", "started")
        )
    )


def _field_names(value: Any) -> Sequence[str]:
    return getattr(value, "__struct_fields__", None) or [field.name for field in dataclasses.fields(value)]


def _latest(
    found: Sequence[Found], conflicts: list[str]
) -> tuple[dict[MachineId, dict[Key, list[Found]]], int]:
    """By machine, of each thing that it measured the latest: all records that hold it. And how many are earlier."""
    alike: dict[tuple[MachineId, Key], list[list[Found]]] = {}
    for each in found:
        groups = alike.setdefault((each.one.machine, each.one.key), [])
        for group in groups:
            if group[0].one.value == each.one.value and group[0].one.missing == each.one.missing:
                group.append(each)
                break
        else:
            groups.append([each])
    chosen: dict[MachineId, dict[Key, list[Found]]] = {}
    earlier = 0
    for (machine, key), groups in alike.items():
        chosen.setdefault(machine, {})[key] = (
            groups[0] if len(groups) == 1 else _stands(machine, groups, conflicts)
        )
        earlier += len(groups) - 1
    return chosen, earlier


def _stands(machine: MachineId, groups: Sequence[list[Found]], conflicts: list[str]) -> list[Found]:
    """What stands of several figures of one thing: the one of the latest run. Of two starts that do not say where they
    come from, that of the record that was changed last."""

    def time_of(group: Sequence[Found]) -> tuple[str, str]:
        when = max(each.within.record.updated for each in group) if group[0].one.key[0] == START else ""
        return group[0].one.started, when

    ordered = sorted(groups, key=lambda group: (time_of(group), repr(group[0].one.value)))
    *others, last = ordered
    if last[0].one.key[0] == START:
        return last
    is_sure = not _is_nameless(machine) or (not machine.host and bool(machine.gpu_uuids))
    if not is_sure or time_of(others[-1]) == time_of(last):
        conflicts.append(_two_figures(others[-1][0], last[0], is_sure))
    return last


def _two_figures(first: Found, second: Found, is_sure: bool) -> str:
    one, other = sorted((first, second), key=lambda found: str(found.within.path))
    why = "and do not say on which machine"
    if is_sure:
        why = "in one run" if one.one.run else "and do not say in which run"
    return (
        f"{one.within.path} and {other.within.path}: both {text_of(one.one)}, with different figures, {why}. Measure it "
        "once, or leave one of the files out."
    )


# --- the record --------------------------------------------------------------------------------------------


def _kept(
    group: Sequence[MachineId],
    chosen: Mapping[MachineId, Mapping[Key, Sequence[Found]]],
    parts: Mapping[MachineId, MachinePart],
    records: Sequence[Input],
    *,
    is_one_of_several: bool,
) -> Kept:
    found = {name: chosen.get(name, {}) for name in group}
    holding: dict[Key, list[Input]] = {}
    for key, each in itertools.chain.from_iterable(of.items() for of in found.values()):
        holding.setdefault(key, []).extend(one.within for one in each)
    own = [one for one in records if not set(group).isdisjoint(one.machines)]
    said = max((parts[name] for name in group), key=last_change_of)
    content: Input | Record
    if len(own) == 1 and _stands_alone(own[0], group):
        content = own[0]
    else:
        besides = {name: _without_ledger(parts[name], found[name]) for name in group}
        record = whole(own[0].record, found_values(found), besides)
        same = next((one for one in own if decoding.built(Record, one.record) == record), None)
        content = same or record
    return Kept(
        own,
        holding,
        [one for one in own if one.record.updated == said.updated],
        group[0].label if is_one_of_several else "",
        content,
    )


def _stands_alone(one: Input, group: Sequence[MachineId]) -> bool:
    """Whether a record is of one machine and in the order of all records, so that it is what joining makes of it."""
    uuids = tuple(sorted(one.record.machine.gpu_uuids))
    keys = [
        [found.key for found in one.measured if found.key[0] == several.kind] for several in SEVERAL.values()
    ]
    is_of_one = [*group] == [*one.machines] and len(group) == 1 and not one.record.parts
    return is_of_one and uuids == group[0].gpu_uuids and all(of == sorted(of) for of in keys)


def _without_ledger(part: MachinePart, found: Mapping[Key, Sequence[Found]]) -> MachinePart:
    """The part without the reason for a missing metric, where a ledger is kept, which has its own."""
    return dataclasses.replace(part, accuracy_missing=None) if ("accuracy",) in found else part


def found_values(found: Mapping[MachineId, Mapping[Key, Sequence[Found]]]) -> list[Measurement]:
    """The measurements themselves, in the order of records."""
    pairs = [(each[0].one, name) for name, of in found.items() for each in of.values()]
    return [one for one, _ in sorted(pairs, key=lambda pair: (pair[0].key, pair[1]))]
