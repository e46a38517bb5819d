"""The start of the page: the configuration of each model to deploy, its accuracy, speed and cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.page.case_section import Status, status_of
from reports.record.quantities import COST, ENERGY, LATENCY, SHARE_OF_SPEED, THROUGHPUT
from reports.record.schema import Load, case_id
from reports.text.correctness import main_score, metric_text, tightest_text, unscored
from reports.text.labels import full_point, grouped, several_gpus
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
    """A configuration that may be deployed, as plain text; a sequence has a line for each item."""

    name: str
    format: str
    why: str
    """How its speed compares with that of others; empty if that is not known."""
    status: Status
    right: Sequence[str]
    """The score, and its limit."""
    speed: Sequence[str]
    """The throughput, and where it was reached."""
    cost: Sequence[str]


@dataclass(frozen=True)
class Answer:
    """What is known of a model on one kind of machine."""

    model: str
    where: str
    choices: Sequence[DeployOption]
    """The fastest right ones that are not told apart; empty if that is not known."""
    remarks: str
    """What the answer lacks."""
    wrong: Sequence[tuple[str, Status]]
    """The cases that are not proven to be right, by name."""


def answers(records: Sequence[Publishable]) -> list[Answer]:
    """An answer for each model and kind of machine, in the order of the records."""
    placed = ranks(records)
    return [_answer(group, placed) for group in grouped(ranked(records), group_of).values()]


def _answer(group: Sequence[Publishable], placed: Mapping[str, int]) -> Answer:
    case = group[0].case
    usable = [one for one in group if one.loads]
    right = [one for one in group if not one.no_speed]
    in_turns = [one for one in usable if name_of(one) in placed]
    choices, remarks = [one for one in in_turns if placed[name_of(one)] == 1], ""
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
        [_choice(one, len(choices), len(usable), group) for one in choices],
        remarks,
        [(name_of(one), status_of(one)) for one in group if one.no_speed],
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
    alike = f"; not shown to be faster or slower than the other{'s' * (equal > 2)}" if equal > 1 else ""
    return beside_reference(record, group) + alike


def _speed(best: Load) -> list[str]:
    latency = best.latency_ms.get("p99")
    return [
        THROUGHPUT.text_with_half_width(best.throughput_per_s),
        full_point(best) + (f", p99 {LATENCY.text(latency.value)}" if latency else ""),
    ]


def _cost(record: Publishable, best: Load) -> list[str]:
    """Money, energy, and the share of the speed in process that serving leaves, as far as they are known."""
    price = cost(record, best)
    energy = best.gpu.energy_j_per_1000 if best.gpu else None
    said = [f"{COST.cell(price.per_million)} per million {price.of}"] if price else []
    said += [f"{ENERGY.text(energy)} per 1,000 inferences"] if energy is not None else []
    for one in record.efficiency[:1]:
        share, bracket, interval = SHARE_OF_SPEED.text_with_interval(one.ratio).partition(" (")
        said += [f"{share} of the speed in process", *([f"({interval}"] if bracket else [])]
    return said
