"""The settings in which two records differ: machine, versions, server, deployment and build."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from reports.record.schema import Record

_BUILD = ("digest", "weights", "format", "engine")
"""The fields of a build that are settings; its time and size are results."""
_DIGEST_LENGTH = 12


@dataclass(frozen=True)
class Setting:
    """A setting that differs."""

    name: str
    """Such as `versions.torch`."""
    before: str
    after: str


def differing(before: Record, after: Record) -> list[Setting]:
    first, second = _setup(before), _setup(after)
    return [
        Setting(name, first.get(name, "none"), second.get(name, "none"))
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name)
    ]


def _setup(record: Record) -> Mapping[str, str]:
    machine = structs.asdict(record.machine)
    serving = structs.asdict(record.serving) if record.serving else {}
    build = structs.asdict(record.build)
    parts: dict[str, Mapping[str, Any]] = {
        "case": structs.asdict(record.case),
        "versions": machine.pop("versions"),
        "machine": machine,
        "serving.versions": serving.pop("versions", {}),
        "serving": serving,
        "deployment": structs.asdict(record.deployment),
        "build": {name: build[name] for name in _BUILD} | {"digest": record.build.digest[:_DIGEST_LENGTH]},
    }
    return {
        f"{part}.{name}": setting_text(value)
        for part, values in parts.items()
        for name, value in values.items()
    }


def setting_text(value: Any) -> str:
    """A setting as a reader knows it: on and off, or its parts side by side; `none` if there is none."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value) if isinstance(value, int | str) else " ".join(map(str, value)) or "none"
