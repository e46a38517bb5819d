"""One HTML page of many records: it needs no network and no other file, and everything in it is escaped."""

import base64
import collections
import dataclasses
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from reports import plots
from reports.page.case_section import Status, picture, section_of, status_of
from reports.page.deploying import answers
from reports.record.schema import Mark
from reports.tables import summary
from reports.tables.rendering import markdown
from reports.tables.table import Table
from reports.text.inline import text
from reports.text.labels import kind_of_device
from reports.text.publishable import Publishable, name_of
from reports.text.search import search_paragraph
from reports.text.speed import best_load

_TEMPLATES = Path(__file__).parent
_CHOICES = ("target", "model", "format", "precision")
_SAID_OTHERWISE = ("Model", "Precision")
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

    record: Publishable
    name: str
    status: Status
    marks: Sequence[Mark]
    cells: Sequence[tuple[SummaryColumn, str, float | None]]


def page(records: Sequence[Publishable], results: Path) -> str:
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
    of_all = _shown(summary.summary_table(records))
    columns, rows = _summary(of_all, records)
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
        remarks=markdown([of_all.legend, summary.price_sentence(records), *summary.serving_blocks(records)]),
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


def _searches(records: Sequence[Publishable]) -> str:
    """What the searches found, a line for each case that was searched."""
    found = ((name_of(record), search_paragraph(record)) for record in records)
    return "\n".join(f"- `{text(name)}`: {text(paragraph)}" for name, paragraph in found if paragraph)


def _machines(records: Sequence[Publishable]) -> list[str]:
    """A sentence for each; which case is of which, its own section says."""
    found: list[list[Publishable]] = []
    for record in records:
        group = next((group for group in found if group[0].machine == record.machine), None)
        if group is None:
            found.append([record])
        else:
            group.append(record)
    return [markdown(summary.machine_blocks(group)) for group in found]


def _shown(table: Table) -> Table:
    """The table with the columns that neither the case's name nor its badges say."""
    kept = [place for place, one in enumerate(table.columns) if one.title not in _SAID_OTHERWISE]
    rows = [dataclasses.replace(row, cells=[row.cells[place] for place in kept]) for row in table.rows]
    return dataclasses.replace(table, columns=[table.columns[place] for place in kept], rows=rows)


def _summary(table: Table, records: Sequence[Publishable]) -> tuple[list[SummaryColumn], list[SummaryRow]]:
    by_name = {name_of(record): record for record in records}
    columns = [
        SummaryColumn(
            column.title, any(row.cells[place].value is not None for row in table.rows), column.is_number
        )
        for place, column in enumerate(table.columns)
    ]
    rows = [
        SummaryRow(
            by_name[row.name],
            row.name,
            status_of(by_name[row.name]),
            best.marks if (best := best_load(by_name[row.name])) else (),
            [(column, cell.text, cell.value) for column, cell in zip(columns, row.cells, strict=True)],
        )
        for row in table.rows
    ]
    return columns, rows
