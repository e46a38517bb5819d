"""Keeps marked regions of a markdown file in step with records; all other text stays as it is.

A region is the text between two markers that each stand on a line of their own, outside of code fences.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from reports import plots
from reports.marked import markers
from reports.marked.markers import Ask
from reports.marked.pictures import PictureFile, element, file_name, stem
from reports.record import untrusted
from reports.record.foreign import is_printable, visible
from reports.words.markdown import text as plain
from reports.words.shown import Shown, name_of

PLOTS = "plots"
"""The folder of pictures, beside the file that shows them."""

_MARKER = re.compile(r" {0,3}<!--\s*(?P<slash>/?)tritonproof:(?P<name>.*?)\s*-->\s*")
_INLINE = re.compile(r"(?<![`\\])<!--\s*/?tritonproof:")
_CODE = re.compile(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)")
"""Code within a line: with it, and where a backslash stands before it, what looks like a marker is text."""
_SHOWN = re.compile(r'<img [^>]*src="(?!/)(?P<folder>[^":]*)/[^"/]*"')
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}(?=[^`]*$)|~{3,})")


class ReadmeError(Exception):
    """A file whose regions cannot be written; the message names the line and the cure."""


@dataclass(frozen=True)
class Region:
    """One marked region of a text."""

    name: str
    """The text of its marker after `tritonproof:`."""
    asked: Ask
    line: int
    """The line of the opening marker, counted from 1."""
    opening: str
    body: str
    closing: str


def text_of(file: Path) -> str:
    """The text of a markdown file; raises ReadmeError where it is not UTF-8, OSError where the file cannot be read."""
    try:
        return untrusted.given(file).decode()
    except UnicodeDecodeError as error:
        raise ReadmeError(f"not UTF-8 text ({error.reason} at byte {error.start})") from error


def sync(text: str, records: Sequence[Shown], folder: str | None = None) -> str:
    """`text` with every region rendered anew; raises ReadmeError where that is not possible.

    `folder` is the link to the pictures. Without it a region that shows one already keeps its folder, and another
    gets PLOTS.
    """
    return _rewritten(_split(text, records), lambda region: _body(region, records, folder))


def pictures(text: str, records: Sequence[Shown], beside: Path) -> list[PictureFile]:
    """The pictures that a text in step with `records` shows, once each; `beside` is the folder the text lies in."""
    found = {}
    for region in _split(text, records):
        if isinstance(region, str) or not (shown := _SHOWN.search(region.body)):
            continue
        asked, of = region.asked, _records(region, records)
        if asked.kind != "plot":
            continue
        folder = unquote(shown["folder"])
        if visible(folder) != folder or not is_printable(folder):
            raise ReadmeError(
                f"line {region.line}: the picture that is shown lies in a folder with characters that no path should have: "
                f"{markers.quoted(folder)}. Take the picture out, or name another folder: --plots DIR"
            )
        for theme in plots.THEMES:
            name = file_name(stem(asked.plot, asked.case, asked.budget_ms), theme)
            path = beside / folder / name
            found[path] = PictureFile(path, asked.plot, of, theme, asked.budget_ms)
    return list(found.values())


def with_region(text: str, name: str, body: str) -> str:
    """`text` with the regions of one name replaced by `body`, which comes from elsewhere than records; raises ReadmeError
    where there is none."""
    parts = _split(text, ())
    if not any(isinstance(part, Region) and part.name == name for part in parts):
        raise ReadmeError(
            f"no markers of {name}. Paste <!-- tritonproof:{name} --> and <!-- /tritonproof:{name} -->, a line each"
        )
    return _rewritten(parts, lambda region: _framed(region, body) if region.name == name else region.body)


def drifted(text: str, records: Sequence[Shown], folder: str | None = None) -> list[str]:
    """Names of the regions that differ from what the records say, in the order of the text."""
    regions = [part for part in _split(text, records) if isinstance(part, Region)]
    return [region.name for region in regions if region.body != _body(region, records, folder)]


def difference(text: str, synced: str, limit: int = 40) -> str:
    """A unified diff from `text` to `synced`, of at most `limit` lines."""
    lines = difflib.unified_diff(text.splitlines(), synced.splitlines(), "file", "records", n=1, lineterm="")
    shown = list(lines)
    more = [f"... and {len(shown) - limit} more lines"] if len(shown) > limit else []
    return "\n".join(shown[:limit] + more)


def _rewritten(parts: Sequence[str | Region], body: Callable[[Region], str]) -> str:
    """The text of these parts, each region with the body that it is to have."""
    return "".join(
        part if isinstance(part, str) else f"{part.opening}{body(part)}{part.closing}" for part in parts
    )


def _split(text: str, records: Sequence[Shown]) -> list[str | Region]:
    """The text as plain lines and regions; joined again they give the same text."""
    parts: list[str | Region] = []
    lines = _lines(text)
    for number, line, marker in lines:
        if marker is None:
            parts.append(line)
        elif marker["slash"]:
            raise ReadmeError(f"line {number}: {markers.quoted(line)} closes a region that is not open.")
        else:
            parts.append(_region(number, line, marker["name"], lines))
    if not any(isinstance(part, Region) for part in parts):
        case = name_of(records[0]) if records else "CASE_ID"
        raise ReadmeError(
            f"no markers. Paste those you need, and run again:\n\n{markers.EXAMPLE.format(case=case)}"
        )
    return parts


def _region(number: int, opening: str, name: str, lines: Iterator["_Line"]) -> Region:
    """The region that starts at `opening`; takes its lines from `lines`."""
    try:
        asked = markers.read(name)
    except ValueError as error:
        raise ReadmeError(f"line {number}: {error}") from error
    body = []
    for _, line, marker in lines:
        if marker is None:
            body.append(line)
        elif marker["slash"] and marker["name"] == name:
            return Region(name, asked, number, opening, "".join(body), line)
        else:
            break
    raise ReadmeError(
        f"line {number}: {markers.quoted(opening)} is not closed. Add a line <!-- /tritonproof:{markers.quoted(name)} --> after it."
    )


_Line = tuple[int, str, re.Match[str] | None]


def _lines(text: str) -> Iterator[_Line]:
    """Number, line and, outside of code fences, marker of each line."""
    fence = ""
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        found = _FENCE.match(line)
        if fence:
            closes = found and found["fence"].startswith(fence) and not line.strip(" \t\r\n`~")
            fence = "" if closes else fence
            yield number, line, None
            continue
        fence = found["fence"] if found else ""
        marker = _MARKER.fullmatch(line)
        if marker is None and _INLINE.search(_CODE.sub(" ", line)):
            raise ReadmeError(
                f"line {number}: a marker needs a line of its own, whole: {markers.quoted(line)}"
            )
        yield number, line, marker


def _body(region: Region, records: Sequence[Shown], folder: str | None) -> str:
    """The text between the markers, made from the records."""
    if region.name in markers.FOREIGN:
        return region.body
    of = _records(region, records)
    return _framed(
        region, _picture(region, of, folder) if region.asked.plot else markers.written(region.asked, of)
    )


def _picture(region: Region, records: Sequence[Shown], folder: str | None) -> str:
    """The picture, or the sentence that says why there is none."""
    asked, shown = region.asked, _SHOWN.search(region.body)
    kept = shown["folder"] if shown else PLOTS
    try:
        chart = plots.chart(asked.plot, records, asked.budget_ms)
    except plots.NothingToShowError as error:
        return plain(str(error))
    name = stem(asked.plot, asked.case, asked.budget_ms)
    return element(chart, name, kept if folder is None else folder)


def _framed(region: Region, text: str) -> str:
    """The text with the line ends of the file, and an empty line before and after it."""
    end = "\r\n" if region.opening.endswith("\r\n") else "\n"
    return "".join(f"{line}{end}" for line in ("", *text.split("\n"), ""))


def _records(region: Region, records: Sequence[Shown]) -> Sequence[Shown]:
    """All records, or the one of the region's case; ReadmeError where there is none."""
    case = region.asked.case
    found = [record for record in records if case in ("", name_of(record))]
    if found:
        return found
    case = markers.quoted(case)
    problem = f"there is no record of {case}" if case else "there are no records"
    command = f".venv/bin/tox run -e benchmarks -- -k {case}" if case else ".venv/bin/tox run -e benchmarks"
    raise ReadmeError(
        f"line {region.line}: {problem}. Measure: {command}, or name another folder: --results DIR"
    )
