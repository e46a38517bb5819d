"""Draws where the time of requests went, as stacked bars."""

from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from reports.plots.alt_text import component_name
from reports.plots.drawing.sheet import Sheet, ticks
from reports.plots.shapes import Stack, StackPanel
from reports.plots.theme import HATCHES, SMALL_PT, TEXT_PT, WIDTH_IN, Look
from reports.record.quantities import LATENCY

_LEFT_IN, _STACK_IN, _AXIS_IN, _LEGEND_IN = 0.8, 2.6, 0.5, 2.6
_MANY_BARS = 12
"""How many bars stand in one row of panels at most."""


def height_in(content: Stack) -> float:
    """Inches that the content takes."""
    return (_STACK_IN + _AXIS_IN) * len(_stack_rows(content))


def stack(content: Stack, page: Sheet) -> None:
    """Panels side by side, as many in a row as leave room for their bars, with one legend."""
    top, handles = 0.2, list[Artist]()
    for panels in _stack_rows(content):
        free = WIDTH_IN - _LEFT_IN * len(panels) - _LEGEND_IN
        counts = [len(panel.bars) + 1 for panel in panels]
        left = _LEFT_IN
        for panel, count in zip(panels, counts, strict=True):
            width = free * count / sum(counts)
            handles = _stacked(page.axes(left, top, width, _STACK_IN - 0.2), panel, page.look)
            left += width + _LEFT_IN
        top += _STACK_IN + _AXIS_IN
    page.figure.legend(
        [*reversed(handles)],
        [component_name(name) for name in reversed([*content.panels[0].bars[0].components_ms])],
        loc="upper left",
        bbox_to_anchor=(1 - (_LEGEND_IN - 0.1) / WIDTH_IN, 1 - page.top_in / page.height_in),
        frameon=False,
        handleheight=1.3,
        title="Mean per request, ms",
        alignment="left",
    )


def _stack_rows(content: Stack) -> list[list[StackPanel]]:
    rows: list[list[StackPanel]] = []
    for panel in content.panels:
        if rows and sum(len(other.bars) for other in (*rows[-1], panel)) <= _MANY_BARS and len(rows[-1]) < 3:
            rows[-1].append(panel)
        else:
            rows.append([panel])
    return rows


def _stacked(axes: Axes, panel: StackPanel, look: Look) -> list[Artist]:
    """The bars; returns what the legend shows, from the bottom up."""
    places = range(len(panel.bars))
    bottoms = [0.0] * len(panel.bars)
    handles: list[Artist] = []
    for number, component in enumerate(panel.bars[0].components_ms):
        heights = [bar.components_ms[component] for bar in panel.bars]
        fill, hatch = look.fills[number % len(look.fills)], HATCHES[number % len(HATCHES)]
        look_of_bar: dict[str, Any] = {
            "facecolor": fill,
            "hatch": hatch,
            "edgecolor": "#1f2328",
            "linewidth": 0.4,
        }
        axes.bar(places, heights, 0.7, bottoms, **look_of_bar)
        handles.append(Patch(**look_of_bar))
        bottoms = [bottom + height for bottom, height in zip(bottoms, heights, strict=True)]
    for place, bar, total in zip(places, panel.bars, bottoms, strict=True):
        axes.annotate(
            LATENCY.cell(total) + ("*" if bar.marked else ""),
            (place, total),
            (0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=SMALL_PT,
        )
    axes.set_xticks(list(places), [bar.name for bar in panel.bars])
    axes.set_xlim(-0.75, len(panel.bars) - 0.25)
    axes.set_ylim(0, 1.1 * max(bottoms) or 1)
    ticks(axes.yaxis)
    axes.grid(axis="y")
    axes.set_ylabel("Latency (ms)")
    axes.set_title(panel.title, loc="left", fontsize=TEXT_PT, fontweight="bold")
    axes.set_xlabel(panel.x_label)
    return handles
