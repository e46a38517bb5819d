"""How plots look: colours that the colour-blind tell apart, and shapes and hatches that tell apart without them."""

from dataclasses import dataclass
from typing import Any, Literal

#: The qualitative set of Okabe and Ito (2008, https://jfly.uni-koeln.de/color/).
ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILLION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":")
HATCHES = ("", "///", "", "\\\\\\", "xxx", "|||", "---")

WIDTH_IN = 8.6
"""620 points: the width of a README's column on a common screen."""
TEXT_PT, SMALL_PT, TITLE_PT = 9.0, 7.5, 11.0
CHARACTERS = 132
"""How many characters of small text fit a line in DejaVu Sans; other fonts are narrower."""
DOTS_PER_INCH = 200
"""The resolution of PNG files."""


Theme = Literal["light", "dark"]


@dataclass(frozen=True)
class Look:
    """The colours of a theme."""

    paper: str
    ink: str
    faint: str
    """The colour of axes, and of text that is read last."""
    grid: str
    lines: tuple[str, ...]
    """The colours of series and percentiles in their order; each has its place's marker too."""
    fills: tuple[str, ...]
    """The colours of stacked components."""
    budget: str


LOOKS: dict[str, Look] = {
    "light": Look(
        paper="#ffffff",
        ink="#1f2328",
        faint="#59636e",
        grid="#d8dee4",
        lines=(BLUE, VERMILLION, GREEN, PURPLE, ORANGE),
        fills=(YELLOW, SKY, PURPLE, GREEN, BLUE, ORANGE, VERMILLION),
        budget="#000000",
    ),
    "dark": Look(
        paper="#0d1117",
        ink="#e6edf3",
        faint="#9198a1",
        grid="#30363d",
        lines=(SKY, ORANGE, GREEN, PURPLE, YELLOW),
        fills=(YELLOW, SKY, PURPLE, GREEN, BLUE, ORANGE, VERMILLION),
        budget="#ffffff",
    ),
}


def settings(theme: Theme, salt: str) -> dict[str, Any]:
    """matplotlib's settings; `salt` makes the ids inside an SVG its own."""
    look = LOOKS[theme]
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": salt,
        "font.family": "DejaVu Sans",
        "font.size": TEXT_PT,
        "text.color": look.ink,
        "axes.labelcolor": look.ink,
        "xtick.color": look.faint,
        "ytick.color": look.faint,
        "xtick.labelcolor": look.ink,
        "ytick.labelcolor": look.ink,
        "axes.edgecolor": look.faint,
        "axes.facecolor": "none",
        "figure.facecolor": look.paper,
        "savefig.facecolor": look.paper,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.color": look.grid,
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "hatch.linewidth": 0.5,
        "lines.linewidth": 1.6,
        "errorbar.capsize": 3,
        "text.parse_math": False,
        "path.simplify": False,
    }
