"""One HTML page of many records: it needs no network and no other file, and everything in it is escaped."""

import base64
import collections
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from reports import plots, tables
from reports.page.case_section import Status, picture, section_of, status_of
from reports.page.deploying import answers
from reports.record.schema import Mark
from reports.tables import summary
from reports.words.labels import kind_of_device
from reports.words.latency_budget import search_paragraph
from reports.words.markdown import text
from reports.words.ranking import best_load, ranked, ranks, ratio_to_reference
from reports.words.rightness import main_score
from reports.words.shown import Shown, name_of

_TEMPLATES = Path(__file__).parent
_CHOICES = ("target", "model", "format", "precision")
_AS_NUMBER = (
    "Accuracy",
    "Floor",
    summary.RATE,
    summary.P99,
    summary.RANK,
    summary.BESIDE,
    summary.PUBLISHED,
    summary.IN_PROCESS,
    summary.COST,
)
"""Columns of the summary that are ordered by a number; of accuracy by the score, the others by what they show."""
_AS_TEXT = ("Accuracy", "Floor")
"""The columns ordered by a number that begin with words, and so stand on the left."""
_SAID_OTHERWISE = ("Model", "Precision", "Machine", "Note")
"""Columns of the summary that the case's name and its badges say here."""


@dataclass(frozen=True)
class SummaryColumn:
    """A column of the summary: its heading, whether it is ordered by a number, and whether it stands on the right."""

    name: str
    is_number: bool
    is_right: bool


@dataclass(frozen=True)
class SummaryRow:
    """A case in the summary: its cells, and what they are ordered by where that is not what they show."""

    record: Shown
    name: str
    status: Status
    marks: Sequence[Mark]
    cells: Sequence[tuple[SummaryColumn, str, float | None]]


def page(records: Sequence[Shown], results: Path) -> str:
    """The page of `records`, beside which samples and configurations lie below the folder `results`.

    Raises RecordError where a file beside a record is damaged.
    """
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["markdown"] = rendered
    environment.filters["unbroken"] = unbroken
    ordered, placed = ranked(records), ranks(records)
    cells = [summary.summary_row(record, placed) for record in ordered]
    columns, rows = _summary(ordered, cells)
    style, script = ((_TEMPLATES / name).read_text("utf-8") for name in ("page.css", "page.js"))
    return environment.get_template("page.html").render(
        style=Markup(style),
        script=Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        answers=answers(records),
        searches=_searches(records),
        is_priced=any(one.price_per_hour is not None for one in records),
        devices=dict.fromkeys(f"{one.case.target} ({kind_of_device(one)})" for one in records),
        machines="\n\n".join(_machines(records)),
        choices={name: sorted({getattr(one.case, name) for one in records}) for name in _CHOICES},
        columns=columns,
        rows=rows,
        statuses=collections.Counter(row.status.word for row in rows),
        remarks="\n\n".join(summary.summary_remarks([one.name for one in columns], records, cells)),
        pictures=[picture(name, records) for name in plots.available(records)] if len(records) > 1 else [],
        sections=[section_of(record, results) for record in records],
    )


def unbroken(text: str) -> str:
    """The text with each number and its unit on one line, whatever the width: `5.690 ms`, `± 2.3 %`."""
    return re.sub(r"(?<=±) (?=\d)|(?<=\d) (?=(?:%|ms|s|infer/s|J)(?!\w))", "\N{NO-BREAK SPACE}", text)


def rendered(source: str, level: int = 3) -> Markup:
    """The markdown of the tables as HTML, its highest headings as `<h3>` or another level.

    Tables, lists, headings and code alone: no name found in a file becomes a link, a picture or HTML.
    """
    parser = MarkdownIt("zero").enable(["table", "list", "heading", "backticks", "escape"])
    tokens = parser.parse(source)
    headings = [token for token in tokens if token.type in ("heading_open", "heading_close")]
    highest = min((int(token.tag[1:]) for token in headings), default=level)
    for token in headings:
        token.tag = f"h{min(6, int(token.tag[1:]) - highest + level)}"
    html = parser.renderer.render(tokens, parser.options, {})
    # In the text itself `<` is `&lt;`, so these are the tables' own.
    html = html.replace("<table>", '<div class="wrap"><table>').replace("</table>", "</table></div>")
    return Markup(html)


def _searches(records: Sequence[Shown]) -> str:
    """What the searches found, a line for each case that was searched."""
    found = ((name_of(record), search_paragraph(record)) for record in records)
    return "\n".join(f"- `{text(name)}`: {text(paragraph)}" for name, paragraph in found if paragraph)


def _machines(records: Sequence[Shown]) -> list[str]:
    """A sentence for each; which case is of which, its own section says."""
    found: list[list[Shown]] = []
    for record in records:
        group = next((group for group in found if group[0].machine == record.machine), None)
        if group is None:
            found.append([record])
        else:
            group.append(record)
    return [tables.machine_sentence(group) for group in found]


def _summary(
    records: Sequence[Shown], found: Sequence[Mapping[str, str]]
) -> tuple[list[SummaryColumn], list[SummaryRow]]:
    names = [
        name
        for name in summary.SUMMARY_COLUMNS
        if name not in _SAID_OTHERWISE and any(cells[name] != "-" for cells in found)
    ]
    columns = [
        SummaryColumn(name, name in _AS_NUMBER, name in _AS_NUMBER and name not in _AS_TEXT) for name in names
    ]
    rows = []
    for record, cells in zip(records, found, strict=True):
        score = main_score(record)
        ratio = ratio_to_reference(record)
        keys = {"Accuracy": score.served} if score else {}
        keys |= {summary.BESIDE: ratio.value} if ratio else {}
        rows.append(
            SummaryRow(
                record,
                name_of(record),
                status_of(record),
                best.marks if (best := best_load(record)) else (),
                [(column, cells[column.name], keys.get(column.name)) for column in columns],
            )
        )
    return columns, rows
