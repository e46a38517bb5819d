"""What a record says besides its measurements, by machine, so that joining records of several loses nothing of it.

It needs the standard library alone.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.merge.inputs import Input
from reports.record import decoding
from reports.record.machines import MachineId, Measurement
from reports.record.schema import (
    Accuracy,
    AnswerGate,
    Artifact,
    Conversation,
    Efficiency,
    Load,
    Machine,
    MachinePart,
    Parity,
    Record,
    Search,
    ServerEnd,
    Serving,
    Soak,
    Start,
)


@dataclass(frozen=True)
class Rest:
    """What a machine's record says besides its measurements. What was built is as the latest record says it, like in a
    run that adds to its record."""

    updated: str
    gpu_uuids: tuple[str, ...]
    build: Any
    """An Artifact, or what has its attributes."""
    serving: Any
    """A Serving, or what has its attributes; None where nothing was served yet."""
    accuracy_missing: str | None
    price_per_hour: float | None
    stage_seconds: Mapping[str, float]

    @property
    def time(self) -> tuple[str, str]:
        """What sorts them: the time of the last change, then anything that differs."""
        return self.updated, f"{self.build.build_time_s!r} {self.build.size_mib!r} {self.gpu_uuids!r}"


def rests_of(records: Sequence[Input], conflicts: list[str]) -> dict[MachineId, Rest]:
    """By machine, what its records say besides its measurements."""
    found: dict[MachineId, Rest] = {}
    priced: dict[MachineId, Input] = {}
    for one in records:
        for name, rest in _rests(one).items():
            other = found.get(name)
            prices = {
                price for price in (rest.price_per_hour, other and other.price_per_hour) if price is not None
            }
            if len(prices) > 1:
                conflicts.append(
                    f"{priced[name].path} and {one.path}: both have price_per_hour, and it differs. Leave one of the "
                    "files out."
                )
            if rest.price_per_hour is not None:
                priced.setdefault(name, one)
            found[name] = _both(rest, other) if other else rest
    return found


def _both(one: Rest, other: Rest) -> Rest:
    first, last = sorted((one, other), key=lambda rest: rest.time)
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
    """The longest that each stage took, which depends on no order."""
    stages = sorted({stage for one in found for stage in one})
    return {stage: max(one[stage] for one in found if stage in one) for stage in stages}


def _rests(one: Input) -> dict[MachineId, Rest]:
    record = one.record
    own = Rest(
        record.updated,
        tuple(record.machine.gpu_uuids),
        record.build,
        record.serving,
        None if record.accuracy else record.accuracy_missing,  # of the ledger, where there is one
        record.price_per_hour,
        record.stage_seconds,
    )
    parts = {
        MachineId(part.host, tuple(sorted(part.gpu_uuids))): Rest(
            part.updated,
            tuple(part.gpu_uuids),
            part.build,
            part.serving,
            part.accuracy_missing,
            part.price_per_hour,
            part.stage_seconds,
        )
        for part in record.parts
    }
    found = {name: parts.get(name, own) for name in one.machines}
    return {
        name: rest
        if sorted(rest.gpu_uuids) == list(name.gpu_uuids)
        else dataclasses.replace(rest, gpu_uuids=name.gpu_uuids)
        for name, rest in found.items()
    }


def whole(like: Record, found: Sequence[Measurement], rests: Mapping[MachineId, Rest]) -> Record:
    """The record of these measurements and of what the machines' records say besides."""
    ordered = sorted(rests.values(), key=lambda rest: rest.time)
    last = ordered[-1]
    is_alike = all(rest == last for rest in ordered)
    uuids = (
        last.gpu_uuids
        if len(rests) == 1
        else tuple(sorted({uuid for rest in ordered for uuid in rest.gpu_uuids}))
    )
    ledger = next((one for one in found if one.key == ("accuracy",)), None)
    missing = [rest.accuracy_missing for rest in ordered if rest.accuracy_missing is not None]
    served = [rest.serving for rest in ordered if rest.serving is not None]
    prices = [rest.price_per_hour for rest in ordered if rest.price_per_hour is not None]
    record = decoding.built(Record, like)
    return dataclasses.replace(
        record,
        machine=dataclasses.replace(decoding.built(Machine, record.machine), gpu_uuids=uuids),
        serving=decoding.built(Serving, served[-1]) if served else None,
        build=decoding.built(Artifact, last.build),
        accuracy_missing=ledger.missing if ledger else max(missing, default=None),
        price_per_hour=prices[-1] if prices else None,
        updated=last.updated,
        stage_seconds=_longest([rest.stage_seconds for rest in ordered]),
        conversion=_one(Parity, "conversion", found),
        accuracy=_one(Accuracy, "accuracy", found),
        search=_one(Search, "search", found),
        conversation=_one(Conversation, "conversation", found),
        soak=_one(Soak, "soak", found),
        server_ends=_all(ServerEnd, "server-end", found),
        gates=_all(AnswerGate, "gate", found),
        starts=_all(Start, "start", found),
        loads=_all(Load, "load", found),
        efficiency=_all(Efficiency, "efficiency", found),
        parts=()
        if len(rests) == 1 or is_alike
        else tuple(_part(name, rests[name]) for name in sorted(rests)),
    )


def _one(kind: type[Any], key: str, found: Sequence[Measurement]) -> Any:
    return next((decoding.built(kind, one.value) for one in found if one.key[0] == key), None)


def _all(kind: type[Any], key: str, found: Sequence[Measurement]) -> tuple[Any, ...]:
    return tuple(decoding.built(kind, one.value) for one in found if one.key[0] == key)


def _part(name: MachineId, rest: Rest) -> MachinePart:
    return MachinePart(
        name.host,
        rest.gpu_uuids,
        decoding.built(Serving, rest.serving) if rest.serving else None,
        decoding.built(Artifact, rest.build),
        rest.accuracy_missing,
        rest.price_per_hour,
        rest.updated,
        rest.stage_seconds,
    )
