"""Draws load points as lines: sweeps, and latency over throughput."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.markers import CARETUPBASE
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from reports.plots.alt_text import budget_text, latency_name
from reports.plots.drawing.sheet import Sheet, plain, reach, spread, thinned, ticks
from reports.plots.shapes import Budget, Curve, PlottedPoint, Series, Sweep
from reports.plots.theme import LINES, MARKERS, SMALL_PT, WIDTH_IN, Look
from reports.record.quantities import THROUGHPUT
from reports.record.schema import Estimate

_LEFT_IN, _RIGHT_IN = 0.8, 1.5
_PANEL_IN, _GAP_IN, _AXIS_IN = 1.75, 0.32, 0.5
_CURVE_IN = 3.3
_NAME_IN = 0.21
"""The height of a line's name, with the room to the next."""
_MANY = 12
"""How many points are labelled one by one; of more a line says enough."""


def height_in(content: Sweep | Curve) -> float:
    """Inches that the content takes."""
    return (2 * _PANEL_IN + _GAP_IN if isinstance(content, Sweep) else _CURVE_IN) + _AXIS_IN


def sweep(content: Sweep, page: Sheet) -> None:
    """Throughput above, latency below; a colour for each latency, or of several series for each series."""
    look, width = page.look, WIDTH_IN - _LEFT_IN - _RIGHT_IN
    above = page.axes(_LEFT_IN, 0, width, _PANEL_IN)
    below = page.axes(_LEFT_IN, _PANEL_IN + _GAP_IN, width, _PANEL_IN, sharex=above)
    lines = [
        _Line(series, series.name, [p.throughput_per_s for p in series.points], place)
        for place, series in enumerate(content.series)
    ]
    several = len(lines) > 1
    latencies = [
        _Line(
            series,
            series.name if several else latency_name(latency),
            [p.latency_ms[latency] for p in series.points],
            number if several else 1 + place,
        )
        for place, latency in enumerate(content.latencies)
        for number, series in enumerate(content.series)
    ]
    for axes, drawn, budget in ((above, lines, None), (below, latencies, content.budget)):
        for line in drawn:
            _draw(axes, line, [point.x for point in line.series.points], look)
        _scale(axes, [value for line in drawn for value in line.values], budget, whole=axes is above)
        _name_ends(axes, drawn, budget, look)
    if not several and len(lines[0].values) <= _MANY:
        _values(above, content.series[0].points, look)
    above.set_ylabel("Inferences per second")
    _name_latency(below, f"{latency_name(content.latencies[0])} latency" if several else "Latency")
    below.set_xlabel(content.x_label)
    _sizes_axis([above, below], [point.x for series in content.series for point in series.points])
    above.tick_params(labelbottom=False)


def curve(content: Curve, page: Sheet) -> None:
    """Latency over throughput, each point with its load."""
    axes = page.axes(_LEFT_IN, 0, WIDTH_IN - _LEFT_IN - _RIGHT_IN, _CURVE_IN)
    look, several = page.look, len(content.series) > 1
    points = [point for series in content.series for point in series.points]
    handles = []
    for place, series in enumerate(content.series):
        line = _Line(series, series.name, [p.latency_ms[content.latency] for p in series.points], place)
        across = [point.throughput_per_s for point in series.points]
        handles.append(_draw(axes, line, [one.value for one in across], look, across))
        _loads(axes, line, several, look)
    if several:
        names = [series.name for series in content.series]
        axes.legend(handles, names, loc="upper left", frameon=False, handlelength=3.5)
    if content.winner:
        _winner(axes, content.winner, content.latency, look)
        points.append(content.winner)
    _scale(axes, [point.latency_ms[content.latency] for point in points], content.budget)
    axes.set_xlim(0, 1.08 * max(point.throughput_per_s.high for point in points))
    ticks(axes.xaxis)
    axes.set_xlabel("Inferences per second")
    _name_latency(axes, f"{latency_name(content.latency)} latency")
    _name_ends(axes, [], content.budget, look)


@dataclass(frozen=True)
class _Line:
    """Values of a series; `place` chooses colour and marker."""

    series: Series
    name: str
    values: Sequence[Estimate]
    place: int


def _draw(
    axes: Axes, line: _Line, xs: Sequence[float], look: Look, across: Sequence[Estimate] | None = None
) -> Line2D:
    """A line with an error bar at each value, hollow where marked, with an arrow where it is open above; `across` are
    intervals along the x axis."""
    colour = look.lines[line.place % len(look.lines)]
    marker, style = MARKERS[line.place % len(MARKERS)], LINES[line.place % len(LINES)]
    (handle,) = axes.plot(
        xs, [v.value for v in line.values], color=colour, linestyle=style, marker=marker, zorder=2
    )
    for place, (x, value, point) in enumerate(zip(xs, line.values, line.series.points, strict=True)):
        axes.errorbar(
            x,
            value.value,
            yerr=reach(value),
            xerr=reach(across[place]) if across else None,
            color=colour,
            elinewidth=1,
            marker=marker,
            markerfacecolor=look.paper if point.marked else colour,
            markeredgewidth=1.4,
            zorder=3,
        )
        if value.open_above:
            axes.plot(x, value.high, marker=CARETUPBASE, markersize=6, color=colour, zorder=3)
    return handle


def _scale(axes: Axes, values: Sequence[Estimate], budget: Budget | None, whole: bool = False) -> None:
    """Scale an axis from zero, or by powers of ten where the values are far apart."""
    limit = [budget.ms] if budget else []
    high = max([one.high for one in values] + limit)
    low = min([one.value for one in values if one.value > 0] + limit, default=high)
    if not whole and low > 0 and high / low > 30:
        axes.set_yscale("log")
        axes.set_ylim(min([low, *(one.low for one in values if one.low > low / 3)]) / 1.3, high * 1.5)
        axes.yaxis.set_major_formatter(FuncFormatter(plain))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(0, 1.12 * high or 1)
        ticks(axes.yaxis)
    axes.grid(axis="y")


def _name_latency(axes: Axes, name: str) -> None:
    axes.set_ylabel(f"{name} (ms, log scale)" if axes.get_yscale() == "log" else f"{name} (ms)")


def _sizes_axis(panels: Sequence[Axes], sizes: Sequence[float]) -> None:
    """Powers of two apart alike, with a label at each size measured."""
    low, high = min(sizes), max(sizes)
    for axes in panels:
        axes.set_xscale("log", base=2)
        axes.set_xlim(low / 1.35, high * 1.35)
        least = math.log2(1.82 * high / low) / 16
        places = thinned([*{*sizes}], lambda one, other: math.log2(other / one), least)
        axes.xaxis.set_major_locator(FixedLocator(places))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(plain))


def _name_ends(axes: Axes, lines: Sequence[_Line], budget: Budget | None, look: Look) -> None:
    """The names of lines, right of the axes at the height of their ends, apart from each other; the budget's too,
    with its line."""
    to_axes = axes.transData + axes.transAxes.inverted()
    bold: dict[str, Any] = {"fontweight": "bold"}
    named = [
        (line.name, line.values[-1].value, look.lines[line.place % len(look.lines)], bold) for line in lines
    ]
    if budget is not None:
        axes.axhline(budget.ms, color=look.budget, linestyle=(0, (6, 3)), linewidth=1.2, zorder=1)
        named.append((budget_text(budget), budget.ms, look.budget, {"fontsize": SMALL_PT}))
    heights = [to_axes.transform((1.0, value))[1] for _, value, _, _ in named]
    gap = _NAME_IN / (_PANEL_IN if lines else _CURVE_IN)
    for (name, _, colour, font), height in zip(named, spread(heights, gap), strict=True):
        axes.text(1.01, height, name, color=colour, transform=axes.transAxes, va="center", **font)


def _values(axes: Axes, points: Sequence[PlottedPoint], look: Look) -> None:
    """The throughput of each point, above its error bar."""
    for point in points:
        axes.annotate(
            THROUGHPUT.cell(point.throughput_per_s.value),
            (point.x, point.throughput_per_s.high),
            (0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=SMALL_PT,
            color=look.ink,
        )


def _loads(axes: Axes, line: _Line, several: bool, look: Look) -> None:
    """What load each point is, below and right of it; the first by its whole name where there is no legend."""
    points = line.series.points
    for place, (point, value) in enumerate(zip(points, line.values, strict=True)):
        if len(points) > _MANY:
            break
        short = point.name.partition(",")[0].removeprefix("concurrency ")
        axes.annotate(
            short if place or several else point.name,
            (point.throughput_per_s.value, value.value),
            (6, -10),
            textcoords="offset points",
            fontsize=SMALL_PT,
            color=look.lines[line.place % len(look.lines)],
        )


def _winner(axes: Axes, winner: PlottedPoint, latency: str, look: Look) -> None:
    place = (winner.throughput_per_s.value, winner.latency_ms[latency].value)
    axes.plot(*place, marker="*", markersize=13, color=look.lines[4], markeredgecolor=look.ink, zorder=4)
    axes.annotate(
        f"found by the search: {winner.name}",
        place,
        (-8, 8),
        textcoords="offset points",
        ha="right",
        fontsize=SMALL_PT,
    )
