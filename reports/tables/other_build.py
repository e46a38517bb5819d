"""The table of comparisons with another build."""

from collections.abc import Sequence

from reports.record.schema import Record, case_id
from reports.words.labels import point
from reports.words.markdown import markdown
from reports.words.rightness import comparison_verdict, ratio_text, why_no_speed

COLUMNS = ("Case", "At", "Speed, ratio", "To", "Verdict")


def comparison_table(records: Sequence[Record], scenario: str | None = None) -> str:
    """One row per load point that was compared with another build; empty where none was.

    A case that may show no speed shows no ratio, and the reason as its verdict.
    """
    rows = []
    for record in records:
        hidden = why_no_speed(record)
        for load in record.loads:
            if load.comparison is None or scenario not in (None, load.scenario):
                continue
            rows.append(
                [
                    f"`{case_id(record.case)}`",
                    f"{load.scenario}, {point(load)}",
                    "-" if hidden else ratio_text(load.comparison),
                    load.comparison.reference,
                    hidden or comparison_verdict(load.comparison),
                ]
            )
    return markdown(COLUMNS, rows, "lllll") if rows else ""
