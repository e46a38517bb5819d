"""One HTML page of many records: it needs no network and no other file, and everything in it is escaped."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from reports import plots, tables
from reports.html_case import Section, section_of
from reports.record import Record, case_id, has_passed
from reports.verdict import main_score

_TEMPLATES = Path(__file__).with_name("page")
# What tables.py writes, and nothing that could make a link, a picture or HTML of a name found in a file.
_MARKDOWN = MarkdownIt("zero").enable(["table", "list", "heading", "backticks", "escape"])
_CHOICES = ("target", "model", "format", "precision")
_NUMBERS = ("Accuracy, served", "Accuracy, framework", "Inferences/second", "P99 Latency (ms)", tables.COST_COLUMN)
"""Columns of the summary that are ordered by their number."""
_RIGHT = ("Inferences/second", "P99 Latency (ms)", tables.COST_COLUMN)


@dataclass(frozen=True)
class Column:
    """A column of the summary."""

    name: str
    kind: str
    """number or text: how it is ordered."""
    right: bool


@dataclass(frozen=True)
class Cell:
    """What a cell shows, and what it is ordered by if that is something else."""

    content: Markup
    key: float | None = None


def page(records: Sequence[Record], results: Path) -> str:
    """The page of `records`, whose samples and configurations lie below the folder `results`.

    Raises RecordError for a damaged file beside a record.
    """
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["markdown"] = rendered
    script = (_TEMPLATES / "page.js").read_text()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    sections = [section_of(record, results) for record in records]
    names, rows = _summary(records)
    failed = sum(not section.passed for section in sections)
    return environment.get_template("page.html").render(
        title="Served models: right, and how fast",
        outcome=_outcome(len(records), failed),
        style=Markup((_TEMPLATES / "page.css").read_text()),  # noqa: S704 - a file of this package
        script=Markup(script),  # noqa: S704
        script_hash=f"sha256-{digest}",
        machines=tables.machine_sentence(records),
        choices={name: sorted({getattr(one.case, name) for one in records}) for name in _CHOICES},
        columns=names,
        rows=rows,
        remarks="\n\n".join(tables.summary_remarks(records)),
        overview=[drawn(name, records) for name in plots.available(records)] if len(records) > 1 else [],
        sections=sections,
    )
