"""What a drawing consists of, in points from its top left: written as SVG by `vector`, painted as PNG by `raster`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True, eq=False)
class Area:
    """A closed shape."""

    points: np.ndarray
    """[points, 2]"""
    colour: str
    opacity: float


@dataclass(frozen=True, eq=False)
class Line:
    """A line through points."""

    points: np.ndarray
    """[points, 2]"""
    colour: str
    width: float
    is_dashed: bool = False


@dataclass(frozen=True, eq=False)
class Dots:
    """A dot at each point."""

    points: np.ndarray
    """[points, 2]"""
    colour: str
    radius: float


@dataclass(frozen=True)
class Words:
    """A line of text."""

    x: float
    baseline: float
    text: str
    size: float
    colour: str
    side: Literal["start", "middle", "end"] = "start"
    """Which part of the text stands at `x`."""
    is_bold: bool = False
    around: str = ""
    """The colour that sets it off from what is below it; none where it is empty."""


Mark = Area | Line | Dots | Words


@dataclass(frozen=True)
class Drawing:
    """Marks in the order they are drawn."""

    width: float
    height: float
    paper: str
    marks: Sequence[Mark]


def centred(middle: float, size: float) -> float:
    """The baseline of text of this size whose small letters and figures stand about the middle of a line."""
    return middle + 0.35 * size
