"""The files of pictures: their names, the markdown that shows them, and whether they are in step with records."""

import html
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from reports import plots
from reports.plots import Chart, Theme
from reports.record import files, untrusted
from reports.words.shown import Shown


@dataclass(frozen=True)
class PictureFile:
    """A plot of some records, in one theme, as an SVG file."""

    path: Path
    plot: str
    records: Sequence[Shown]
    theme: Theme
    budget_ms: float | None = None


def stem(plot: str, case: str, budget_ms: float | None = None) -> str:
    """The name of a picture without theme and ending; `case` is empty where it shows several."""
    return "-".join(filter(None, (case, plot, f"{budget_ms:g}ms" if budget_ms is not None else "")))


def file_name(stem: str, theme: Theme, ending: str = "svg") -> str:
    """The name of a picture's file."""
    return f"{stem}-{theme}.{ending}"


def link_to(folder: Path, file: Path) -> str:
    """The folder as a link from a markdown file."""
    return quote(
        Path(os.path.relpath(os.path.realpath(folder), Path(os.path.realpath(file)).parent)).as_posix()
    )


def element(chart: Chart, stem: str, link: str) -> str:
    """HTML that shows the picture in the reader's theme, with its gist for those who do not see it."""
    return "\n".join(
        [
            "<picture>",
            f'  <source media="(prefers-color-scheme: dark)" srcset="{link}/{file_name(stem, "dark")}">',
            f'  <img alt="{html.escape(chart.alternative)}" src="{link}/{file_name(stem, "light")}">',
            "</picture>",
        ]
    )


def is_in_step(picture: PictureFile) -> bool:
    """Whether the file is there, whole, and shows what its records say."""
    try:
        text = untrusted.content(picture.path).decode(errors="replace")
    except OSError:
        return False
    shown = plots.chart(picture.plot, picture.records, picture.budget_ms)
    return plots.digest_of(text) == shown.digest(picture.theme)


def write(picture: PictureFile) -> None:
    """Draw the picture into its file."""
    shown = plots.chart(picture.plot, picture.records, picture.budget_ms)
    files.replace(picture.path, plots.draw(shown, picture.theme))
