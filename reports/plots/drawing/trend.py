"""Draws figures over runs: a row for each series, one scale for the rows of a panel, and a tick at each step."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection

from reports.plots.drawing.sheet import Sheet
from reports.plots.shapes import Trend, TrendPanel, TrendRow
from reports.plots.theme import SMALL_PT, WIDTH_IN, Look

_ROW_IN, _TITLE_IN, _GAP_IN, _TICKS_IN = 0.42, 0.3, 0.08, 0.42
_NAME_IN, _TEXT_IN = 0.082, 0.069
"""The width of a character in the columns left and right of the axes."""
_HALF_ROW = 0.42
"""How far a row goes to either side, of the distance between rows."""
_FEW = 60
"""Points that are drawn one by one; of more the line says enough."""


def height_in(content: Trend) -> float:
    """Inches that the content takes."""
    return sum(_TITLE_IN + _ROW_IN * len(panel.rows) + _GAP_IN for panel in content.panels) + _TICKS_IN


def trend(content: Trend, page: Sheet) -> None:
    """Panels one below the other over the same runs."""
    everything = [row for panel in content.panels for row in panel.rows]
    left = 0.3 + _NAME_IN * max(len(row.name) for row in everything)
    right = 0.3 + _TEXT_IN * max(len(row.text) for row in everything)
    width = max(1.5, WIDTH_IN - left - right)
    ends = [x for row in everything for x in (row.xs[0], row.xs[-1])]
    room = 0.02 * (max(ends) - min(ends)) or 1.0
    top = 0.0
    for panel in content.panels:
        top += _TITLE_IN
        page.text(0.15, top - 0.09, panel.title, fontweight="bold")
        scale = f"a row is ± {panel.reach:.3g} {panel.unit} high"
        page.text(left + width, top - 0.09, scale, fontsize=SMALL_PT, color=page.look.faint, ha="right")
        axes = page.axes(left, top, width, _ROW_IN * len(panel.rows))
        axes.set_xlim(min(ends) - room, max(ends) + room)
        _panel(axes, panel, page.look)
        top += _ROW_IN * len(panel.rows) + _GAP_IN
        is_last = panel is content.panels[-1]
        names = [name for _, name in content.ticks] if is_last else [""] * len(content.ticks)
        axes.set_xticks([x for x, _ in content.ticks], names)
        axes.tick_params(axis="x", labelsize=SMALL_PT, length=3 if is_last else 0)


def _panel(axes: Axes, panel: TrendPanel, look: Look) -> None:
    axes.set_ylim(len(panel.rows) - 0.5, -0.5)
    axes.set_yticks(range(len(panel.rows)), [row.name for row in panel.rows])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    bands, lines = [], []
    for place, row in enumerate(panel.rows):
        xs = np.asarray(row.xs)
        low, high, middle = (
            place - _HALF_ROW * np.clip(np.asarray(side) / panel.reach, -1, 1)
            for side in (row.lows, row.highs, row.values)
        )
        bands.append(np.column_stack([[*xs, *xs[::-1]], [*low, *high[::-1]]]))
        lines.append(np.column_stack([xs, middle]))
        _text(axes, place, row.text, look)
        _steps(axes, place, row, look)
    axes.add_collection(PolyCollection(bands, facecolors=look.lines[0], alpha=0.25, linewidths=0))
    axes.add_collection(LineCollection(lines, colors=look.lines[0], linewidths=1.0))
    few = [line for line in lines if len(line) <= _FEW]
    if few:
        xs, ys = np.concatenate(few).T
        axes.plot(xs, ys, "o", color=look.lines[0], markersize=3)


def _text(axes: Axes, place: int, text: str, look: Look) -> None:
    axes.text(
        1.02,
        place,
        text,
        transform=axes.get_yaxis_transform(),
        va="center",
        fontsize=SMALL_PT + 0.5,
        color=look.ink,
    )


def _steps(axes: Axes, place: int, row: TrendRow, look: Look) -> None:
    """A line across the row, solid and with a triangle down for the worse, dashed and up for the better."""
    begin, end = axes.get_xlim()
    for step in row.steps:
        colour = look.lines[1] if step.is_worse else look.lines[2]
        axes.plot(
            [step.x] * 2,
            [place - 0.48, place + 0.48],
            color=colour,
            linewidth=1.4,
            linestyle="-" if step.is_worse else (0, (3, 2)),
            zorder=4,
        )
        is_right = step.x > begin + 0.8 * (end - begin)
        axes.annotate(
            f"{'▼' if step.is_worse else '▲'} {step.text}",
            (step.x, place - 0.34),
            (-4 if is_right else 4, 0),
            textcoords="offset points",
            ha="right" if is_right else "left",
            va="center",
            fontsize=SMALL_PT,
            color=look.ink,
            bbox={"facecolor": look.paper, "alpha": 0.75, "edgecolor": "none", "pad": 0.5},
            zorder=5,
        )
