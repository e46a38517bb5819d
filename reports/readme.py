"""Keeps marked regions of a markdown file in step with records; all other text stays as it is.

A region is the text between two markers that each stand on a line of their own, outside of code fences.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reports import tables
from reports.record import Record, case_id

EXAMPLE = """\
<!-- tritonproof:machine -->
<!-- /tritonproof:machine -->

<!-- tritonproof:summary -->
<!-- /tritonproof:summary -->

<!-- tritonproof:case {case} -->
<!-- /tritonproof:case {case} -->"""

FOREIGN = ("support",)
"""Regions that records do not tell: `support` is written by `python -m fixtures.support`."""

_MARKER = re.compile(r" {0,3}<!--\s*(?P<slash>/?)tritonproof:(?P<name>.*?)\s*-->\s*")
_INLINE = re.compile(r"(?<!`)<!--\s*/?tritonproof:")
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}(?=[^`]*$)|~{3,})")


class ReadmeError(Exception):
    """A file whose regions cannot be written; the message names the line and the cure."""


@dataclass(frozen=True)
class Region:
    """One marked region of a text."""

    name: str
    """What it shows: `summary`, `machine`, `case CASE_ID`, or one of FOREIGN."""
    line: int
    """Of the opening marker, counted from 1."""
    opening: str
    body: str
    closing: str


def sync(text: str, records: Sequence[Record]) -> str:
    """`text` with every region rendered anew; raises ReadmeError where that is not possible."""
    parts = []
    for part in _split(text, records):
        parts += [part] if isinstance(part, str) else [part.opening, _body(part, records), part.closing]
    return "".join(parts)


def with_region(text: str, name: str, body: str) -> str:
    """`text` with the regions of one name replaced by `body`, which comes from elsewhere than records."""
    parts = []
    for part in _split(text, ()):
        if isinstance(part, Region) and part.name == name:
            parts += [part.opening, _framed(part, body), part.closing]
        else:
            parts += [part] if isinstance(part, str) else [part.opening, part.body, part.closing]
    return "".join(parts)


def drifted(text: str, records: Sequence[Record]) -> list[str]:
    """Names of the regions that differ from what the records say, in the order of the text."""
    regions = [part for part in _split(text, records) if isinstance(part, Region)]
    return [region.name for region in regions if region.body != _body(region, records)]


def difference(text: str, synced: str, limit: int = 40) -> str:
    """A unified diff from `text` to `synced`, of at most `limit` lines."""
    lines = difflib.unified_diff(text.splitlines(), synced.splitlines(), "file", "records", n=1, lineterm="")
    shown = list(lines)
    more = [f"... and {len(shown) - limit} more lines"] if len(shown) > limit else []
    return "\n".join(shown[:limit] + more)


def _split(text: str, records: Sequence[Record]) -> list[str | Region]:
    """The text as plain lines and regions; joined again they give the same text."""
    parts: list[str | Region] = []
    lines = _lines(text)
    for number, line, marker in lines:
        if marker is None:
            parts.append(line)
        elif marker["slash"]:
            raise ReadmeError(f"line {number}: {line.strip()} closes a region that is not open.")
        else:
            parts.append(_region(number, line, marker["name"], lines))
    if not any(isinstance(part, Region) for part in parts):
        case = case_id(records[0].case) if records else "CASE_ID"
        raise ReadmeError(f"no markers. Paste those you need, and run again:\n\n{EXAMPLE.format(case=case)}")
    return parts


def _region(number: int, opening: str, name: str, lines: Iterator["_Line"]) -> Region:
    """The region that starts at `opening`; takes its lines from `lines`."""
    if name not in ("summary", "machine", *FOREIGN) and not re.fullmatch(r"case\s+\S+", name):
        raise ReadmeError(
            f"line {number}: unknown marker {opening.strip()}. "
            "There are tritonproof:summary, tritonproof:machine and tritonproof:case CASE_ID."
        )
    body = []
    for _, line, marker in lines:
        if marker is None:
            body.append(line)
        elif marker["slash"] and marker["name"] == name:
            return Region(name, number, opening, "".join(body), line)
        else:
            break
    raise ReadmeError(
        f"line {number}: {opening.strip()} is not closed. Add a line <!-- /tritonproof:{name} --> after it."
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
        if marker is None and _INLINE.search(line):
            raise ReadmeError(f"line {number}: a marker needs a line of its own, whole: {line.strip()}")
        yield number, line, marker


def _body(region: Region, records: Sequence[Record]) -> str:
    """What belongs between the markers."""
    return region.body if region.name in FOREIGN else _framed(region, _render(region, records))


def _framed(region: Region, text: str) -> str:
    """The text with the line ends of the file, and an empty line before and after it."""
    end = "\r\n" if region.opening.endswith("\r\n") else "\n"
    return "".join(f"{line}{end}" for line in ("", *text.split("\n"), ""))


def _render(region: Region, records: Sequence[Record]) -> str:
    kind, _, case = region.name.partition(" ")
    if kind == "case":
        return tables.case_section(_record(region, case.strip(), records))
    if not records:
        raise ReadmeError(_no_record(region, "there are no records", "tox run -e benchmarks"))
    return tables.summary_table(records) if kind == "summary" else tables.machine_sentence(records)


def _record(region: Region, case: str, records: Sequence[Record]) -> Record:
    for record in records:
        if case_id(record.case) == case:
            return record
    raise ReadmeError(
        _no_record(region, f"there is no record of {case}", f"tox run -e benchmarks -- -k {case}")
    )


def _no_record(region: Region, problem: str, command: str) -> str:
    return f"line {region.line}: {problem}. Measure: {command}, or name another folder: --results DIR"
