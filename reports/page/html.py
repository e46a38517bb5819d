"""One HTML page for many records. It needs no network and no other file, and escapes everything that it
shows. It begins with the configuration of each model to deploy, its accuracy, speed and cost."""

import base64
import collections
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reports.page.case_section import Status, status_of
from reports.record.quantities import COST, ENERGY, LATENCY, SHARE_OF_SPEED, THROUGHPUT
from reports.record.schema import Load, case_id
from reports.tables.rendering import below, html
from reports.tables.summary import machine_blocks, machine_text, summary_table
from reports.text.correctness import main_score, metric_text, tightest_text, unscored
from reports.text.labels import full_point, grouped, kind_of_device, several_gpus
from reports.text.publishable import Publishable, name_of
from reports.text.speed import (
    beside_reference,
    best_load,
    cost,
    format_name,
    group_of,
    ranked,
    ranks,
    reference,
)


@dataclass(frozen=True)
class DeployOption:
    """A configuration to deploy, as plain text; each item of a sequence is a line."""

    name: str
    format: str
    why: str
    """How its speed compares with that of the others; empty if unknown."""
    status: Status
    right: Sequence[str]
    """The score, and its limit."""
    speed: Sequence[str]
    """The throughput, and its load point."""
    cost: Sequence[str]


@dataclass(frozen=True)
class Answer:
    """The answer for a model on one kind of machine."""

    model: str
    where: str
    choices: Sequence[DeployOption]
    """The fastest correct options, several if no difference in speed is shown; empty if the fastest is
    unknown."""
    remarks: str
    """What the answer lacks."""
    wrong: Sequence[tuple[str, Status]]
    """The cases not proven to be right, by name."""


def answers(records: Sequence[Publishable]) -> list[Answer]:
    """An answer for each model and kind of machine, in the order of the records."""
    rank_by_name = ranks(records)
    return [_answer(group, rank_by_name) for group in grouped(ranked(records), group_of).values()]


def _answer(group: Sequence[Publishable], rank_by_name: Mapping[str, int]) -> Answer:
    case = group[0].case
    usable = [record for record in group if record.loads]
    right = [record for record in group if not record.no_speed]
    in_turns = [record for record in usable if name_of(record) in rank_by_name]
    choices, remarks = [record for record in in_turns if rank_by_name[name_of(record)] == 1], ""
    if len(usable) == 1:
        choices = usable
    elif len(in_turns) < 2:
        choices = []
    if len(usable) > 1 and not choices:
        remarks = (
            f"{len(usable)} configurations are right. Which is the fastest is not known, as they were not "
            "measured in turns with one reference format: run the efficiency tests of all of them."
        )
    elif 1 < len(in_turns) < len(usable):
        remarks = f"{len(usable) - len(in_turns)} more are right, and were not measured in turns with these."
    elif right and not usable:
        remarks = f"The speed of none was measured; {len(right)} of {len(group)} showed no wrong answers."
    elif not usable:
        remarks = "None is proven to be right."
    return Answer(
        case.model,
        ", ".join(filter(None, (case.target, several_gpus(case)))),
        [_choice(record, len(choices), len(usable), group) for record in choices],
        remarks,
        [(name_of(record), status_of(record)) for record in group if record.no_speed],
    )


def _choice(record: Publishable, equal: int, usable: int, group: Sequence[Publishable]) -> DeployOption:
    best, score = best_load(record), main_score(record)
    right = [unscored(record)]
    if score is not None:
        right = [f"{score.metric} {metric_text(score, score.served)}", tightest_text(score)]
    return DeployOption(
        name_of(record),
        format_name(record),
        _why(record, equal, usable, group),
        status_of(record),
        list(filter(None, right)),
        _speed(best) if best else [],
        _cost(record, best) if best else [],
    )


def _why(record: Publishable, equal: int, usable: int, group: Sequence[Publishable]) -> str:
    if usable == 1:
        return "the only one with a speed to show"
    beside = reference(record)
    if beside is not None and beside.reference == case_id(record.case):
        return "no other is shown to be faster"
    remark = f"; not shown to be faster or slower than the other{'s' * (equal > 2)}" if equal > 1 else ""
    return beside_reference(record, group) + remark


def _speed(best: Load) -> list[str]:
    latency = best.latency_ms.get("p99")
    return [
        THROUGHPUT.text_with_half_width(best.throughput_per_s),
        full_point(best) + (f", p99 {LATENCY.text(latency.value)}" if latency else ""),
    ]


def _cost(record: Publishable, best: Load) -> list[str]:
    """Money, energy, and the share of the speed in process that serving leaves, each if known."""
    price = cost(record, best)
    energy = best.gpu.energy_j_per_1000 if best.gpu else None
    lines = [f"{COST.cell(price.per_million)} per million {price.of}"] if price else []
    lines += [f"{ENERGY.text(energy)} per 1,000 inferences"] if energy is not None else []
    for efficiency in record.efficiency[:1]:
        share, bracket, interval = SHARE_OF_SPEED.text_with_interval(efficiency.ratio).partition(" (")
        lines += [f"{share} of the speed in process", *([f"({interval}"] if bracket else [])]
    return lines


_TEMPLATES = Path(__file__).parent
_CHOICES = ("target", "model", "format", "precision")


def page(sections: Sequence[Mapping[str, Any]]) -> str:
    """The page of these cases, each as `reports.page.case_section.section_of` returns it."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["html"] = lambda blocks, level=3: Markup(html(blocks, level))
    style, script = ((_TEMPLATES / name).read_text("utf-8") for name in ("page.css", "page.js"))
    records: list[Publishable] = [section["record"] for section in sections]
    table = summary_table(records)
    by_machine = grouped(records, lambda record: machine_text(record.machine))
    return environment.get_template("page.html").render(
        style=Markup(style),
        script=Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        answers=answers(records),
        is_priced=any(record.price_per_hour is not None for record in records),
        devices=dict.fromkeys(f"{record.case.target} ({kind_of_device(record)})" for record in records),
        choices={name: sorted({getattr(record.case, name) for record in records}) for name in _CHOICES},
        table=table,
        in_name=("Model", "Precision"),  # the name of a case says these
        zip=zip,
        shares=_shares(records),
        speed=THROUGHPUT,
        statuses=collections.Counter(section["status"].word for section in sections),
        sections={section["name"]: section for section in sections},
        below=[_BAR, *below(table)],
        machines=[block for group in by_machine.values() for block in machine_blocks(group)],
    )


_BAR = "The bar behind a speed is its part of the fastest of the same model on the same hardware."


def _shares(records: Sequence[Publishable]) -> dict[str, float]:
    """The best throughput of each case over the best of its model on the same hardware, in percent."""
    shares: dict[str, float] = {}
    for group in grouped(records, group_of).values():
        speeds = {
            name_of(record): best.throughput_per_s.value for record in group if (best := best_load(record))
        }
        shares |= {name: 100 * speed / (max(speeds.values()) or 1) for name, speed in speeds.items()}
    return shares
