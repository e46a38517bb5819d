"""Paints a drawing as PNG, with matplotlib."""

import io

import matplotlib.style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Affine2D, Transform

from reports.plots.drawing.marks import Area, Drawing, Line, Mark, Words
from reports.plots.theme import DOTS_PER_INCH, Theme, settings

_PER_INCH = 72
_ALIGNED = {"start": "left", "middle": "center", "end": "right"}


def png(drawing: Drawing, theme: Theme) -> bytes:
    """The picture as PNG."""
    file = io.BytesIO()
    with matplotlib.style.context(["default", settings(theme, "")]):
        figure = Figure(figsize=(drawing.width / _PER_INCH, drawing.height / _PER_INCH), dpi=DOTS_PER_INCH)
        down = Affine2D().scale(1 / _PER_INCH, -1 / _PER_INCH).translate(0, drawing.height / _PER_INCH)
        for mark in drawing.marks:
            _add(figure, mark, down + figure.dpi_scale_trans)
        FigureCanvasAgg(figure).print_png(file, metadata={"Software": None})
    return file.getvalue()


def _add(figure: Figure, mark: Mark, place: Transform) -> None:
    if isinstance(mark, Words):
        figure.text(
            mark.x,
            mark.baseline,
            mark.text,
            transform=place,
            fontsize=mark.size,
            color=mark.colour,
            ha=_ALIGNED[mark.side],
            va="baseline",
            fontweight="bold" if mark.is_bold else "normal",
            path_effects=[withStroke(linewidth=3, foreground=mark.around)] if mark.around else None,
        )
    elif isinstance(mark, Area):
        shape = Polygon(mark.points, facecolor=mark.colour, alpha=mark.opacity, linewidth=0, transform=place)
        figure.add_artist(shape)
    else:
        xs, ys = mark.points.T
        line = Line2D(xs, ys, color=mark.colour, transform=place)
        if isinstance(mark, Line):
            line.set(linewidth=mark.width, linestyle=(0, (3, 2)) if mark.is_dashed else "-")
        else:
            line.set(linestyle="none", marker="o", markersize=2 * mark.radius, markeredgewidth=0)
        figure.add_artist(line)
