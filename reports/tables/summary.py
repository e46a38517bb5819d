"""The summary of a target, a row per case: is it right, and how fast is it at its best."""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reports.published.matching import published_ratio
from reports.record.quantities import LATENCY, METRICS, RATIO, THROUGHPUT
from reports.record.schema import Efficiency, Estimate, Load, Machine, Mark, Record, Score, Serving, case_id
from reports.tables.points import Point, cost_cell, price_sentence
from reports.tables.table import Block, Bullets, Cell, Column, Table, figure, table
from reports.text import correctness
from reports.text.inline import as_is, text
from reports.text.labels import (
    confidence_levels,
    format_text,
    grouped,
    kind_of_device,
    measured_text,
    point,
    sentence,
    server_name,
    size,
)
from reports.text.publishable import Publishable, name_of
from reports.text.search import search_paragraph
from reports.text.speed import best_load, ranked, ranks, reference, reference_names, version_note


class Best(NamedTuple):
    """A case, its score, and its fastest load point; None if it has none that may be shown."""

    record: Publishable
    score: Score | None
    load: Load | None
    rank: int | None


def summary(records: Sequence[Publishable]) -> list[Block]:
    """A table per target, one row per case, with notes on its columns, its servers and what needs care."""
    targets = grouped(records, lambda record: record.case.target)
    if len(targets) == 1:
        return [summary_table(records)]
    blocks: list[Block] = []
    for target, group in targets.items():
        blocks += [f"Target `{target}`, {kind_of_device(group[0])}:", summary_table(group)]
    return blocks


def summary_table(of_target: Sequence[Publishable]) -> Table:
    records = ranked(of_target)
    placed = ranks(records)
    found = [
        Best(one, correctness.main_score(one), best_load(one), placed.get(name_of(one))) for one in records
    ]
    searches = ((name_of(one), search_paragraph(one)) for one in records)
    is_priced = any(cost_cell(Point(one.record, one.load)).value for one in found if one.load)
    notes = [
        *(f"`{case}`: {paragraph}" for case, paragraph in searches if paragraph),
        price_sentence(records) if is_priced else "",
        *serving_blocks(records),
    ]
    columns = summary_columns(found)
    return table(columns, found, name=lambda one: name_of(one.record), marks=_marks, notes=notes)


def summary_columns(found: Sequence[Best]) -> Sequence[Column[Best]]:
    """The columns with what they mean for these cases. A new column is a line here."""
    loads = [one.load for one in found if one.load]
    unbounded = ""
    if any(load.latency_ms["p99"].open_above for load in loads if "p99" in load.latency_ms):
        unbounded = f", with a {_OPEN} where the requests were too few for an upper bound of it"
    levels = confidence_levels(loads)
    best = f"the best of a case's load points, ± half the width of its {levels} confidence interval"
    records = [one.record for one in found]
    names = " or ".join(reference_names(records, records))
    turns = f"over {names} of the same model, each at its best, measured in turns, with its 95 % interval"
    optional = functools.partial(Column[Best], is_optional=True)
    return (
        Column("Model", lambda one: one.record.case.model, narrow="Model"),
        Column("Format", lambda one: format_text(one.record), narrow="Format"),
        Column("Precision", lambda one: one.record.case.precision.upper(), narrow=""),
        Column("Accuracy", _accuracy, narrow="Accuracy"),
        optional("Floor", _floor),
        optional("Inferences/second", _rate, THROUGHPUT, "half width", narrow="Infer/s", meaning=best),
        optional("At", _at, meaning="a batch is of the offline scenario, a concurrency of the online one"),
        optional("P99 (ms)", _p99, LATENCY, narrow="p99, ms", meaning=f"the latency there{unbounded}"),
        optional("Rank", _rank, is_right=True, narrow="#", meaning=_RANK),
        optional("Ratio to reference", _to_reference, RATIO, meaning=turns),
        optional("Ratio to published", _to_published, RATIO, meaning=_TO_PUBLISHED),
        optional("Ratio to in process", _to_in_process, RATIO, meaning=_TO_IN_PROCESS),
        optional("Cost per million correct", _cost, is_right=True),
    )


_RANK = (
    "one more than how many formats of the model are shown to be faster; those whose intervals meet share it"
)
_TO_PUBLISHED = (
    "over NVIDIA's figure for the same GPU, format, precision and load point; the report `published` says "
    "what else differs"
)
_TO_IN_PROCESS = "over the same artifact without a server, measured in turns, with its 95 % interval"
_OPEN = "+"
"""The sign of a p99 latency whose interval is open above."""


def _accuracy(one: Best) -> Cell:
    if one.score is None:
        return Cell(correctness.unscored(one.record))
    value = figure(METRICS[one.score.better], one.score.served).value
    return Cell(f"{one.score.metric} {correctness.metric_text(one.score, one.score.served)}", value)


def _floor(one: Best) -> Cell | None:
    limit = correctness.tightest(one.score) if one.score else None
    if one.score is None or limit is None:
        return None
    said = "≤ " if one.score.better == "lower" else ""
    value = figure(METRICS[one.score.better], limit.value).value
    return Cell(f"{said}{correctness.metric_text(one.score, limit.value)}", value)


def _rate(one: Best) -> Estimate | None:
    return one.load.throughput_per_s if one.load else None


def _at(one: Best) -> str | None:
    return point(one.load) if one.load else None


def _p99(one: Best) -> Cell | None:
    p99 = one.load.latency_ms.get("p99") if one.load else None
    if p99 is None:
        return None
    cell = figure(LATENCY, p99)
    return dataclasses.replace(cell, text=f"{cell.text}{_OPEN}") if p99.open_above else cell


def _rank(one: Best) -> Cell | None:
    return None if one.rank is None else Cell(str(one.rank), one.rank)


def _to_reference(one: Best) -> Cell | None:
    beside = reference(one.record)
    if beside is None:
        return None
    cell = figure(RATIO, beside.ratio, "interval")
    is_reference = beside.reference == case_id(one.record.case)
    return Cell("reference", cell.value) if is_reference else cell


def _to_published(one: Best) -> Estimate | None:
    return published_ratio(one.record, one.load) if one.load else None


def _where(at: Load | Efficiency) -> tuple[str, int, int]:
    return at.scenario, at.batch, at.concurrency


def _in_process(one: Best) -> Efficiency | None:
    """The comparison with the artifact in process at the case's best point, else at another."""
    if one.load is None:
        return None
    best = [at for at in one.record.efficiency if _where(at) == _where(one.load)]
    return next(iter((*best, *one.record.efficiency)), None)


def _to_in_process(one: Best) -> Cell | None:
    """The ratio, with the point if it is not the row's."""
    compared = _in_process(one)
    if compared is None or one.load is None:
        return None
    cell, where = figure(RATIO, compared.ratio, "interval"), _where(compared)
    return (
        cell if where == _where(one.load) else dataclasses.replace(cell, text=f"{cell.text}, {size(*where)}")
    )


def _cost(one: Best) -> Cell | None:
    return cost_cell(Point(one.record, one.load)) if one.load else None


def _marks(one: Best) -> list[Mark]:
    """What a reader should know about a case beyond its cells. A sentence is its own code."""
    record, sentences = one.record, []
    if record.no_speed and (record.hidden or not search_paragraph(record)):
        sentences.append(record.no_speed)
    if one.score is None and correctness.has_random_weights(record):
        sentences.append(f"{correctness.unmeasured(record)}.")
    sentences += filter(None, [version_note(record)])
    measured = [found.marks for found in (one.load, _in_process(one)) if found is not None]
    return [*(Mark(said, said) for said in sentences), *itertools.chain(*measured)]


# --- where cases were measured and who served them ---------------------------------------------------------


def machine_blocks(records: Sequence[Record]) -> list[Block]:
    """The machine, the GPUs and the runs that the records come from, by case if there were several."""
    stamps = grouped(records, lambda record: machine_text(record.machine))
    gpus = grouped(records, lambda record: tuple(record.machine.gpu_uuids))
    alone = f" Used was {_uuids(next(iter(gpus)))}." if len(gpus) == 1 and any(gpus) else ""
    blocks: list[Block]
    if len(stamps) == 1:
        blocks = [f"Measured on {next(iter(stamps))}.{alone}"]
    else:
        blocks = ["Measured on more than one machine or set of versions:", _by_case(stamps), alone.strip()]
    if any(gpus) and not alone:
        blocks += ["Used were:", _by_case({_uuids(uuids): group for uuids, group in gpus.items()})]
    if found := measured_text(records):
        at = "at " if found.startswith("commit") else ""  # as no host says where
        blocks.append(f"Measured {at}{found}.")
    return blocks


def serving_blocks(records: Sequence[Record]) -> list[str | Bullets]:
    """The server and backend that answered, by case if there were several."""
    servers = grouped(records, lambda record: _serving(record.serving))
    if len(servers) == 1:
        return [sentence(next(iter(servers)))]
    return ["Served in more than one way:", _by_case(servers)]


def _by_case(said: Mapping[str, Sequence[Record]]) -> Bullets:
    """A line for each thing that is said of some cases."""
    names = {what: ", ".join(f"`{name_of(one)}`" for one in cases) for what, cases in said.items()}
    return Bullets([as_is(f"{cases}: {text(what)}.") for what, cases in names.items()])


def _uuids(uuids: Sequence[str]) -> str:
    return ", ".join(uuids) or "a GPU that the record does not name, or none"


def machine_text(machine: Machine) -> str:
    gpu = f"{machine.gpu} (driver {machine.gpu_driver}), " if machine.gpu else ""
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    elsewhere = "a server elsewhere, asked from " if machine.is_client else ""
    cpu = f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB memory"
    return "; ".join(filter(None, (f"{elsewhere}{gpu}{cpu}", machine.system, versions)))


def _serving(serving: Serving | None) -> str:
    if serving is None:
        return "not served yet"
    digest = f"@{serving.image_digest}" if serving.image_digest else ""
    image = f", {serving.image}{digest}" if serving.image else ""
    versions = ", ".join(f"{name} {version}" for name, version in serving.versions.items())
    sentence = f"served by {server_name(serving.triton)} ({serving.kind}{image}), {serving.backend} backend"
    return f"{sentence}; in the server {versions}" if versions else sentence
