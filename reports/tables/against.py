"""Whether it is safe to upgrade: models beside those they are to replace, or themselves on another Triton."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reports.record.figures import gpu_memory_bytes, memory_bytes, ready_s
from reports.record.quantities import COUNT, DURATION, RATIO, RELATIVE_ERROR, SIZE
from reports.record.schema import Comparison, ServedSide, Verdict, verdict_of
from reports.record.verdicts import costlier
from reports.tables.points import p99_cell, speed_cell
from reports.tables.table import Block, Bullets, Cell, Column, Heading, Table, figure, table
from reports.text.correctness import apart_text
from reports.text.inline import code
from reports.text.labels import counted, first_of
from reports.text.publishable import Publishable, name_of

_NAMES_SHOWN = 8


class _Beside(NamedTuple):
    record: Publishable
    warnings: Sequence[str]
    reference: str
    here: ServedSide
    there: ServedSide


def _compared(record: Publishable) -> list[Comparison]:
    """The comparison of each load point; none if the record may show no speed."""
    return [one.comparison for one in record.loads if one.comparison is not None]


def verdict_on(record: Publishable) -> tuple[Verdict, str]:
    """Whether a model may replace the other, and why not: it may if all answers are right and the same, no
    load point is slower or has a longer p99, it costs about as much, and its log has no new warning."""
    if record.no_speed:
        differs = any(one.gate == "other" and one.wrong for one in record.gates)
        return "failed", "answers differ" if differs else "answers are wrong"
    compared, beside = _compared(record), record.against
    verdicts = [verdict_of(one) for one in compared]
    longer = sum(one.p99_is_longer for one in compared)
    of_points = f"{len(compared)} load points"
    failed = [f"slower at {slower} of {of_points}"] if (slower := verdicts.count("failed")) else []
    failed += [f"p99 longer at {longer} of {of_points}"] if longer else []
    if failed := [*failed, *(costlier(beside) if beside else ())]:
        return "failed", "; ".join(failed)
    unsettled = verdicts.count("not shown")
    not_shown = [f"speed not settled at {unsettled} of {of_points}"] if unsettled else []
    not_shown += [] if compared else ["its speed was not compared"]
    if beside and beside.warnings:
        not_shown.append(f"its log newly warns of {counted(len(beside.warnings), 'thing')}")
    if not_shown:
        return "not shown", "; ".join(["the same answers", *not_shown])
    return "passed", "the same answers, and not slower"


def upgrade_sentence(records: Sequence[Publishable], failed: Sequence[str], skipped: int) -> str:
    """Whether it is safe to upgrade, by the records of a run and those of its tests that failed."""
    beside = {name_of(one): verdict_on(one) for one in records if one.against is not None}
    bad = {name: why for name, (verdict, why) in beside.items() if verdict == "failed"}
    for test in failed:
        case = test.partition("[")[2].rstrip("]")
        if not any(case.startswith(name) for name in bad):
            bad[case or test] = f"{test.partition('[')[0]} failed"
    left_out = ""
    if skipped:
        left_out = f" {counted(skipped, 'test')} skipped: the reasons say what was not compared."
    if bad:
        return f"Not safe to upgrade: {_listed(bad)}.{left_out}"
    if not beside:
        return f"Nothing says whether it is safe to upgrade: no model was compared.{left_out}"
    if not_shown := {name: why for name, (verdict, why) in beside.items() if verdict == "not shown"}:
        return f"It is not shown that it is safe to upgrade: {_listed(not_shown)}.{left_out}"
    safe = "Safe to upgrade: the same answers, and none slower or costlier"
    return f"{safe} (models compared: {len(beside)}).{left_out}"


def _listed(reasons: Mapping[str, str]) -> str:
    return first_of([f"{name} ({why})" for name, why in reasons.items()], _NAMES_SHOWN)


def _apart(one: _Beside) -> str | None:
    found = (gate.same for gate in one.record.gates if gate.gate == "other" and gate.same)
    return next(map(apart_text, found), None)


def _least_ratio(one: _Beside) -> Cell | None:
    least = min(_compared(one.record), key=lambda found: found.ratio.value, default=None)
    return speed_cell(least) if least else None


def _largest_p99(one: _Beside) -> Cell | None:
    known = [found for found in _compared(one.record) if found.p99_ratio]
    largest = max(known, key=lambda found: found.p99_ratio.value if found.p99_ratio else 0, default=None)
    return p99_cell(largest) if largest else None


def _mib(used: float | None) -> Cell | None:
    return None if used is None else figure(SIZE, used / 2**20)


_COLUMNS: Sequence[Column[_Beside]] = (
    Column("Case", lambda one: code(name_of(one.record)), narrow="Case"),
    Column("To replace", lambda one: one.reference),
    Column("Triton", lambda one: " for ".join(dict.fromkeys((one.here.triton, one.there.triton)))),
    Column("Answers apart", _apart, is_right=True, narrow="Apart"),
    Column("Noise", lambda one: one.here.noise, RELATIVE_ERROR, is_optional=True),
    Column("Noise there", lambda one: one.there.noise, RELATIVE_ERROR, is_optional=True),
    Column("Precision shown", lambda one: one.here.precision.upper() or None, is_optional=True),
    Column("Precision there", lambda one: one.there.precision.upper() or None, is_optional=True),
    Column("Least speed, ratio", _least_ratio, RATIO, is_optional=True),
    Column("Largest p99, ratio", _largest_p99, RATIO, is_optional=True),
    Column("Ready in (s)", lambda one: ready_s(one.here), DURATION),
    Column("Ready there", lambda one: ready_s(one.there), DURATION),
    Column("Memory (MiB)", lambda one: _mib(memory_bytes(one.here)), SIZE, is_optional=True),
    Column("Memory there", lambda one: _mib(memory_bytes(one.there)), SIZE, is_optional=True),
    Column("GPU memory (MiB)", lambda one: _mib(gpu_memory_bytes(one.here)), SIZE, is_optional=True),
    Column("GPU memory there", lambda one: _mib(gpu_memory_bytes(one.there)), SIZE, is_optional=True),
    Column("New warnings", lambda one: len(one.warnings), COUNT),
    Column("Verdict", lambda one: verdict_on(one.record)[1], narrow="Verdict"),
)


def against_table(records: Sequence[Publishable]) -> Table:
    """A row for each model that was compared with the one it is to replace; below it, its new warnings."""
    compared = [(one, one.against) for one in records if one.against is not None]
    found = [_Beside(one, to.warnings, to.reference, to.here, to.there) for one, to in compared]
    warnings = [(name_of(one.record), said) for one in found for said in one.warnings]
    listed = Bullets([f"{code(name)} newly warns: {code(said)}" for name, said in warnings])
    return table(_COLUMNS, found, notes=[_MEANING, listed] if found else [])


_MEANING = (
    "Ready: from the loading of the model to its first answer. Memory: what the server's processes keep. Far "
    "more of either fails; a new warning has to be read."
)


def against_section(record: Publishable) -> list[Block]:
    """Heading and table of one case; empty if it was compared with no other."""
    if record.against is None:
        return []
    return [Heading(f"Beside {record.against.reference}", 4), against_table([record])]
