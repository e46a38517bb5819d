"""Draws a chart with matplotlib: the frame around it, and the file it goes into."""

import io
import textwrap

import matplotlib.style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from reports.plots.drawing import loads, markup, rows, stack
from reports.plots.drawing.sheet import Sheet
from reports.plots.shapes import Chart, Curve, Plotted, Rows, Stack, Sweep
from reports.plots.theme import (
    CHARACTERS,
    DOTS_PER_INCH,
    LOOKS,
    SMALL_PT,
    TITLE_PT,
    WIDTH_IN,
    Theme,
    settings,
)

_TOP_IN, _LINE_IN, _MARGIN_IN = 0.68, 0.15, 0.15


def svg(chart: Chart, content: Plotted, theme: Theme, description: str, digest: str) -> str:
    """The picture as an `<svg>` element that carries its description and the digest of what it shows."""
    file = io.StringIO()
    with matplotlib.style.context(["default", settings(theme, digest)]):
        FigureCanvasSVG(_figure(chart, content, theme)).print_svg(
            file, metadata=dict.fromkeys(("Date", "Creator"))
        )
    return markup.finished(file.getvalue(), f"{chart.title}: {chart.subtitle}", description, digest)


def png(chart: Chart, content: Plotted, theme: Theme) -> bytes:
    """The picture as PNG."""
    file = io.BytesIO()
    with matplotlib.style.context(["default", settings(theme, "")]):
        figure = _figure(chart, content, theme)
        figure.set_dpi(DOTS_PER_INCH)
        FigureCanvasAgg(figure).print_png(file, metadata={"Software": None})
    return file.getvalue()


def _figure(chart: Chart, content: Plotted, theme: Theme) -> Figure:
    """Title above, content, notes and caption below."""
    look = LOOKS[theme]
    below = [line for text in (*chart.notes, chart.caption) for line in textwrap.wrap(text, CHARACTERS)]
    height_of_content = _height(content)
    height = _TOP_IN + height_of_content + _LINE_IN * len(below) + 2 * _MARGIN_IN
    figure = Figure(figsize=(WIDTH_IN, height))
    page = Sheet(figure, look, height, _TOP_IN)
    page.text(_MARGIN_IN, 0.3 - _TOP_IN, chart.title, fontsize=TITLE_PT, fontweight="bold")
    page.text(_MARGIN_IN, 0.52 - _TOP_IN, chart.subtitle, color=look.faint)
    _draw(content, page)
    for place, line in enumerate(below, start=1):
        page.text(
            _MARGIN_IN,
            height_of_content + _MARGIN_IN + place * _LINE_IN,
            line,
            fontsize=SMALL_PT,
            color=look.faint,
        )
    return figure


def _height(content: Plotted) -> float:
    if isinstance(content, Rows):
        return rows.height_in(content)
    return stack.height_in(content) if isinstance(content, Stack) else loads.height_in(content)


def _draw(content: Plotted, page: Sheet) -> None:
    if isinstance(content, Sweep):
        loads.sweep(content, page)
    elif isinstance(content, Curve):
        loads.curve(content, page)
    elif isinstance(content, Stack):
        stack.stack(content, page)
    else:
        rows.rows(content, page)
