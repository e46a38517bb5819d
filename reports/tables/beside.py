"""Tables of load points beside what they are held against: another build, a latency budget."""

from collections.abc import Sequence

from reports.record.quantities import GIVEN_SHARE, LATENCY, LATENCY_BUDGET
from reports.record.schema import Comparison
from reports.record.verdicts import ALARM_CONFIDENCE, BUDGET_WORDS, comparison_verdict, ratio_text
from reports.words.labels import full_point
from reports.words.markdown import markdown
from reports.words.shown import Shown, name_of

_COMPARISON = ("Case", "At", "Speed, ratio", "To", "Verdict")


def comparison_table(records: Sequence[Shown], scenario: str | None = None) -> str:
    """One row per load point that was compared with another build; empty where none was.

    A case that may show no speed shows no ratio, and the reason as its verdict.
    """
    rows: list[list[str]] = []
    for record in records:
        case = f"`{name_of(record)}`"
        rows += [
            [case, full_point(load), ratio_text(one), one.reference, comparison_verdict(one)]
            for load in record.loads
            if (one := load.comparison) is not None and scenario in (None, load.scenario)
        ]
        rows += [
            [case, full_point(at), "-", at.compared_with, record.no_speed]
            for at in record.hidden
            if at.compared_with is not None and scenario in (None, at.scenario)
        ]
    if not rows:
        return ""
    found = [load.comparison for record in records for load in record.loads if load.comparison is not None]
    return "\n\n".join([markdown(_COMPARISON, rows, "lllll"), *_corrected(found)])


def _corrected(found: Sequence[Comparison]) -> list[str]:
    """How sure `slower` is, where the verdicts are of all points together."""
    if not any(one.chance is not None for one in found):
        return []
    return [
        f"Of runs that compare a build with itself, at most {GIVEN_SHARE.text(1 - ALARM_CONFIDENCE)} call any of their points "
        "`slower` (Holm's correction for the number of points). Each interval is that of its point alone."
    ]


_BUDGET = ("Case", "At", "Latency", "Budget", "Verdict", "Budget from")


def budget_table(records: Sequence[Shown], scenario: str | None = None) -> str:
    """One row per load point with a latency budget, of cases that show their speed; empty where there is none."""
    rows = [
        [
            f"`{name_of(record)}`",
            full_point(load),
            f"{budget.percentile} {LATENCY.text_with_interval(load.latency_ms[budget.percentile], budget.budget_ms)}",
            LATENCY_BUDGET.text(budget.budget_ms),
            BUDGET_WORDS[budget.verdict],
            budget.source,
        ]
        for record in records
        for load in record.loads
        if (budget := load.budget) is not None and scenario in (None, load.scenario)
    ]
    return markdown(_BUDGET, rows, "llllll") if rows else ""
