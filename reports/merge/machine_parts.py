"""The part of a record that is no measurement, by machine, so that joining the records of several machines loses none.

It needs the standard library alone.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from reports.merge.inputs import Input
from reports.record import decoding
from reports.record.machines import SEVERAL, SINGLE, MachineId, Measurement
from reports.record.schema import Artifact, MachinePart, Record, Serving


def parts_of(records: Sequence[Input], conflicts: list[str]) -> dict[MachineId, MachinePart]:
    """The parts of each machine's records that are no measurements, joined. Of two builds or servers the later record's is
    kept, as in a run that adds to its record."""
    found: dict[MachineId, MachinePart] = {}
    priced: dict[MachineId, Input] = {}
    for one in records:
        for name, part in _parts(one).items():
            other = found.get(name)
            prices = {
                price for price in (part.price_per_hour, other and other.price_per_hour) if price is not None
            }
            if len(prices) > 1:
                conflicts.append(
                    f"{priced[name].path} and {one.path}: both have price_per_hour, and it differs. Leave one of the "
                    "files out."
                )
            if part.price_per_hour is not None:
                priced.setdefault(name, one)
            found[name] = _both(part, other) if other else part
    return found


def last_change_of(part: MachinePart) -> tuple[str, str]:
    """A key that sorts parts by the time of the last change; those of the same time by what else differs."""
    return part.updated, f"{part.build.build_time_s!r} {part.build.size_mib!r} {part.gpu_uuids!r}"


def _both(one: MachinePart, other: MachinePart) -> MachinePart:
    first, last = sorted((one, other), key=last_change_of)
    missing = [text for text in (one.accuracy_missing, other.accuracy_missing) if text is not None]
    price = last.price_per_hour if last.price_per_hour is not None else first.price_per_hour
    return dataclasses.replace(
        last,
        serving=last.serving or first.serving,
        price_per_hour=price,
        accuracy_missing=max(missing, default=None),
        stage_seconds=_longest((one.stage_seconds, other.stage_seconds)),
    )


def _longest(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The longest time of each stage, in seconds; the maximum does not depend on the order of the records."""
    stages = sorted({stage for one in found for stage in one})
    return {stage: max(one[stage] for one in found if stage in one) for stage in stages}


def _parts(one: Input) -> dict[MachineId, MachinePart]:
    record = one.record
    own = MachinePart(
        "",
        tuple(record.machine.gpu_uuids),
        decoding.built(Serving, record.serving) if record.serving else None,
        decoding.built(Artifact, record.build),
        None if record.accuracy else record.accuracy_missing,  # of the ledger, where there is one
        record.price_per_hour,
        record.updated,
        record.stage_seconds,
    )
    told = {
        MachineId(part.host, tuple(sorted(part.gpu_uuids))): decoding.built(MachinePart, part)
        for part in record.parts
    }
    found = {}
    for name in one.machines:
        part = dataclasses.replace(told.get(name, own), host=name.host)
        is_named_so = sorted(part.gpu_uuids) == list(name.gpu_uuids)
        found[name] = part if is_named_so else dataclasses.replace(part, gpu_uuids=name.gpu_uuids)
    return found


def whole(like: Record, found: Sequence[Measurement], parts: Mapping[MachineId, MachinePart]) -> Record:
    """The record of these measurements and of the machines' parts; `like` gives the case, the machine and the deployment."""
    ordered = sorted(parts.values(), key=last_change_of)
    last = ordered[-1]
    is_alike = all(dataclasses.replace(part, host=last.host) == last for part in ordered)
    uuids = (
        last.gpu_uuids
        if len(parts) == 1
        else tuple(sorted({uuid for part in ordered for uuid in part.gpu_uuids}))
    )
    ledger = next((one for one in found if one.key == ("accuracy",)), None)
    missing = [part.accuracy_missing for part in ordered if part.accuracy_missing is not None]
    served = [part.serving for part in ordered if part.serving is not None]
    prices = [part.price_per_hour for part in ordered if part.price_per_hour is not None]
    measured: dict[str, Any] = {
        name: next(iter(_measured(found, name, kind)), None) for name, kind in SINGLE.items()
    }
    measured |= {name: _measured(found, one.kind, one.type) for name, one in SEVERAL.items()}
    record = decoding.built(Record, like)
    return dataclasses.replace(
        record,
        machine=dataclasses.replace(record.machine, gpu_uuids=uuids),
        serving=served[-1] if served else None,
        build=last.build,
        accuracy_missing=ledger.missing if ledger else max(missing, default=None),
        price_per_hour=prices[-1] if prices else None,
        updated=last.updated,
        stage_seconds=_longest([part.stage_seconds for part in ordered]),
        parts=() if is_alike else tuple(parts[name] for name in sorted(parts)),
        **measured,
    )


def _measured(found: Sequence[Measurement], kind: str, of: type[Any]) -> tuple[Any, ...]:
    return tuple(decoding.built(of, one.value) for one in found if one.key[0] == kind)
