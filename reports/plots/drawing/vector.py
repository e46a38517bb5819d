"""Writes a drawing as SVG; in a hundredth of the time that a plotting library takes to load."""

import re
from collections.abc import Iterator
from xml.sax import saxutils

import numpy as np

from reports.plots.drawing.marks import Area, Dots, Drawing, Line, Mark, Words
from reports.plots.drawing.markup import FONTS

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that no XML has; names come from files."""
_PER_PX = 4 / 3
"""CSS pixels to a point."""


def svg(drawing: Drawing, title: str, description: str, digest: str) -> str:
    """The `<svg>` element with its title, its description and the digest of what it shows."""
    label = digest[:12]
    width, height = drawing.width, drawing.height
    opening = {
        "xmlns": "http://www.w3.org/2000/svg",
        "width": f"{width * _PER_PX:g}",
        "height": f"{height * _PER_PX:g}",
        "viewBox": f"0 0 {width:g} {height:g}",
        "role": "img",
        "aria-labelledby": f"title-{label} description-{label}",
        "data-digest": digest,
        "font-family": FONTS,
    }
    attributes = " ".join(f"{name}={saxutils.quoteattr(value)}" for name, value in opening.items())
    lines = [
        f"<svg {attributes}>",
        f'<title id="title-{label}">{_escaped(title)}</title>',
        f'<desc id="description-{label}">{_escaped(description)}</desc>',
        f'<rect width="{width:g}" height="{height:g}" fill="{drawing.paper}"/>',
        *(element for mark in drawing.marks for element in _elements(mark)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _elements(mark: Mark) -> Iterator[str]:
    if isinstance(mark, Area):
        yield f'<path d="M{_path(mark.points)}z" fill="{mark.colour}" fill-opacity="{mark.opacity:g}"/>'
    elif isinstance(mark, Line):
        dashes = f' stroke-dasharray="{3 * mark.width:g} {2 * mark.width:g}"' if mark.is_dashed else ""
        stroke = f'stroke="{mark.colour}" stroke-width="{mark.width:g}" stroke-linejoin="round"{dashes}'
        yield f'<path d="M{_path(mark.points)}" fill="none" {stroke}/>'
    elif isinstance(mark, Dots):
        for x, y in mark.points.tolist():
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{mark.radius:g}" fill="{mark.colour}"/>'
    else:
        yield _text(mark)


def _text(words: Words) -> str:
    anchor = f' text-anchor="{words.side}"' if words.side != "start" else ""
    weight = ' font-weight="bold"' if words.is_bold else ""
    around = (
        f' stroke="{words.around}" stroke-width="3" stroke-linejoin="round" paint-order="stroke"'
        if words.around
        else ""
    )
    place = f'x="{words.x:.1f}" y="{words.baseline:.1f}" font-size="{words.size:g}" fill="{words.colour}"'
    return f"<text {place}{anchor}{weight}{around}>{_escaped(words.text)}</text>"


def _path(points: np.ndarray) -> str:
    """All in one format string, which is several times faster than number by number."""
    return " ".join(["%.1f,%.1f"] * len(points)) % tuple(points.ravel().tolist())


def _escaped(text: str) -> str:
    return saxutils.escape(_NOT_XML.sub("\ufffd", text))
