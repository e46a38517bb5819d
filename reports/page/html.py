"""One HTML page of many records: it needs no network and no other file, and everything in it is escaped."""

import base64
import collections
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reports.page.deploying import answers
from reports.record.quantities import THROUGHPUT
from reports.tables.rendering import below, html
from reports.tables.summary import machine_blocks, machine_text, summary_table
from reports.text.labels import grouped, kind_of_device
from reports.text.publishable import Publishable, name_of
from reports.text.speed import best_load, group_of

_TEMPLATES = Path(__file__).parent
_CHOICES = ("target", "model", "format", "precision")


def page(sections: Sequence[Mapping[str, Any]]) -> str:
    """The page of some cases, of which each is what `reports.page.case_section.section_of` gives."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["html"] = lambda blocks, level=3: Markup(html(blocks, level))
    style, script = ((_TEMPLATES / name).read_text("utf-8") for name in ("page.css", "page.js"))
    records: list[Publishable] = [one["record"] for one in sections]
    table = summary_table(records)
    alike = grouped(records, lambda record: machine_text(record.machine))
    return environment.get_template("page.html").render(
        style=Markup(style),
        script=Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        answers=answers(records),
        is_priced=any(one.price_per_hour is not None for one in records),
        devices=dict.fromkeys(f"{one.case.target} ({kind_of_device(one)})" for one in records),
        choices={name: sorted({getattr(one.case, name) for one in records}) for name in _CHOICES},
        table=table,
        in_name=("Model", "Precision"),  # the name of a case says these
        zip=zip,
        shares=_shares(records),
        speed=THROUGHPUT,
        statuses=collections.Counter(one["status"].word for one in sections),
        sections={one["name"]: one for one in sections},
        below=[_BAR, *below(table)],
        machines=[block for group in alike.values() for block in machine_blocks(group)],
    )


_BAR = "The bar behind a speed is its part of the fastest of the same model on the same hardware."


def _shares(records: Sequence[Publishable]) -> dict[str, float]:
    """The best throughput of each case over the best of its model on the same hardware, in percent."""
    found: dict[str, float] = {}
    for group in grouped(records, group_of).values():
        speeds = {name_of(one): best.throughput_per_s.value for one in group if (best := best_load(one))}
        found |= {name: 100 * speed / (max(speeds.values()) or 1) for name, speed in speeds.items()}
    return found
