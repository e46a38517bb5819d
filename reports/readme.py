"""Keeps the marked regions of a markdown file in step with records; all other text stays as it is.

A region is the text between two markers, each on a line of its own and outside of code fences: a table, a
sentence, or a picture, which has a file of its own.
"""

import difflib
import functools
import html
import os
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from reports import plots
from reports.plots import NothingToShowError, Theme
from reports.record import commands, disk
from reports.record.sanitize import one_line
from reports.tables.case import case_section
from reports.tables.points import points_table
from reports.tables.rendering import markdown
from reports.tables.summary import machine_blocks, summary
from reports.tables.table import Block
from reports.text.publishable import Publishable, name_of

# --- markers -----------------------------------------------------------------------------------------------

MARKERS_OF_ALL: Mapping[str, tuple[str, Callable[[Sequence[Publishable]], list[Block]]]] = {
    "machine": ("what the records were measured on", machine_blocks),
    "summary": ("a row per case: is it right, and how fast at its best", summary),
}
"""What each marker of all records shows, and the function that makes it."""

MARKERS_OF_CASE: Mapping[str, tuple[str, Callable[[Publishable], list[Block]]]] = {
    "case": ("all of a case, under headings", case_section),
    "offline": ("throughput and latency by batch", lambda one: [points_table(one, "offline")]),
    "online": (
        "throughput and latency with its components by concurrency",
        lambda one: [points_table(one, "online")],
    ),
}
"""What each marker of one case shows, and the function that makes it."""


class ReadmeError(Exception):
    """The regions of a file cannot be written; the message names the line and the fix."""


class Marker(NamedTuple):
    """What a marker asks for: a kind of text, or a plot, of one case or of all."""

    kind: str
    case: str = ""
    plot: str = ""


def parse_marker(name: str) -> Marker:
    """What a marker such as `summary`, `offline CASE_ID` or `plot NAME CASE_ID` asks for; a ReadmeError says
    what to write."""
    match name.split():
        case [kind] if kind in MARKERS_OF_ALL:
            return Marker(kind)
        case [kind, case_name] if kind in MARKERS_OF_CASE:
            return Marker(kind, case_name)
        case ["plot", plot] if plot in plots.PLOTS and plots.PLOTS[plot].of != "one":
            return Marker("plot", plot=plot)
        case ["plot", plot, case_name] if plot in plots.PLOTS:
            return Marker("plot", case_name, plot)
    raise ReadmeError(f"unknown marker tritonproof:{_quoted(name)}. There are {', '.join(_forms())}.")


def _forms() -> dict[str, str]:
    """What each marker shows, by its form."""
    suffixes = {"one": " CASE_ID", "any": " [CASE_ID]", "several": ""}
    return {
        **{kind: shows for kind, (shows, _) in MARKERS_OF_ALL.items()},
        **{f"{kind} CASE_ID": shows for kind, (shows, _) in MARKERS_OF_CASE.items()},
        **{f"plot {name}{suffixes[plot.of]}": plot.shows for name, plot in plots.PLOTS.items()},
    }


def overview() -> str:
    """Each marker and what it shows, in lines of 79 characters at most."""
    forms = _forms()
    width = max(map(len, forms))
    wrap = functools.partial(textwrap.fill, width=79, subsequent_indent=" " * (width + 4))
    return "\n".join(wrap(shows, initial_indent=f"  {form:{width}}  ") for form, shows in forms.items())


def _quoted(part: str) -> str:
    return one_line(part, 300)  # room for a whole marker of a case, and to see where it differs


# --- pictures ----------------------------------------------------------------------------------------------

PLOTS = "plots"
"""The folder of pictures, beside the file that shows them."""

_SHOWN = re.compile(r'<img [^>]*src="(?!/)(?P<folder>[^":]*)/[^"/]*"')


class PictureFile(NamedTuple):
    """A plot of some records, in one theme, as an SVG file."""

    path: Path
    """From the folder of the text that shows it."""
    chart: plots.Chart
    theme: Theme

    def is_in_step(self, beside: Path) -> bool:
        """Whether the file is whole and shows what its records say."""
        try:
            text = disk.content(beside / self.path).decode(errors="replace")
        except OSError:
            return False
        return plots.digest_of(text) == self.chart.digest(self.theme)

    def write(self, beside: Path) -> None:
        disk.replace(beside / self.path, plots.draw(self.chart, self.theme))


def picture_name(plot: str, case: str, theme: Theme, ending: str = "svg") -> str:
    """The name of a picture's file; `case` is empty if it shows several."""
    return f"{'-'.join(filter(None, (case, plot, theme)))}.{ending}"


def _picture(region: "Region", records: Sequence[Publishable]) -> tuple[str, list[PictureFile]]:
    """HTML that shows the picture in the reader's theme, with its gist as alternative text, and its files,
    relative to the text's; or a sentence on why there is none."""
    marker, image = region.marker, _SHOWN.search(region.match["body"])
    try:
        chart = plots.chart(marker.plot, records)
    except NothingToShowError as error:
        return markdown([str(error)]), []
    link = image["folder"] if image else PLOTS
    names = [picture_name(marker.plot, marker.case, theme) for theme in plots.THEMES]
    shown = (
        f'<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="{link}/{names[1]}">\n'
        f'  <img alt="{html.escape(chart.alternative)}" src="{link}/{names[0]}">\n</picture>'
    )
    paths = [Path(unquote(link)) / name for name in names]
    return shown, [PictureFile(path, chart, theme) for path, theme in zip(paths, plots.THEMES, strict=True)]


# --- regions -----------------------------------------------------------------------------------------------

_PARTS = re.compile(
    r"^ {0,3}(?P<fence>`{3,}(?=[^`\n]*$)|~{3,}).*?(?:^ {0,3}(?P=fence)[`~]*\s*$|\Z)"
    r"|^(?P<opening> {0,3}<!--\s*tritonproof:(?P<name>[^\n]*?)\s*-->[ \t]*(?P<end>\r?\n))"
    r"(?P<body>.*?)(?P<closing>^ {0,3}<!--\s*/tritonproof:(?P=name)\s*-->[ \t]*(?:\r?\n|\Z))",
    re.MULTILINE | re.DOTALL,
)
"""Code blocks, in which markers are plain text, and regions."""
_MARKER = re.compile(r"(?<![`\\])<!--\s*/?tritonproof:[^\n]*")
_CODE = re.compile(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)")
"""Code within a line. In it, and after a backslash, a marker is plain text."""


class Region(NamedTuple):
    marker: Marker
    match: re.Match[str]
    line: int
    """The line of the opening marker, counted from 1."""

    @property
    def name(self) -> str:
        """The text of its marker after `tritonproof:`."""
        return self.match["name"]

    def filled(self, text: str) -> str:
        """The region with another text, with the line ends of the file, between two empty lines."""
        lines = "".join(f"{line}{self.match['end']}" for line in ("", *text.split("\n"), ""))
        return f"{self.match['opening']}{lines}{self.match['closing']}"


def text_of(file: Path) -> str:
    """The text of a markdown file; raises ReadmeError if it is not UTF-8, OSError if it cannot be read."""
    try:
        return disk.content(Path(os.path.realpath(file))).decode()
    except UnicodeDecodeError as error:
        raise ReadmeError(f"not UTF-8 text ({error.reason} at byte {error.start})") from error


class Synced(NamedTuple):
    """A text whose regions show what the records say."""

    text: str
    drifted: list[str]
    """The names of the regions that differed, in their order."""
    pictures: list[PictureFile]
    """The pictures that the text shows, by their paths from its folder, once each."""


def sync(text: str, records: Sequence[Publishable]) -> Synced:
    """`text` with every region rendered anew; raises ReadmeError if that is not possible. A region with a
    picture keeps the picture's folder, and any other uses PLOTS."""
    parts: list[str] = []
    drifted: list[str] = []
    pictures: dict[Path, PictureFile] = {}
    for part in _split(text):
        if isinstance(part, str):
            parts.append(part)
            continue
        kind, chosen = part.marker.kind, _records(part, records)
        if kind == "plot":
            body, drawn = _picture(part, chosen)
            pictures |= {picture.path: picture for picture in drawn}
        elif kind in MARKERS_OF_CASE:
            body = markdown(MARKERS_OF_CASE[kind][1](chosen[0]))
        else:
            body = markdown(MARKERS_OF_ALL[kind][1](chosen))
        parts.append(part.filled(body))
        drifted += [part.name] * (parts[-1] != part.match[0])
    return Synced("".join(parts), drifted, [*pictures.values()])


def difference(text: str, synced: str, limit: int = 40) -> str:
    """A unified diff from `text` to `synced` of at most `limit` lines."""
    diff = difflib.unified_diff(text.splitlines(), synced.splitlines(), "file", "records", n=1, lineterm="")
    lines = list(diff)
    rest = [f"... and {len(lines) - limit} more lines"] if len(lines) > limit else []
    return "\n".join(lines[:limit] + rest)


def _split(text: str) -> list[str | Region]:
    """The text in pieces and regions; joined, they give the same text."""
    parts: list[str | Region] = []
    place = 0
    for match in _PARTS.finditer(text):
        parts.append(_without_markers(text, place, match.start()))
        parts.append(match[0] if match["fence"] else _region(match))
        place = match.end()
    parts.append(_without_markers(text, place, len(text)))
    if not any(isinstance(part, Region) for part in parts):
        raise ReadmeError(
            "no markers. Paste those you need, each pair on two lines, such as <!-- tritonproof:summary --> "
            f"and <!-- /tritonproof:summary -->. All of them: {commands.tool('reports', 'readme --help')}"
        )
    return parts


def _region(match: re.Match[str]) -> Region:
    _without_markers(match.string, match.start("body"), match.end("body"))
    line = _line(match.string, match.start())
    try:
        return Region(parse_marker(match["name"]), match, line)
    except ReadmeError as error:
        raise ReadmeError(f"line {line}: {error}") from error


def _without_markers(text: str, start: int, end: int) -> str:
    """The part of a text between two places; raises ReadmeError if it has a marker."""
    part = text[start:end]
    outside_code = _CODE.sub(lambda match: " " * len(match[0]), part)
    if stray := _MARKER.search(outside_code):
        raise ReadmeError(
            f"line {_line(text, start + stray.start())}: {_quoted(stray[0])} begins or ends no region. A "
            "region lies between <!-- tritonproof:NAME --> and <!-- /tritonproof:NAME -->, each on a line of "
            "its own."
        )
    return part


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _records(region: Region, records: Sequence[Publishable]) -> Sequence[Publishable]:
    case = region.marker.case
    matching = [record for record in records if case in ("", name_of(record))]
    if matching:
        return matching
    case = _quoted(case)
    problem = f"there is no record of {case}" if case else "there are no records"
    command = commands.run(f"-k {case}" if case else "")
    raise ReadmeError(
        f"line {region.line}: {problem}. Measure: {command}, or name another folder: --results DIR"
    )
