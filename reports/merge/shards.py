"""Shards of one case joined into one record, where they agree on all that they share.

It needs the standard library alone.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from reports.compare.setup_changes import Setting, differing
from reports.record.schema import Efficiency, Record, Start, place
from reports.record.sources import Stored
from reports.words.labels import full_point

_CURE_OF_SETUP = "Measure the case again with one build and one setup, or leave one of the files out."


def joined(group: Sequence[Stored]) -> tuple[Record, list[str]]:
    """One record of all, and a sentence for each conflict: without any, nothing of a shard is lost.

    What was started, built and priced is as the latest shard says it, like in a run that adds to its record.
    """
    conflicts = [text for stored in group[1:] for text in _setup(group[0], stored)]
    if conflicts:
        return group[0].record, conflicts
    latest = max((stored.record for stored in group), key=lambda record: record.updated)
    ledgers = _agreed(group, "accuracy", lambda record: (record.accuracy, record.accuracy_missing), conflicts)
    accuracy, missing = ledgers or (None, None)
    record = dataclasses.replace(
        latest,
        serving=_agreed(group, "serving", lambda record: record.serving, conflicts),
        conversion=_agreed(group, "conversion", lambda record: record.conversion, conflicts),
        accuracy=accuracy,
        accuracy_missing=missing,
        search=_agreed(group, "search", lambda record: record.search, conflicts),
        price_per_hour=_agreed(group, "price_per_hour", lambda record: record.price_per_hour, conflicts),
        starts=_starts(group),
        loads=_points(group, lambda record: record.loads, place, full_point, conflicts),
        efficiency=_points(group, lambda record: record.efficiency, _place_of, _efficiency_text, conflicts),
        stage_seconds=_stage_seconds(group),
    )
    return record, conflicts


def _setup(first: Stored, second: Stored) -> list[str]:
    """What the two were built and served with, if it differs; one that was not served yet says nothing."""
    served = first.record.serving and second.record.serving
    found = [
        setting
        for setting in differing(first.record, second.record)
        if served or not setting.name.startswith("serving.")
    ]
    if not found:
        return []
    return [f"{first.path} and {second.path} differ in {fields_text(found)}. {_CURE_OF_SETUP}"]


def fields_text(settings: Sequence[Setting]) -> str:
    """`build.digest (0f3c and 77aa), ...`."""
    return ", ".join(f"{one.name} ({one.before} and {one.after})" for one in settings)


def _agreed(group: Sequence[Stored], key: str, get: Callable[[Record], Any], conflicts: list[str]) -> Any:
    """What the shards that have it say; None where none has."""
    having = [stored for stored in group if get(stored.record) not in (None, (None, None))]
    for other in having[1:]:
        if get(other.record) != get(having[0].record):
            conflicts.append(
                f"{having[0].path} and {other.path}: both have {key}, and it differs. Measure it in one shard alone, "
                "or leave one of the files out."
            )
    return get(having[0].record) if having else None


def _points(
    group: Sequence[Stored],
    get: Callable[[Record], Sequence[Any]],
    key: Callable[[Any], Any],
    text: Callable[[Any], str],
    conflicts: list[str],
) -> tuple[Any, ...]:
    """Those of all shards, in their order."""
    found: dict[Any, tuple[Any, Stored]] = {}
    for stored in group:
        for one in get(stored.record):
            other, owner = found.setdefault(key(one), (one, stored))
            if other != one:
                conflicts.append(
                    f"{owner.path} and {stored.path}: both measured {text(one)}, with different figures. Measure each "
                    "point in one shard alone, or leave one of the files out."
                )
    return tuple(found[at][0] for at in sorted(found))


def _place_of(one: Efficiency) -> tuple[str, int, int]:
    return one.scenario, one.batch, one.concurrency


def _efficiency_text(one: Efficiency) -> str:
    return f"the efficiency of {one.scenario}, batch {one.batch}, concurrency {one.concurrency}"


def _stage_seconds(group: Sequence[Stored]) -> dict[str, float]:
    """The latest of each stage."""
    ordered = sorted((stored.record for stored in group), key=lambda record: record.updated)
    return {stage: seconds for record in ordered for stage, seconds in record.stage_seconds.items()}


def _starts(group: Sequence[Stored]) -> tuple[Start, ...]:
    """The latest of each scenario."""
    ordered = sorted((stored.record for stored in group), key=lambda record: record.updated)
    found = {start.scenario: start for record in ordered for start in record.starts}
    return tuple(found[scenario] for scenario in sorted(found))
