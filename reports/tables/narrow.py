"""The summary in a terminal that is narrower than its table: what is asked most, in 80 columns."""

import textwrap
from collections.abc import Mapping, Sequence

from reports.tables.summary import P99, RANK, RATE, noted_rows
from reports.words.grouping import grouped
from reports.words.ranking import ranked
from reports.words.shown import Shown

_MEANING = (
    "In front is the rank among the formats of the model. Infer/s is the highest throughput of the case's load points, ± half "
    "the width of its 95 % confidence interval, and p99 the latency there; a + says that the requests were too few for an "
    "upper bound of it."
)


def narrow_summary(records: Sequence[Shown], width: int) -> str:
    """A heading for each model and a line for each of its cases, then the notes, wrapped to `width` columns."""
    targets = grouped(records, lambda record: record.case.target)
    blocks = [_of_target(target, group, width) for target, group in targets.items()]
    return "\n\n".join([*blocks, textwrap.fill(_MEANING, width)])


def _of_target(target: str, records: Sequence[Shown], width: int) -> str:
    found, notes = noted_rows(ranked(records))
    rows = [(f"Target {target}", "Accuracy", "Infer/s", "p99, ms", ""), *map(_row, found)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = [_line(row, widths) for row in rows]
    models = [cells["Model"] for cells in found]
    headed = [
        line if place and models[place - 1] == model else f"{model}\n{line}"
        for place, (model, line) in enumerate(zip(models, lines[1:], strict=True))
    ]
    wrapped = [textwrap.fill(note, width, subsequent_indent="   ") for note in notes]
    return "\n".join([lines[0], *headed, *([""] if notes else []), *wrapped])


def _row(cells: Mapping[str, str]) -> tuple[str, ...]:
    """What one case shows, of the cells of the wide table."""
    what = f"{cells[RANK]:>2} {cells['Format']} {cells['Precision']}"
    return what, cells["Accuracy"], cells[RATE], cells[P99], cells["Note"].replace(", ", ",")


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Texts to the left, numbers to the right."""
    what, accuracy, rate, p99, note = (
        cell.rjust(wide) if place in (2, 3) else cell.ljust(wide)
        for place, (cell, wide) in enumerate(zip(cells, widths, strict=True))
    )
    return f"{what}  {accuracy}  {rate}  {p99}  {note}".rstrip()
