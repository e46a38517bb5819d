"""The table of latency budgets that load points are held to."""

from collections.abc import Sequence

from reports.record.quantities import LATENCY, LATENCY_BUDGET
from reports.record.verdicts import BUDGET_WORDS
from reports.words.labels import full_point
from reports.words.markdown import markdown
from reports.words.shown import Shown, name_of

COLUMNS = ("Case", "At", "Latency", "Budget", "Verdict", "Budget from")


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
    return markdown(COLUMNS, rows, "llllll") if rows else ""
