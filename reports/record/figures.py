"""Figures of results: the best load point, what a server used, and all of a result by name, for CSV, JUnit's
XML and pytest-benchmark."""

import math
import re
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from reports.record import schema
from reports.record.quantities import RATIO

Figures = dict[str, float | int | str]


def best_of(loads: Sequence[schema.Load]) -> schema.Load | None:
    """The point of the highest throughput among those with a number of requests in flight: at a request rate,
    the rate decides."""
    closed = [load for load in loads if load.request_rate_per_s is None]
    return max(closed, key=lambda load: load.throughput_per_s.value, default=None)


def ready_s(side: schema.ServedSide) -> float | None:
    """Seconds from loading a model to its first answer, the fastest of all loads; None without any."""
    return min(side.loads_s, default=None)


def memory_bytes(side: schema.ServedSide) -> float | None:
    """The machine's memory that a server's processes use; None if not visible."""
    used_bytes = [value for name, value in side.used.items() if name.startswith("memory of")]
    return sum(used_bytes) if used_bytes else None


def gpu_memory_bytes(side: schema.ServedSide) -> float | None:
    """The GPU memory that a server uses; None if not visible."""
    return side.used.get("GPU memory")


# --- flat ---------------------------------------------------------------------------------------------------

_HAS_UNIT = re.compile(r"_(per_s|ms)(_|$)")
"""In the name of an estimate: what has no unit is a ratio."""
_NAMES = ("scenario", "metric", "gate", "output", "model")
"""The fields by which the parts of a list are named, in the order in which they are looked for."""


def flat(name: str, value: Any) -> Figures:
    """The numbers and texts of a part of a record and of all that is in it, by the names of the fields that
    lead there: `load_gpu_power_w`. An estimate has its bounds beside it, `throughput_per_s_low`, and a ratio
    whose interval is too wide to be shown is left out. Passes are counted."""
    if isinstance(value, schema.Estimate):
        if not _HAS_UNIT.search(name) and not RATIO.is_shown(value):
            return {}
        high = None if value.open_above else value.high
        return flat(name, value.value) | flat(f"{name}_low", value.low) | flat(f"{name}_high", high)
    if isinstance(value, tuple):
        value = tuple(part.code if isinstance(part, schema.Mark) else part for part in value)
        if not all(isinstance(part, schema.Struct) for part in value):
            return flat(name, " ".join(map(str, value)))
        if any(isinstance(part, schema.Pass) for part in value):
            return flat(name, len(value))
        value = {_name_of(part, number): part for number, part in enumerate(value)}
    elif isinstance(value, schema.Struct):
        value = structs.asdict(value)
    if isinstance(value, dict):
        parts = (flat(f"{name}_{key}" if name else key, part) for key, part in value.items())
        return {key.replace(" ", "_"): figure for part in parts for key, figure in part.items()}
    is_known = value not in (None, "") and not (isinstance(value, float) and math.isnan(value))
    return {name: value} if is_known else {}


def _name_of(part: schema.Struct, number: int) -> str:
    """What tells a part of a list from the others: its name, else its number."""
    names = (getattr(part, field) for field in _NAMES if field in part.__struct_fields__)
    return str(next(names, number))
