"""Where the time of a request goes in a model that calls others."""

from reports.record.quantities import LATENCY
from reports.tables.points import loads_of
from reports.words.labels import point
from reports.words.markdown import markdown
from reports.words.shown import Shown

COMPOSING = ("Load point", "Called model", "Calls", "Queue (ms)", "Compute (ms)")


def composing_table(record: Shown, scenario: str) -> str:
    """What each called model does in a request of each load point; empty where none is called."""
    rows = [
        [
            point(load),
            one.model,
            f"{one.calls:.2f}",
            LATENCY.cell(one.queue_ms),
            LATENCY.cell(one.compute_ms),
        ]
        for load in loads_of(record, scenario)
        for one in load.composing
    ]
    if not rows:
        return ""
    note = (
        "Called models: the mean of a request, by the server's statistics. What is called at the same time adds up to more than "
        "the request takes."
    )
    return "\n\n".join([markdown(COMPOSING, rows, "llrrr"), note])
