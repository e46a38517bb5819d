"""Models of a repository beside those that they are to replace, or beside themselves on another Triton: a table, and whether it
is safe to upgrade."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reports.record.figures import memory_bytes, ready_s
from reports.record.quantities import COUNT, DURATION, RATIO, RELATIVE_ERROR, SIZE
from reports.record.schema import BesideOther, Comparison, ServedSide, Verdict, verdict_of
from reports.tables.table import Block, Bullets, Cell, Column, Heading, Table, figure, table
from reports.text.correctness import apart_text
from reports.text.inline import code
from reports.text.labels import counted, first_of
from reports.text.publishable import Publishable, name_of

_NAMES_SHOWN = 8


class _Beside(NamedTuple):
    record: Publishable
    found: BesideOther


def _compared(record: Publishable) -> list[Comparison]:
    """The speed of each load point beside the other's; none where no speed may be shown."""
    return [one.comparison for one in record.loads if one.comparison is not None]


def verdict_on(record: Publishable) -> tuple[Verdict, str]:
    """Whether a model may replace the other, and why not: it may where all of its answers are right and the same, and no load
    point is slower."""
    compared = _compared(record)
    verdicts = [verdict_of(one) for one in compared]
    differs = any(one.gate == "other" and one.wrong for one in record.gates)
    if record.no_speed:
        return "failed", "answers differ" if differs else "answers are wrong"
    if slower := verdicts.count("failed"):
        return "failed", f"slower at {slower} of {len(compared)} load points"
    if not compared:
        return "not shown", "the same answers; its speed was not compared"
    if unsettled := verdicts.count("not shown"):
        return (
            "not shown",
            f"the same answers; speed not settled at {unsettled} of {len(compared)} load points",
        )
    return "passed", "the same answers, and not slower"


def upgrade_sentence(records: Sequence[Publishable], failed: Sequence[str], skipped: int) -> str:
    """Whether it is safe to upgrade, by the records of a run and the tests of it that failed."""
    beside = {name_of(one): verdict_on(one) for one in records if one.against is not None}
    bad = {name: why for name, (verdict, why) in beside.items() if verdict == "failed"}
    for test in failed:
        case = test.partition("[")[2].rstrip("]")
        if not any(case.startswith(name) for name in bad):
            bad[case or test] = f"{test.partition('[')[0]} failed"
    left_out = (
        f" {counted(skipped, 'test')} skipped: the reasons say what was not compared." if skipped else ""
    )
    if bad:
        return f"Not safe to upgrade: {_listed(bad)}.{left_out}"
    if not beside:
        return f"Nothing says whether it is safe to upgrade: no model was compared.{left_out}"
    if not_shown := {name: why for name, (verdict, why) in beside.items() if verdict == "not shown"}:
        said = "No difference was found, but it is not shown that it is safe to upgrade"
        return f"{said}: {_listed(not_shown)}.{left_out}"
    return f"Safe to upgrade: the same answers, and none slower (models compared: {len(beside)}).{left_out}"


def _listed(reasons: Mapping[str, str]) -> str:
    return first_of([f"{name} ({why})" for name, why in reasons.items()], _NAMES_SHOWN)


def _apart(one: _Beside) -> str | None:
    found = (gate.same for gate in one.record.gates if gate.gate == "other" and gate.same)
    return next(map(apart_text, found), None)


def _least_ratio(one: _Beside) -> Cell | None:
    if not (compared := _compared(one.record)):
        return None
    least = min(compared, key=lambda found: found.ratio.value)
    return figure(RATIO, least.ratio, "interval", 1 - least.allowed_slowdown)


def _memory(side: ServedSide) -> Cell | None:
    used = memory_bytes(side)
    return None if used is None else figure(SIZE, used / 2**20)


def _gpu_memory(side: ServedSide) -> Cell | None:
    used = side.used.get("GPU memory")
    return None if used is None else figure(SIZE, used / 2**20)


_COLUMNS: Sequence[Column[_Beside]] = (
    Column("Case", lambda one: code(name_of(one.record)), narrow="Case"),
    Column("To replace", lambda one: one.found.reference),
    Column(
        "Triton", lambda one: " for ".join(dict.fromkeys((one.found.here.triton, one.found.there.triton)))
    ),
    Column("Answers apart", _apart, is_right=True, narrow="Apart"),
    Column("Noise", lambda one: one.found.here.noise, RELATIVE_ERROR, is_optional=True),
    Column("Noise there", lambda one: one.found.there.noise, RELATIVE_ERROR, is_optional=True),
    Column("Precision shown", lambda one: one.found.here.precision.upper() or None, is_optional=True),
    Column("Precision there", lambda one: one.found.there.precision.upper() or None, is_optional=True),
    Column("Least speed, ratio", _least_ratio, RATIO, is_optional=True),
    Column("Ready in (s)", lambda one: ready_s(one.found.here.start), DURATION),
    Column("Ready there", lambda one: ready_s(one.found.there.start), DURATION),
    Column("Memory (MiB)", lambda one: _memory(one.found.here), SIZE, is_optional=True),
    Column("Memory there", lambda one: _memory(one.found.there), SIZE, is_optional=True),
    Column("GPU memory (MiB)", lambda one: _gpu_memory(one.found.here), SIZE, is_optional=True),
    Column("GPU memory there", lambda one: _gpu_memory(one.found.there), SIZE, is_optional=True),
    Column("New warnings", lambda one: len(one.found.warnings), COUNT),
    Column("Verdict", lambda one: verdict_on(one.record)[1], narrow="Verdict"),
)


def against_table(records: Sequence[Publishable]) -> Table:
    """A row for each model that was set beside the one that it is to replace; its new warnings stand below."""
    found = [_Beside(one, one.against) for one in records if one.against is not None]
    warnings = Bullets(
        [
            f"{code(name_of(one.record))} newly warns: {code(said)}"
            for one in found
            for said in one.found.warnings
        ]
    )
    return table(_COLUMNS, found, notes=[_MEANING, warnings] if found else [])


_MEANING = (
    "Ready: from the start of the server to the first answer. Memory: what the server's processes keep. These, and new warnings, "
    "are no part of the verdict."
)


def against_section(record: Publishable) -> list[Block]:
    """Heading and table of one case; empty where it was set beside nothing."""
    if record.against is None:
        return []
    return [Heading(f"Beside {record.against.reference}", 4), against_table([record])]
