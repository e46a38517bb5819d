"""The measurements of a case and their origins: the run, the machine and the code."""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec import structs

from reports.record.schema import Machine, Origin, Record, point_key

Key = tuple[Any, ...]
"""The key of a measurement: `("accuracy",)`, `("loads", "offline", 8, 1, 0.0, "")` and so on."""

SEVERAL: Mapping[str, Callable[[Any], Key]] = {
    "failures": lambda failure: (failure.test,),
    "gates": lambda gate: (gate.gate,),
    "starts": lambda start: (start.scenario,),
    "loads": point_key,
    "efficiency": point_key,
}
"""The fields of a record with any number of measurements, each with the key of a measurement within it."""
SINGLE = tuple(
    name
    for name, hint in get_type_hints(Record).items()
    if name not in SEVERAL
    and any("origin" in getattr(kind, "__struct_fields__", ()) for kind in get_args(hint))
)
"""The fields of a record with one measurement or None."""


def measurements(record: Record) -> dict[Key, Any]:
    by_key = {(name,): getattr(record, name) for name in SINGLE if getattr(record, name) is not None}
    return by_key | {
        (name, *key(measurement)): measurement
        for name, key in SEVERAL.items()
        for measurement in getattr(record, name)
    }


def origins_of(record: Record) -> list[Origin]:
    """The origins of the record's measurements, each once, the earliest run first."""
    origins = {
        measurement.origin for measurement in measurements(record).values() if measurement.origin is not None
    }
    return sorted(origins, key=lambda origin: (origin.started, origin.run, origin.host, origin.gpu_uuids))


def machine_digest(machine: Machine) -> str:
    """Eight hexadecimal digits that identify a machine's stamp."""
    stamp = json.dumps(msgspec.to_builtins(machine), sort_keys=True)
    return hashlib.sha256(stamp.encode()).hexdigest()[:8]


def without_names(record: Record) -> Record:
    """The record without the names of hosts and the UUIDs of GPUs, for readers elsewhere."""
    changes: dict[str, Any] = {name: _without_names(getattr(record, name)) for name in SINGLE}
    changes |= {name: tuple(map(_without_names, getattr(record, name))) for name in SEVERAL}
    machine = structs.replace(record.machine, gpu_uuids=())
    return structs.replace(record, machine=machine, **changes)


def _without_names(measurement: Any) -> Any:
    """The measurement, and any inside it such as the load point of a search, without these names."""
    if measurement is None:
        return None
    inside = {
        name: _without_names(getattr(measurement, name))
        for name in ("load", "accuracy")
        if hasattr(measurement, name)
    }
    origin = measurement.origin and structs.replace(measurement.origin, host="", gpu_uuids=())
    return structs.replace(measurement, origin=origin, **inside)
