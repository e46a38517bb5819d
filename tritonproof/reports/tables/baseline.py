"""Is an upgrade safe? Each model beside the one that it is to replace, or itself on another Triton."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from tritonproof.record import correctness, fields
from tritonproof.record.quantities import COUNT, DURATION, MEMORY, RATIO, RELATIVE_ERROR, Quantity
from tritonproof.record.speed import BaselineComparison, ServedSide, SpeedComparison
from tritonproof.reports.correctness_text import difference_text, failed_steps
from tritonproof.reports.phrases import counted, first_of
from tritonproof.reports.publishable import Publishable
from tritonproof.reports.speed_text import footprint_changes, footprint_failures
from tritonproof.reports.tables.points import p99_cell, speed_cell
from tritonproof.reports.tables.rendering import code
from tritonproof.reports.tables.table import Bullets, Cell, Column, Table, Taken, table


class ComparedModel(NamedTuple):
    """A model, and what its last comparison has found; results of other runs may have other baselines."""

    record: Publishable
    comparison: BaselineComparison
    gate: correctness.GateResult | None
    """The gate `baseline`; None if answers were not compared."""
    speeds: Sequence[SpeedComparison]
    """The comparison of each load point; empty if the record hides its speed."""


def compared_models(records: Sequence[Publishable]) -> list[ComparedModel]:
    """The models that were compared with the ones that they are to replace."""
    models = []
    for record in records:
        if record.baseline is not None:
            run_id = _run_id(record.baseline)
            gates = [gate for gate in record.gates if gate.gate == "baseline" and _run_id(gate) == run_id]
            of_run = [result for result in record.points if _run_id(result) == run_id]
            speeds = [result.comparison for result in of_run if result.comparison]
            models.append(ComparedModel(record, record.baseline, next(iter(gates), None), speeds))
    return models


def _run_id(result: Any) -> str | None:
    return result.origin.run if result.origin else None


def baseline_verdict(model: ComparedModel) -> tuple[fields.Verdict, str]:
    """Whether the model may replace the other, and why. It may if all answers are right and the same, no load
    point is slower or has a longer p99, its footprint is about equal, and its log has no new warning."""
    record, comparison, gate, speeds = model
    if record.is_wrong:
        wrong = "answers differ" if gate and gate.fault else "; ".join(failed_steps(record, hiding=True))
        return "failed", wrong or "answers are wrong"
    verdicts = [speed.verdict for speed in speeds]

    def points(what: str, number: int) -> list[str]:
        return [f"{what} at {number} of {len(speeds)} load points"] if number else []

    failures = [
        *points("slower", verdicts.count("failed")),
        *points("p99 longer", sum(speed.p99_is_longer for speed in speeds)),
        *footprint_failures(comparison),
    ]
    if failures:
        return "failed", "; ".join(failures)
    not_shown = points("speed not settled", verdicts.count("inconclusive"))
    if not speeds:
        hidden = record.why_no_speed.removesuffix(".")
        not_shown.append(f"{hidden[:1].lower()}{hidden[1:]}" or "its speed was not compared")
    if not [*footprint_changes(comparison)]:
        not_shown.append("its footprint was not compared")
    if comparison.warnings:
        not_shown.append(f"its log has {counted(len(comparison.warnings), 'new warning')}")
    answers = "the same answers" if gate else "answers were not compared"
    if not_shown or not gate:
        return "inconclusive", "; ".join([answers, *not_shown])
    return "passed", "the same answers, and not slower"


def upgrade_sentence(
    records: Sequence[Publishable],
    run_id: str,
    failed: list[str],
    lacking: list[str],
    skipped: int,
    was_ended: bool,
) -> str:
    """Whether an upgrade is safe: by the comparisons of the run `run_id`, the tests that `failed` or were
    `skipped`, and the cases that are `lacking`, as they could not be compared."""
    of_run = [model for model in compared_models(records) if _run_id(model.comparison) == run_id]
    verdicts = {model.record.name: baseline_verdict(model) for model in of_run}
    unsafe = {name: reason for name, (verdict, reason) in verdicts.items() if verdict == "failed"}
    not_shown = {name: reason for name, (verdict, reason) in verdicts.items() if verdict == "inconclusive"}
    not_shown |= dict.fromkeys(lacking, "answers were not compared")
    for test in failed:
        function, _, case = test.rstrip("]").partition("[")
        if not any(case.startswith(name) for name in unsafe):
            unsafe[case or test] = f"{function} failed"
    note = f" {counted(skipped, 'test')} skipped: the reasons say what was not compared." if skipped else ""
    if unsafe:
        return f"Not safe to upgrade: {_listed(unsafe)}.{note}"
    if was_ended:
        return f"Not shown to be safe to upgrade: the run was ended.{note}"
    if not verdicts:
        return f"Nothing says whether it is safe to upgrade: answers were not compared.{note}"
    if not_shown:
        return f"Not shown to be safe to upgrade: {_listed(not_shown)}.{note}"
    safe = "Safe to upgrade: the same answers, and none slower or costlier"
    return f"{safe} (models compared: {len(verdicts)}).{note}"


def _listed(reasons: Mapping[str, str]) -> str:
    return first_of([f"{name} ({reason})" for name, reason in reasons.items()], 8)


def _apart(row: ComparedModel) -> str | None:
    answers = row.gate and row.gate.answer_comparison
    return difference_text(answers) if answers else None


def _least_ratio(row: ComparedModel) -> Cell | None:
    return speed_cell(min(row.speeds, key=attrgetter("ratio.value"))) if row.speeds else None


def _largest_p99(row: ComparedModel) -> Cell | None:
    compared = [comparison for comparison in row.speeds if comparison.p99_ratio]
    return p99_cell(max(compared, key=attrgetter("p99_ratio.value"))) if compared else None


def _triton(row: ComparedModel) -> str:
    return " for ".join(dict.fromkeys((row.comparison.current.triton, row.comparison.baseline.triton)))


def _both(
    here: str, there: str, take: Callable[[ServedSide], Taken], quantity: Quantity | None = None
) -> list[Column[ComparedModel]]:
    """A column of this server's figures, and one of the baseline's."""
    return [
        Column(here, lambda row: take(row.comparison.current), quantity, is_optional=True),
        Column(there, lambda row: take(row.comparison.baseline), quantity, is_optional=True),
    ]


_COLUMNS: Sequence[Column[ComparedModel]] = (
    Column("Case", lambda row: code(row.record.name), narrow="Case"),
    Column("To replace", lambda row: row.comparison.baseline_name),
    Column("Triton", _triton),
    Column("Answers apart", _apart, right_aligned=True, narrow="Apart"),
    *_both("Noise", "Noise there", lambda side: side.noise, RELATIVE_ERROR),
    *_both("Precision shown", "Precision there", lambda side: side.precision.upper() or None),
    Column("Least speed, ratio", _least_ratio, RATIO, is_optional=True),
    Column("Largest p99, ratio", _largest_p99, RATIO, is_optional=True),
    *_both("Ready in (s)", "Ready there", lambda side: side.fastest_loading_s, DURATION),
    *_both("Memory (MiB)", "Memory there", lambda side: side.memory_bytes, MEMORY),
    *_both("GPU memory (MiB)", "GPU memory there", lambda side: side.used.get("GPU memory"), MEMORY),
    Column("New warnings", lambda row: len(row.comparison.warnings), COUNT),
    Column("Verdict", lambda row: baseline_verdict(row)[1], narrow="Verdict"),
)


def baseline_table(records: Sequence[Publishable]) -> Table:
    """A row for each model compared with its baseline, and the new warnings below."""
    rows = compared_models(records)
    warnings = [(row.record.name, warning) for row in rows for warning in row.comparison.warnings]
    note = (
        "Ready: from the loading of the model to its first answer. Memory: what the server's processes keep. "
        "Far more of either fails; a new warning has to be read."
    )
    bullets = Bullets([f"{code(name)}, new warning: {code(warning)}" for name, warning in warnings])
    return table(_COLUMNS, rows, notes=[note, bullets])
