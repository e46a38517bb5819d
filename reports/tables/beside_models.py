"""The table of load points beside other models on one server: who slows whom."""

from collections.abc import Sequence

from reports.record.quantities import LATENCY, RATIO
from reports.record.verdicts import too_wide
from reports.words.labels import full_point
from reports.words.markdown import markdown
from reports.words.shown import Shown, name_of

COLUMNS = ("Case", "At", "Beside", "Speed beside over alone", "P99 alone", "P99 beside")


def beside_table(records: Sequence[Shown], scenario: str | None = None) -> str:
    """One row per load point and other model, of cases that show their speed; empty where there is none."""
    rows = [
        [
            f"`{name_of(record)}`",
            full_point(load),
            f"`{one.other}`, {one.concurrency} in flight",
            RATIO.text_with_interval(one.ratio, 1.0) if RATIO.is_shown(one.ratio) else too_wide(),
            LATENCY.text_with_interval(one.p99_alone_ms),
            LATENCY.text_with_interval(one.p99_ms),
        ]
        for record in records
        for load in record.loads
        if scenario in (None, load.scenario)
        for one in load.beside
    ]
    return markdown(COLUMNS, rows, "llllll") if rows else ""
