"""The only way from a record to reports, tables and tests' outcomes: removes hidden speeds, and says why."""

import functools
from collections.abc import Iterable, Mapping
from typing import Any, get_type_hints

import msgspec
from msgspec import structs

from tritonproof.record import Record, speed
from tritonproof.record.fields import SPEED, Estimate, Ratio, Struct
from tritonproof.record.quantities import LATENCY_BUDGET, NOT_SHOWN
from tritonproof.reports import correctness_text
from tritonproof.reports.phrases import full_point_text, setup_facts

_EMPTY: Mapping[type, Any] = {
    **{kind: kind(float("nan"), float("nan"), float("nan")) for kind in (Estimate, Ratio)},
    float: float("nan"),
    dict: {},
    str: NOT_SHOWN,
}
"""What replaces a hidden speed whose field has no default, by type; a text is a verdict."""


class Publishable(Record, frozen=True):
    """A record as a reader may see it; `points` and `efficiency` are empty if its speed is hidden."""

    why_no_speed: str = ""
    """The reason why the case's speed is hidden; empty if it is shown."""
    is_wrong: bool = False
    """Whether something was found wrong. Otherwise a hidden case has only not been proven yet."""
    why_no_winner: str = ""
    """The reason why a search's winner and its figures are hidden; empty if they are shown."""
    hidden: tuple[speed.PointResult, ...] = ()
    """The hidden load points without their speeds: their settings, and how much was measured."""


def publishable(record: Record) -> Publishable:
    """The record as it may be shown: with its speed if nothing was found wrong and the case is proven right.
    The proof is conversion and accuracy; with random weights, which have no task metric, the conversion; of a
    model served as it is, the answers under load. After a failure that hides speed, no result counts. The
    speed of a search's winner depends on the winner's ledger, not on that of the case's settings."""
    wrong = _wrong(record)
    no_speed = _why_no_speed(record, wrong)
    search, no_winner = _publishable_search(record, wrong)
    shown = _without_speed(record) if no_speed else record
    fields: dict[str, Any] = {name: getattr(shown, name) for name in Record.__struct_fields__}
    fields |= {"search": search, "is_wrong": bool(wrong)}
    hidden = tuple(map(_without_speed, record.points)) if no_speed else ()
    return Publishable(**fields, why_no_speed=no_speed, why_no_winner=no_winner, hidden=hidden)


def publishable_together(records: Iterable[Record]) -> list[Publishable]:
    """The records as they may be shown together: without ratios to a reference of another place or build, or
    whose speed is hidden, as the ratio would reveal it."""
    shown = [*map(publishable, records)]
    setups = {record.name: not record.why_no_speed and comparable_setup(record) for record in shown}
    builds = {record.name: record.build.digest for record in shown}
    for index, record in enumerate(shown):
        setup = comparable_setup(record)
        references = [entry.reference for entry in record.efficiency if entry.reference]
        if any(
            setups.get(reference.case_id, setup) != setup
            or reference.digest not in ("", builds.get(reference.case_id, reference.digest))
            for reference in references
        ):
            alone = [structs.replace(entry, reference=None) for entry in record.efficiency]
            shown[index] = structs.replace(record, efficiency=tuple(alone))
    return shown


_NOT_SHARED = ("case", "build", "machine.gpu_uuids", "serving.backend", "serving.versions", "deployment.tf32")
"""What ranked records may differ in: the backend and its libraries are the format's, TF32 the precision's."""


def comparable_setup(record: Record) -> frozenset[tuple[str, Any]]:
    """What ranked records share: machine (equal GPUs count as one), server, transport, settings."""
    return frozenset(fact for fact in setup_facts(record).items() if not fact[0].startswith(_NOT_SHARED))


def _without_speed(part: Any) -> Any:
    """A part of a record without the values of all fields below it that are marked as speeds."""
    if isinstance(part, tuple):
        return tuple(map(_without_speed, part))
    if not isinstance(part, Struct):
        return part
    speeds = _speed_fields(type(part))
    changes = {}
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if name not in speeds:
            changes[name] = _without_speed(value)
        else:
            has_default = speeds[name] is not msgspec.NODEFAULT
            changes[name] = speeds[name] if has_default else _EMPTY.get(type(value))
    return structs.replace(part, **changes)


@functools.cache
def _speed_fields(part: type[Struct]) -> Mapping[str, Any]:
    """The default of each field that is marked as a speed."""
    hints = get_type_hints(part, include_extras=True)
    marked = {name for name, hint in hints.items() if SPEED in getattr(hint, "__metadata__", ())}
    return {field.name: field.default for field in structs.fields(part) if field.name in marked}


def _why_no_speed(record: Record, wrong: list[str]) -> str:
    hides_speed = any(failure.hides_speed for failure in record.failures)
    failures = wrong if hides_speed else [*wrong, *_not_proven(record)]
    return f"No throughput is shown: {', and '.join(failures)}." if failures else ""


def _wrong(record: Record) -> list[str]:
    """What was found wrong, as parts of a sentence: steps that failed without a result, or else results."""
    if failed := correctness_text.failed_steps(record, hiding=True):
        return failed
    failures: list[str] = []
    if not record.case.from_repository and record.conversion is not None:
        failures += filter(None, [correctness_text.conversion_failure(record.conversion)])
    if record.accuracy is not None:
        failures += correctness_text.ledger_failures(record.accuracy)
    for result in record.results_under_load:
        if wrong := correctness_text.wrong_answers_text(result.answers_under_load):
            failures.append(f"{wrong} ({full_point_text(result.point)})")
    return failures + [f"{gate.fault} (gate {gate.gate})" for gate in record.gates if gate.fault]


def _not_proven(record: Record) -> list[str]:
    """What has to be right and was not measured, as parts of a sentence."""
    if record.case.from_repository:
        results = record.results_under_load
        unverified = [result.point for result in results if not result.answers_under_load][:1]
        return [f"answers under load were not compared ({full_point_text(point)})" for point in unverified]
    missing = [] if record.conversion else ["the converted model was not compared with the framework"]
    if not record.build.has_random_weights and record.main_score is None:
        missing.append(f"accuracy was {correctness_text.no_score_text(record)}")
    return missing


def _publishable_search(record: Record, wrong: list[str]) -> tuple[speed.Search | None, str]:
    """The search as it may be shown, and why its winner is hidden. If nothing keeps the budget, no winner has
    to be proven: the lowest latency, which shows this, stays unless something is wrong."""
    search = record.search
    if search is None:
        return None, ""
    hidden = _without_speed(search)
    if search.verdict != "failed":
        # An accuracy failure concerns the case's own settings, not the winner's.
        failures = tuple(failure for failure in record.failures if failure.field != "accuracy")
        record = structs.replace(record, accuracy=search.accuracy, points=(search.result,), failures=failures)
        wrong = _wrong(record)
    elif not wrong:
        lowest = structs.replace(hidden.result, latency_ms=search.result.latency_ms)
        return structs.replace(hidden, result=lowest), ""
    if not (reason := _why_no_speed(record, wrong)):
        return search, ""
    # The rate that a search finds is a speed.
    point = structs.replace(hidden.result.point, request_rate_per_s=None, arrivals=None)
    winner = f"The winner within {LATENCY_BUDGET.text(search.latency_budget_ms)}"
    subject = "The lowest latency" if search.verdict == "failed" else winner
    reason = f"{subject} is not proven. {reason}"
    return structs.replace(hidden, result=structs.replace(hidden.result, point=point)), reason
