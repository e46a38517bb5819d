"""Pictures of the history: how each case's figures went from run to run, and where they changed for good."""

from collections.abc import Sequence

import numpy as np

from reports.plots.shapes import Chart, DrawnStep, Trend, TrendPanel, TrendRow
from reports.text.labels import counted, days_text, grouped
from reports.trend.rows import Row
from reports.trend.series import FoundStep, Series
from reports.trend.words import commit_text, last_text, machine_text, step_text

_MOST_POINTS = 250
"""Points of a line, some two to a millimetre; of more runs each point is the median of neighbours."""
_TICKS = 6
_LEAST_REACH = {True: 4.0, False: 0.5}
"""Percent, or points of a score, that a row reaches at least: noise of less looks like the little it is. Of what has a least
step it is that."""


def charts(series: Sequence[Series]) -> list[tuple[str, Chart]]:
    """A picture for each case on each machine, with the name of its file: `trend-CASE`, and the machine's stamp, and a
    number, where that is the name of several."""
    groups = grouped(series, lambda one: (one.machine, one.case))
    found: list[tuple[str, Chart]] = []
    for machine, case in groups:
        stamps = [other.digest for other, name in groups if name == case]
        name = f"trend-{case}" + (f"-{machine.digest}" if len(stamps) > 1 else "")
        taken = sum(other == name or other.startswith(f"{name}.") for other, _ in found)
        found.append((f"{name}.{taken + 1}" if taken else name, chart(groups[machine, case])))
    return found


def chart(series: Sequence[Series]) -> Chart:
    """What the picture of a case's series on one machine shows; those of one machine share their runs."""
    rows: dict[int, Row] = {}
    for one in series:
        rows.update(zip(one.runs.tolist(), one.rows, strict=True))
    ordered = [rows[number] for number in sorted(rows)]
    xs = np.full(1 + max(rows), np.nan)
    xs[sorted(rows)] = np.arange(len(ordered))
    kinds = grouped(series, lambda one: f"{one.kind.name} {one.changes.unit}")
    panels = [_panel(found, xs) for found in kinds.values()]
    first = series[0]
    notes = [
        "Each row: the difference from its median, with 95 % intervals; what is beyond the row is drawn at its edge.",
        "Lines across: steps found, solid ▼ for the worse, dashed ▲ for the better.",
    ]
    if len(ordered) > _MOST_POINTS:
        notes.append(f"Each point is the median of {_together(len(ordered))} runs.")
    tritons = ", ".join(dict.fromkeys(row.triton for row in ordered if row.triton))
    caption = [
        machine_text(first.machine),
        f"Triton {tritons}" if tritons else "",
        days_text(row.started for row in ordered),
    ]
    return Chart(
        "trend",
        "From run to run",
        f"{first.case}, {counted(len(ordered), 'run')}",
        Trend(panels, _ticks(ordered)),
        notes,
        " · ".join(filter(None, caption)),
    )


def _ticks(ordered: Sequence[Row]) -> list[tuple[float, str]]:
    """Some runs, evenly along the axis, by their commits with the day."""
    chosen = np.linspace(0, len(ordered) - 1, min(_TICKS, len(ordered))).round().astype(int)
    rows = [(float(i), ordered[i]) for i in chosen.tolist()]
    return [(i, f"{commit_text(row) if row.commit else 'no commit'}\n{row.started[:10]}") for i, row in rows]


def _panel(series: Sequence[Series], xs: np.ndarray) -> TrendPanel:
    kind, changes = series[0].kind, series[0].changes
    rows = [_row(one, xs) for one in series]
    # Outliers, a run in some dozens, do not press all others flat.
    far = max(float(np.percentile(np.abs(row.values), 95)) for row in rows)
    least = changes.scale * kind.least or _LEAST_REACH[kind.is_relative]
    title = f"{kind.name[0].upper()}{kind.name[1:]}"
    return TrendPanel(title, changes.unit, rows, round(max(least, 1.3 * far), 1))


def _row(one: Series, xs: np.ndarray) -> TrendRow:
    """The row of a series; `xs` has the place of each run by its number."""
    middle = np.median(one.figures[:, 0])
    differences = one.figures / middle - 1 if one.kind.is_relative else one.figures - middle
    differences = one.changes.scale * differences
    drawn = _thinned(np.column_stack([xs[one.runs], differences])).round(4)
    found = "; ".join(step_text(one, step) for step in one.steps)
    last = last_text(one)
    drawn_places, values, lows, highs = (column.tolist() for column in drawn.T)
    return TrendRow(
        name=one.at,
        text=last,
        said=f"{one.at}: {found}",
        xs=drawn_places,
        values=values,
        lows=lows,
        highs=highs,
        steps=[_drawn(one, step, xs) for step in one.steps],
    )


def _thinned(columns: np.ndarray) -> np.ndarray:
    """Medians of as many neighbouring runs as it takes, [points, columns]; the first stands for what is left over."""
    count = _together(len(columns))
    more = -len(columns) % count
    whole = np.concatenate([np.repeat(columns[:1], more, axis=0), columns])
    return np.asarray(np.median(whole.reshape(-1, count, columns.shape[1]), axis=1))


def _drawn(one: Series, step: FoundStep, xs: np.ndarray) -> DrawnStep:
    x = (xs[one.runs[step.at - 1]] + xs[one.runs[step.at]]) / 2
    return DrawnStep(float(x), one.changes.text(step.change.value), step.is_worse)


def _together(runs: int) -> int:
    """How many neighbouring runs a point stands for."""
    return -(-runs // _MOST_POINTS)
