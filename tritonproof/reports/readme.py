"""Keeps the marked regions of a markdown file up to date with records; all other text stays as it is.

A region lies between two markers on lines of their own, not in a code fence: a table, sentence or picture."""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from tritonproof.base import commands, disk
from tritonproof.base.errors import InputError
from tritonproof.base.sanitize import excerpt
from tritonproof.reports import plots
from tritonproof.reports.plots import NothingToShowError, Theme, View
from tritonproof.reports.publishable import Publishable
from tritonproof.reports.tables.case import case_section
from tritonproof.reports.tables.points import points_table
from tritonproof.reports.tables.rendering import markdown
from tritonproof.reports.tables.summary import machine_blocks, summary
from tritonproof.reports.tables.table import Block


def _points(scenario: str) -> Callable[[Sequence[Publishable]], Sequence[Block]]:
    return lambda records: [points_table(records[0], scenario)]


KINDS: Mapping[str, View[plots.Chart | Sequence[Block]]] = {
    "machine": View("what the records were measured on", "several", machine_blocks),
    "summary": View("a row per case: is it right, and how fast at its best", "several", summary),
    "case": View("all of a case, under headings", "one", lambda records: case_section(records[0])),
    "offline": View("throughput and latency by batch", "one", _points("offline")),
    "online": View("throughput and latency by concurrency or rate", "one", _points("online")),
    **{f"plot {name}": view for name, view in plots.PLOTS.items()},
}
"""The kinds of regions by the text of the marker, before a case's name."""
_FORMS = {
    f"{name}{' CASE_ID' if kind.of == 'one' else ' [CASE_ID]' if kind.of == 'any' else ''}": kind.shows
    for name, kind in KINDS.items()
}


def overview() -> str:
    """The markers with what they show, a line for each."""
    width = max(map(len, _FORMS))
    return "\n".join(f"  {form:{width}}  {shows}" for form, shows in _FORMS.items())


def _kind_and_case(marker: str) -> tuple[str, str]:
    """The name of the kind of a marker, and its case, which is empty for all cases."""
    for name, kind in KINDS.items():
        if marker == name and kind.of != "one":
            return name, ""
        if marker.startswith(f"{name} ") and kind.of != "several":
            return name, marker.removeprefix(name).strip()
    raise InputError(f"unknown marker tritonproof:{excerpt(marker)}", fix=f"use one of {', '.join(_FORMS)}")


PLOTS = "plots"
"""The folder of pictures, beside the file that shows them."""
_IMAGE = re.compile(r'<img [^>]*src="(?!/)(?P<folder>[^":]*)/[^"/]*"')


class PictureFile(NamedTuple):
    """A plot of some records, in one theme, as an SVG file."""

    path: Path
    """The path from the folder of the text that shows the picture."""
    chart: plots.Chart
    theme: Theme

    def is_up_to_date(self, folder: Path) -> bool:
        """Whether the file is whole and shows what its records say."""
        try:
            text = disk.content(folder / self.path).decode(errors="replace")
        except OSError:
            return False
        return plots.digest_of(text) == self.chart.digest(self.theme)

    def write(self, folder: Path) -> None:
        disk.write_atomically(folder / self.path, plots.draw(self.chart, self.theme))


def picture_name(plot: str, case: str, theme: Theme, ending: str = "svg") -> str:
    """The name of a picture's file; `case` is empty for a picture of several."""
    return f"{'-'.join(filter(None, (case, plot, theme)))}.{ending}"


def _picture(chart: plots.Chart, plot: str, case: str, old_body: str) -> tuple[str, list[PictureFile]]:
    """The HTML of a picture in the reader's theme, whose alternative text says what it shows; and its files,
    in the folder that `old_body`, the region's text so far, names, else in PLOTS."""
    image = _IMAGE.search(old_body)
    link = image["folder"] if image else PLOTS
    names = [picture_name(plot, case, theme) for theme in plots.THEMES]
    shown = (
        f'<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="{link}/{names[1]}">\n'
        f'  <img alt="{html.escape(chart.alternative)}" src="{link}/{names[0]}">\n</picture>'
    )
    paths = [Path(unquote(link)) / name for name in names]
    return shown, [PictureFile(path, chart, theme) for path, theme in zip(paths, plots.THEMES, strict=True)]


_PARTS = re.compile(
    r"^ {0,3}(?P<fence>`{3,}(?=[^`\n]*$)|~{3,}).*?(?:^ {0,3}(?P=fence)[`~]*\s*$|\Z)"
    r"|^(?P<opening> {0,3}<!--\s*tritonproof:(?P<name>[^\n]*?)\s*-->[ \t]*(?P<end>\r?\n))"
    r"(?P<body>.*?)(?P<closing>^ {0,3}<!--\s*/tritonproof:(?P=name)\s*-->[ \t]*(?:\r?\n|\Z))",
    re.MULTILINE | re.DOTALL,
)
"""Code blocks, in which markers are plain text, and regions."""
_MARKER = re.compile(r"(?<![`\\])<!--\s*/?tritonproof:[^\n]*")
_CODE = re.compile(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)")
"""Code within a line: in it, and after a backslash, a marker is plain text."""


class Synced(NamedTuple):
    """A text whose regions show what the records say."""

    text: str
    drifted: list[str]
    """The names of the regions that were not up to date, in their order."""
    pictures: list[PictureFile]
    """The pictures that the text shows, by their paths from its folder, once each."""


def sync(text: str, records: Sequence[Publishable]) -> Synced:
    """`text` with every region rendered anew; raises InputError if that is not possible. A region with a
    picture keeps the picture's folder, and any other uses PLOTS."""
    _check_markers(text)
    drifted: list[str] = []
    pictures: dict[Path, PictureFile] = {}

    def filled(part: re.Match[str]) -> str:
        if part["fence"]:
            return part[0]
        try:
            body, drawn = _new_body(part["name"], part["body"], records)
        except InputError as error:
            where = f"line {_line_number(text, part.start())}"
            raise InputError(error.what, where=where, fix=error.fix) from error
        pictures.update((picture.path, picture) for picture in drawn)
        lines = "".join(f"{line}{part['end']}" for line in ("", *body.split("\n"), ""))
        region = f"{part['opening']}{lines}{part['closing']}"
        if region != part[0]:
            drifted.append(part["name"])
        return region

    return Synced(_PARTS.sub(filled, text), drifted, [*pictures.values()])


def _check_markers(text: str) -> None:
    """Raise InputError for a text without regions, or with a marker that begins or ends none."""

    def remaining(part: re.Match[str]) -> str:
        """The body of a region, and nothing of a code block, with the same number of lines."""
        return "\n" * part[0].count("\n") if part["fence"] else f"\n{part['body']}\n"

    outside = _CODE.sub("", _PARTS.sub(remaining, text))
    if stray := _MARKER.search(outside):
        where = f"line {_line_number(outside, stray.start())}"
        fix = (
            "begin a region with <!-- tritonproof:NAME -->, end it with <!-- /tritonproof:NAME -->, each on "
            "its own line"
        )
        raise InputError(f"{excerpt(stray[0])} begins or ends no region", where=where, fix=fix)
    if all(part["fence"] for part in _PARTS.finditer(text)):
        fix = (
            "paste those you need, each pair on two lines, such as <!-- tritonproof:summary --> and "
            f"<!-- /tritonproof:summary -->. All: {commands.tool_command('report', 'readme --help')}"
        )
        raise InputError("there are no markers", fix=fix)


def _line_number(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _new_body(marker: str, old_body: str, records: Sequence[Publishable]) -> tuple[str, list[PictureFile]]:
    """The text of a region that replaces `old_body`, and its pictures."""
    name, case = _kind_and_case(marker)
    chosen = [record for record in records if case in ("", record.name)]
    if not chosen:
        case = excerpt(case, 300)
        problem = f"there is no record of {case}" if case else "there are no records"
        command = commands.benchmarks_command(f"-k {case}" if case else "")
        raise InputError(problem, fix=f"measure: {command}, or name another folder: --results DIR")
    try:
        made = KINDS[name].make(chosen)
    except NothingToShowError as error:
        made = [str(error)]
    if isinstance(made, plots.Chart):
        return _picture(made, name.removeprefix("plot "), case, old_body)
    return markdown(made), []
