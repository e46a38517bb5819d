"""Draws load points: sweeps, latency over throughput, stacked components."""

import itertools
import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from reports.plots.page import Page, plain, spread, thinned
from reports.plots.shapes import Budget, Curve, Point, Series, Stack, StackPanel, Sweep
from reports.plots.theme import HATCHES, LINES, MARKERS, SMALL_PT, TEXT_PT, WIDTH_IN, Look
from reports.plots.words import budget_text, component_name, latency_name, significant
from reports.record import Estimate

_LEFT_IN, _RIGHT_IN = 0.8, 1.35
_PANEL_IN, _GAP_IN, _AXIS_IN = 1.75, 0.32, 0.5
_CURVE_IN, _STACK_IN, _LEGEND_IN = 3.3, 3.0, 2.35
_MANY = 12
"""Points that are labelled one by one; of more a line says enough."""


def height_in(content: Sweep | Curve | Stack) -> float:
    """Inches that the content takes."""
    if isinstance(content, Sweep):
        return 2 * _PANEL_IN + _GAP_IN + _AXIS_IN
    return (_CURVE_IN if isinstance(content, Curve) else _STACK_IN) + _AXIS_IN


def sweep(content: Sweep, page: Page) -> None:
    """Throughput above, latency below."""
    width = WIDTH_IN - _LEFT_IN - _RIGHT_IN
    above = page.axes(_LEFT_IN, 0, width, _PANEL_IN)
    below = page.axes(_LEFT_IN, _PANEL_IN + _GAP_IN, width, _PANEL_IN, sharex=above)
    look = page.look
    for place, series in enumerate(content.series):
        values = [point.throughput_per_s for point in series.points]
        _line(above, series, values, look.lines[0], MARKERS[0], LINES[place % len(LINES)])
    names = [series.name for series in content.series]
    ends = [(series.points[-1], series.points[-1].throughput_per_s.value) for series in content.series]
    _scale(above, [p.throughput_per_s for s in content.series for p in s.points], None, whole=True)
    _name_ends(above, ends, names, [look.lines[0]] * len(names))
    if len(content.series) == 1 and len(content.series[0].points) <= _MANY:
        _values(above, content.series[0].points, look)
    _latency_lines(below, content, look)
    above.set_ylabel("Inferences per second")
    below.set_ylabel("Latency (ms)")
    below.set_xlabel(content.x_label)
    _sizes_axis([above, below], [point.x for series in content.series for point in series.points])
    above.tick_params(labelbottom=False)


def curve(content: Curve, page: Page) -> None:
    """Latency over throughput, each point with its load."""
    axes = page.axes(_LEFT_IN, 0, WIDTH_IN - _LEFT_IN - _RIGHT_IN, _CURVE_IN)
    look = page.look
    for place, series in enumerate(content.series):
        colour, marker = look.lines[place % len(look.lines)], MARKERS[place % len(MARKERS)]
        _line(
            axes,
            series,
            [p.latency_ms[content.latency] for p in series.points],
            colour,
            marker,
            LINES[place % len(LINES)],
            across=[p.throughput_per_s for p in series.points],
        )
        _loads(axes, series, content.latency, colour)
    points = [point for series in content.series for point in series.points]
    if content.winner:
        _winner(axes, content.winner, content.latency, look)
        points.append(content.winner)
    _scale(axes, [point.latency_ms[content.latency] for point in points], content.budget)
    axes.set_xlim(0, 1.08 * max(point.throughput_per_s.high for point in points))
    axes.xaxis.set_major_formatter(FuncFormatter(plain))
    axes.set_xlabel("Inferences per second")
    axes.set_ylabel(f"{latency_name(content.latency)} latency (ms)")
    _budget(axes, content.budget, look)


def stack(content: Stack, page: Page) -> None:
    """A panel for each scenario, side by side, with one legend."""
    free = WIDTH_IN - _LEFT_IN * len(content.panels) - _LEGEND_IN
    counts = [len(panel.bars) + 1 for panel in content.panels]
    left = _LEFT_IN
    for panel, count in zip(content.panels, counts, strict=True):
        width = free * count / sum(counts)
        axes = page.axes(left, 0.2, width, _STACK_IN - 0.2)
        handles = _stacked(axes, panel, page.look)
        left += width + _LEFT_IN
    page.figure.legend(
        handles[::-1],
        [component_name(name) for name in reversed(content.panels[0].bars[0].components_ms)],
        loc="upper left",
        bbox_to_anchor=(1 - (_LEGEND_IN - 0.1) / WIDTH_IN, 1 - page.top_in / page.height_in),
        frameon=False,
        handleheight=1.3,
        title="Mean per request, ms",
        alignment="left",
    )


def _line(
    axes: Axes,
    series: Series,
    values: Sequence[Estimate],
    colour: str,
    marker: str,
    style: str,
    across: Sequence[Estimate] | None = None,
) -> None:
    """A line through the values; error bars at each, hollow where marked."""
    xs = [one.value for one in across] if across else [point.x for point in series.points]
    axes.plot(xs, [one.value for one in values], color=colour, linestyle=style, zorder=2)
    for x, value, point, over in zip(
        xs, values, series.points, across or itertools.repeat(None), strict=False
    ):
        axes.errorbar(
            x,
            value.value,
            yerr=_reach(value),
            xerr=_reach(over) if over else None,
            color=colour,
            elinewidth=1,
            marker=marker,
            markerfacecolor=axes.figure.get_facecolor() if point.marked else colour,
            markeredgewidth=1.4,
            zorder=3,
        )


def _latency_lines(axes: Axes, content: Sweep, look: Look) -> None:
    ends, names, colours, shown = [], [], [], []
    for place, latency in enumerate(content.latencies):
        for number, series in enumerate(content.series):
            values = [point.latency_ms[latency] for point in series.points]
            style, colour = LINES[number % len(LINES)], look.lines[1 + place]
            _line(axes, series, values, colour, MARKERS[1 + place], style)
            ends.append((series.points[-1], values[-1].value))
            names.append(", ".join(filter(None, (latency_name(latency), series.name))))
            colours.append(colour)
            shown += values
    _scale(axes, shown, content.budget)
    _name_ends(axes, ends, names, colours)
    _budget(axes, content.budget, look)


def _scale(axes: Axes, values: Sequence[Estimate], budget: Budget | None, whole: bool = False) -> None:
    """From zero; by powers of ten where the values are far apart."""
    limit = [budget.ms] if budget else []
    high = max([one.high for one in values] + limit)
    low = min([one.value for one in values if one.value > 0] + limit, default=high)
    if not whole and low > 0 and high / low > 30:
        axes.set_yscale("log")
        axes.set_ylim(min([low, *(one.low for one in values if one.low > low / 3)]) / 1.3, high * 1.5)
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(0, 1.12 * high or 1)
        axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(plain))
    axes.grid(axis="y")


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


def _name_ends(
    axes: Axes, ends: Sequence[tuple[Point, float]], names: Sequence[str], colours: Sequence[str]
) -> None:
    """The names of lines, right of the axes at the height of their ends, apart from each other."""
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = [to_axes.transform((point.x, value))[1] for point, value in ends]
    for name, height, colour in zip(names, spread(heights, 0.12), colours, strict=True):
        axes.text(1.01, height, name, color=colour, transform=axes.transAxes, va="center", fontweight="bold")


def _values(axes: Axes, points: Sequence[Point], look: Look) -> None:
    """The throughput of each point, above its error bar."""
    for point in points:
        axes.annotate(
            significant(point.throughput_per_s.value),
            (point.x, point.throughput_per_s.high),
            (0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=SMALL_PT,
            color=look.ink,
        )


def _loads(axes: Axes, series: Series, latency: str, colour: str) -> None:
    """What load each point is, right of it; the first by its whole name."""
    if len(series.points) > _MANY:
        return
    for place, point in enumerate(series.points):
        name = point.name if place == 0 else point.name.partition(",")[0].removeprefix("concurrency ")
        axes.annotate(
            name,
            (point.throughput_per_s.value, point.latency_ms[latency].value),
            (6, -10),
            textcoords="offset points",
            fontsize=SMALL_PT,
            color=colour,
        )


def _winner(axes: Axes, winner: Point, latency: str, look: Look) -> None:
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


def _budget(axes: Axes, budget: Budget | None, look: Look) -> None:
    if budget is None:
        return
    axes.axhline(budget.ms, color=look.budget, linestyle=(0, (6, 3)), linewidth=1.2, zorder=1)
    axes.annotate(
        budget_text(budget),
        (0.01, budget.ms),
        (0, 3),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        fontsize=SMALL_PT,
        color=look.budget,
    )


def _stacked(axes: Axes, panel: StackPanel, look: Look) -> list[BarContainer]:
    """The bars; returns what the legend shows, from the bottom up."""
    places = range(len(panel.bars))
    bottoms = [0.0] * len(panel.bars)
    handles = []
    for number, component in enumerate(panel.bars[0].components_ms):
        heights = [bar.components_ms[component] for bar in panel.bars]
        fill, hatch = look.fills[number % len(look.fills)], HATCHES[number % len(HATCHES)]
        handles.append(
            axes.bar(
                places, heights, 0.7, bottoms, color=fill, hatch=hatch, edgecolor="#1f2328", linewidth=0.4
            )
        )
        bottoms = [bottom + height for bottom, height in zip(bottoms, heights, strict=True)]
    for place, bar, total in zip(places, panel.bars, bottoms, strict=True):
        axes.annotate(
            significant(total) + ("*" if bar.marked else ""),
            (place, total),
            (0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=SMALL_PT,
        )
    axes.set_xticks(list(places), [bar.name for bar in panel.bars])
    axes.set_xlim(-0.75, len(panel.bars) - 0.25)
    axes.set_ylim(0, 1.1 * max(bottoms) or 1)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(plain))
    axes.grid(axis="y")
    axes.set_ylabel("Latency (ms)")
    scenario, _, sizes = panel.title.partition(", by ")
    axes.set_title(scenario, loc="left", fontsize=TEXT_PT, fontweight="bold")
    axes.set_xlabel(sizes.capitalize())
    return handles


def _reach(one: Estimate) -> tuple[tuple[float], tuple[float]]:
    """How far the interval goes to either side."""
    return (max(one.value - one.low, 0.0),), (max(one.high - one.value, 0.0),)
