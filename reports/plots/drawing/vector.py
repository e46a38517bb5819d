"""Writes SVG in points from the top left; in a hundredth of the time that a plotting library takes to load."""

import re
from collections.abc import Iterable, Iterator
from typing import Literal
from xml.sax import saxutils

import numpy as np

from reports.plots.drawing.markup import FONTS

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that no XML has; names come from files."""
_PER_PX = 4 / 3
"""CSS pixels to a point."""


def document(
    size: tuple[float, float], paper: str, marks: Iterable[str], title: str, description: str, digest: str
) -> str:
    """The `<svg>` element of marks in the order they are drawn, with its title, its description and the digest of what it
    shows."""
    label = digest[:12]
    width, height = size
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
        f'<rect width="{width:g}" height="{height:g}" fill="{paper}"/>',
        *marks,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def area(points: np.ndarray, colour: str, opacity: float) -> str:
    """A closed shape of points, [points, 2]."""
    return f'<path d="M{_path(points)}z" fill="{colour}" fill-opacity="{opacity:g}"/>'


def stroke(points: np.ndarray, colour: str, width: float, *, is_dashed: bool = False) -> str:
    """A line through points, [points, 2]."""
    dashes = f' stroke-dasharray="{3 * width:g} {2 * width:g}"' if is_dashed else ""
    look = f'stroke="{colour}" stroke-width="{width:g}" stroke-linejoin="round"{dashes}'
    return f'<path d="M{_path(points)}" fill="none" {look}/>'


def dots(points: np.ndarray, colour: str, radius: float) -> Iterator[str]:
    """A dot at each of the points, [points, 2]."""
    for x, y in points.tolist():
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{colour}"/>'


def words(
    x: float,
    baseline: float,
    text: str,
    size: float,
    colour: str,
    side: Literal["start", "middle", "end"] = "start",
    *,
    is_bold: bool = False,
    around: str = "",
) -> str:
    """A line of text: `side` is the part of it that stands at `x`, `around` the colour that sets it off from what is below
    it, if any."""
    anchor = f' text-anchor="{side}"' if side != "start" else ""
    weight = ' font-weight="bold"' if is_bold else ""
    outline = (
        f' stroke="{around}" stroke-width="3" stroke-linejoin="round" paint-order="stroke"' if around else ""
    )
    place = f'x="{x:.1f}" y="{baseline:.1f}" font-size="{size:g}" fill="{colour}"'
    return f"<text {place}{anchor}{weight}{outline}>{_escaped(text)}</text>"


def centred(middle: float, size: float) -> float:
    """The baseline of text of this size whose small letters and figures stand about the middle of a line."""
    return middle + 0.35 * size


def _path(points: np.ndarray) -> str:
    """All in one format string, which is several times faster than number by number."""
    return " ".join(["%.1f,%.1f"] * len(points)) % tuple(points.ravel().tolist())


def _escaped(text: str) -> str:
    return saxutils.escape(_NOT_XML.sub("\ufffd", text))
