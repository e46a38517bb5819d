"""Draws rows of values: bars from zero, or points beside a limit, with what is said of them at the right."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from reports.plots.drawing.sheet import Sheet, reach, ticks
from reports.plots.shapes import RowPanel, Rows, ValueRow
from reports.plots.theme import SMALL_PT, TEXT_PT, WIDTH_IN, Look
from reports.record.schema import Estimate

_ROW_IN, _TITLE_IN, _TICKS_IN, _LEGEND_IN = 0.235, 0.26, 0.36, 0.3
_NAME_IN, _TEXT_IN = 0.082, 0.069
"""The width of a character in the columns left and right of the axes."""

#: Marker, size and whether it is filled; the three stages of a score fit into each other.
_POINTS = {
    "framework": ("D", 10.5, False),
    "converted": ("s", 8.5, False),
    "served": ("o", 4.5, True),
    "peak": ("^", 6.0, True),
    "ratio": ("o", 5.5, True),
}


_STAGES = ("framework", "converted")


def height_in(content: Rows) -> float:
    """Inches that the content takes."""
    legend = _LEGEND_IN if len(content.names) > 1 else 0.0
    return legend + sum(_TITLE_IN + _ROW_IN * len(p.rows) + _TICKS_IN for p in content.panels)


def rows(content: Rows, page: Sheet) -> None:
    """Panels one below the other, with the same columns."""
    everything = [row for panel in content.panels for row in panel.rows]
    left = 0.3 + _NAME_IN * max(len(row.name) for row in everything)
    right = 0.3 + _TEXT_IN * max(len(row.text) for row in everything)
    width = max(1.5, WIDTH_IN - left - right)
    top = 0.0
    if len(content.names) > 1:
        _legend(content, page, left)
        top = _LEGEND_IN
    for panel in content.panels:
        top += _TITLE_IN
        axes = page.axes(left, top, width, _ROW_IN * len(panel.rows))
        page.text(0.15, top - 0.09, panel.title, fontweight="bold")
        page.text(
            left + width,
            top - 0.09,
            panel.axis,
            fontsize=SMALL_PT,
            color=page.look.faint,
            ha="right",
        )
        _panel(axes, panel, content, page.look)
        top += _ROW_IN * len(panel.rows) + _TICKS_IN


def _panel(axes: Axes, panel: RowPanel, content: Rows, look: Look) -> None:
    # Ratios are compared between panels; scores and throughputs of other models are not.
    low, high = _range(content.panels if content.reference is not None else [panel], content)
    axes.set_xlim(low, high)
    axes.set_ylim(len(panel.rows) - 0.5, -0.5)
    for place, row in enumerate(panel.rows):
        _zone(axes, place, row, panel, look)
        for number, name in enumerate(name for name in content.names if name in row.values):
            if content.kind == "bars":
                _bar(axes, place, row, row.values[name], look)
            else:
                _point(axes, place, row, name, look.lines[_place(content, name)], look, number)
        axes.text(
            1.02,
            place,
            row.text,
            transform=axes.get_yaxis_transform(),
            va="center",
            fontsize=SMALL_PT + 0.5,
            color=look.ink if row.values else look.faint,
            fontstyle="normal" if row.values else "italic",
        )
    if content.reference is not None and low <= content.reference <= high:
        axes.axvline(content.reference, color=look.ink, linestyle=(0, (6, 3)), linewidth=1, zorder=1)
    axes.set_yticks(range(len(panel.rows)), [row.name for row in panel.rows])
    axes.tick_params(axis="y", length=0)
    ticks(axes.xaxis)
    axes.tick_params(axis="x", labelsize=SMALL_PT)
    axes.grid(axis="x")


def _range(panels: Sequence[RowPanel], content: Rows) -> tuple[float, float]:
    """Where the axis begins and ends: all values with their intervals and limits, and some room."""
    rows_ = [row for panel in panels for row in panel.rows]
    found = [bound for row in rows_ for one in row.values.values() for bound in (one.low, one.high)]
    found += [row.limit for row in rows_ if row.limit is not None]
    if content.reference is not None:
        found.append(content.reference)
    if not found:
        return 0.0, 1.0
    low, high = min(found), max(found)
    if content.kind == "bars" or content.whole:
        return 0.0, 1.05 * high or 1.0
    room = 0.12 * (high - low) or 0.01 * abs(high) or 1.0
    return low - room, high + room


def _zone(axes: Axes, place: int, row: ValueRow, panel: RowPanel, look: Look) -> None:
    """What lies beyond the limit, hatched."""
    if row.limit is None:
        return
    low, high = axes.get_xlim()
    start, end = (low, row.limit) if panel.better == "higher" else (row.limit, high)
    axes.barh(place, end - start, 0.72, start, color="none", edgecolor=look.faint, hatch="/////", linewidth=0)
    axes.plot(
        [row.limit] * 2, [place - 0.4, place + 0.4], color=look.ink, linewidth=1.4, solid_capstyle="butt"
    )


def _bar(axes: Axes, place: int, row: ValueRow, value: Estimate, look: Look) -> None:
    colour = look.lines[0]
    axes.barh(
        place, value.value, 0.66, color="none" if row.marked else colour, edgecolor=colour, linewidth=1.2
    )
    axes.errorbar(value.value, place, xerr=reach(value), color=look.ink, elinewidth=1, capsize=2.5)


def _point(axes: Axes, place: int, row: ValueRow, name: str, colour: str, look: Look, number: int) -> None:
    marker, size, filled = _POINTS[name]
    value = row.values[name]
    filled = filled and not row.marked
    axes.errorbar(
        value.value,
        place,
        xerr=reach(value) if value.low < value.high else None,
        color=colour,
        elinewidth=1.2,
        capsize=2.5,
        marker=marker,
        markersize=size,
        markerfacecolor=colour if filled else "none" if name in _STAGES else look.paper,
        markeredgewidth=1.3,
        zorder=3 + number,
        clip_on=False,
    )


def _legend(content: Rows, page: Sheet, left: float) -> None:
    handles = []
    for name in content.names:
        marker, size, filled = _POINTS[name]
        colour = page.look.lines[_place(content, name)]
        handles.append(
            Line2D(
                [],
                [],
                linestyle="none",
                marker=marker,
                markersize=size,
                color=colour,
                markerfacecolor=colour if filled else "none",
                markeredgewidth=1.3,
            )
        )
    page.figure.legend(
        handles,
        list(content.names.values()),
        loc="upper left",
        bbox_to_anchor=(left / WIDTH_IN, 1 - (page.top_in - 0.05) / page.height_in),
        ncols=len(handles),
        frameon=False,
        borderaxespad=0,
        handletextpad=0.4,
        fontsize=TEXT_PT,
    )


def _place(content: Rows, name: str) -> int:
    """The colour of a value: the last of several, which counts most, has the first."""
    names: Sequence[str] = list(content.names)
    return names[::-1].index(name) if len(names) == 3 else names.index(name)
