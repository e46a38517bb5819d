"""Draws figures over runs: a row for each series, one scale for the rows of a panel, and a tick at each step."""

import textwrap
from collections.abc import Callable, Iterator

import numpy as np

from reports.plots.drawing.vector import area, centred, document, dots, stroke, words
from reports.plots.shapes import Chart, DrawnStep, Trend, TrendPanel, TrendRow
from reports.plots.theme import CHARACTERS, SMALL_PT, TEXT_PT, TITLE_PT, WIDTH_IN, Look

_WIDTH = 72 * WIDTH_IN
_MARGIN, _TOP, _LINE = 10.8, 49.0, 10.8
_ROW, _TITLE, _GAP, _TICKS = 30.2, 21.6, 5.8, 30.2
_NAME, _TEXT = 5.9, 5.0
"""The width of a character in the columns left and right of the rows."""
_HALF_ROW = 0.42
"""How far a row goes to either side, of the distance between rows."""
_FEW = 60
"""Points that are drawn one by one; of more the line says enough."""

_Place = Callable[[np.ndarray], np.ndarray]
"""From places along the runs to points from the left edge."""


def svg(chart: Chart, content: Trend, look: Look, description: str, digest: str) -> str:
    """The picture as an `<svg>` element: the title, panels one below the other over the same runs, notes and caption."""
    below = [line for text in (*chart.notes, chart.caption) for line in textwrap.wrap(text, CHARACTERS)]
    marks = [
        words(_MARGIN, 21.6, chart.title, TITLE_PT, look.ink, is_bold=True),
        words(_MARGIN, 37.4, chart.subtitle, TEXT_PT, look.faint),
        *_panels(content, look),
    ]
    bottom = _TOP + _TICKS + sum(_height(panel) for panel in content.panels)
    for line in below:
        bottom += _LINE
        marks.append(words(_MARGIN, bottom + _MARGIN, line, SMALL_PT, look.faint))
    size, title = (_WIDTH, bottom + 2 * _MARGIN), f"{chart.title}: {chart.subtitle}"
    return document(size, look.paper, marks, title, description, digest)


def _height(panel: TrendPanel) -> float:
    return _TITLE + _ROW * len(panel.rows) + _GAP


def _panels(content: Trend, look: Look) -> Iterator[str]:
    everything = [row for panel in content.panels for row in panel.rows]
    left = 21.6 + _NAME * max(len(row.name) for row in everything)
    right = _WIDTH - max(110.0, 21.6 + _TEXT * max(len(row.text) for row in everything))
    right = max(right, left + 108.0)
    first, last = min(row.xs[0] for row in everything), max(row.xs[-1] for row in everything)
    room = 0.02 * (last - first) or 1.0

    def place(xs: np.ndarray) -> np.ndarray:
        return left + (right - left) * (xs - first + room) / (last - first + 2 * room)

    top = _TOP
    for panel in content.panels:
        yield words(_MARGIN, top + _TITLE - 6.5, panel.title, TEXT_PT, look.ink, is_bold=True)
        scale = f"a row is ± {panel.reach:.3g} {panel.unit} high"
        yield words(right, top + _TITLE - 6.5, scale, SMALL_PT, look.faint, "end")
        for number, row in enumerate(panel.rows):
            middle = top + _TITLE + _ROW * (number + 0.5)
            yield stroke(np.array([[left, middle], [right, middle]]), look.grid, 0.6)
            yield words(left - 4, centred(middle, TEXT_PT), row.name, TEXT_PT, look.faint, "end")
            size = SMALL_PT + 0.5
            yield words(right + 8, centred(middle, size), row.text, size, look.ink)
            yield from _row(row, panel.reach, middle, place, look)
        for number, row in enumerate(panel.rows):
            middle = top + _TITLE + _ROW * (number + 0.5)
            for step in row.steps:
                x = float(place(np.array(step.x)))
                yield from _step(step, x, x > left + 0.8 * (right - left), middle, look)
        top += _height(panel)
        yield stroke(np.array([[left, top - _GAP], [right, top - _GAP]]), look.faint, 0.8)
    yield from _ticks(content, top - _GAP, place, look)


def _row(row: TrendRow, reach: float, middle: float, place: _Place, look: Look) -> Iterator[str]:
    """The line of the values within the band of their intervals."""
    xs = place(np.asarray(row.xs, float))
    low, high, value = (
        middle - _HALF_ROW * _ROW * np.clip(np.asarray(side) / reach, -1, 1)
        for side in (row.lows, row.highs, row.values)
    )
    band = np.column_stack([np.concatenate([xs, xs[::-1]]), np.concatenate([low, high[::-1]])])
    line = np.column_stack([xs, value])
    yield area(band, look.lines[0], 0.25)
    yield stroke(line, look.lines[0], 1.0)
    if len(line) <= _FEW:
        yield from dots(line, look.lines[0], 1.5)


def _step(step: DrawnStep, x: float, is_right: bool, middle: float, look: Look) -> Iterator[str]:
    """A line across the row, solid and with a triangle down for the worse, dashed and up for the better."""
    colour = look.lines[1] if step.is_worse else look.lines[2]
    ends = np.array([[x, middle - 0.48 * _ROW], [x, middle + 0.48 * _ROW]])
    yield stroke(ends, colour, 1.4, is_dashed=not step.is_worse)
    text = f"{'▼' if step.is_worse else '▲'} {step.text}"
    baseline = centred(middle - 0.34 * _ROW, SMALL_PT)
    if is_right:
        yield words(x - 4, baseline, text, SMALL_PT, look.ink, "end", around=look.paper)
    else:
        yield words(x + 4, baseline, text, SMALL_PT, look.ink, around=look.paper)


def _ticks(content: Trend, axis: float, place: _Place, look: Look) -> Iterator[str]:
    for where, name in content.ticks:
        x = float(place(np.array(where)))
        yield stroke(np.array([[x, axis], [x, axis + 3]]), look.faint, 0.8)
        for number, line in enumerate(name.split("\n")):
            yield words(x, axis + 12 + 9.5 * number, line, SMALL_PT, look.faint, "middle")
