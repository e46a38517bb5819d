"""The summary of a target, a row per case: is it right, and how fast is it at its best."""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tritonproof.record import Record, correctness, setup, speed
from tritonproof.record.quantities import COST, COUNT, LATENCY, METRICS, RATIO, THROUGHPUT
from tritonproof.reports import correctness_text, derived, phrases, speed_text
from tritonproof.reports.nvidia_readmes import nvidia_ratio
from tritonproof.reports.publishable import Publishable
from tritonproof.reports.tables.points import cost_cell, price_sentence
from tritonproof.reports.tables.rendering import Formatted, markdown_text
from tritonproof.reports.tables.table import Block, Bullets, Cell, Column, Heading, Table, cell_of, table


def summary(records: Sequence[Publishable]) -> list[Block]:
    """A table for each target with a row for each case, and notes on columns, servers and what needs care."""
    blocks: list[Block] = []
    for target, group in phrases.grouped(records, lambda record: record.case.target).items():
        devices = " or ".join(dict.fromkeys(map(phrases.kind_of_device, group)))
        blocks += [Heading(f"Target `{target}`, {devices}", 4), summary_table(group)]
    return blocks if len(blocks) > 2 else blocks[1:]


def summary_table(of_target: Sequence[Publishable]) -> Table:
    records = derived.ranked(of_target)
    searches = ((case.name, speed_text.search_paragraph(case)) for case in records)
    notes = [
        *(f"`{name}`: {paragraph}" for name, paragraph in searches if paragraph),
        price_sentence([record for record in records if record.points]),
        *serving_blocks(records),
    ]
    return table(summary_columns(records), records, marks=_marks, notes=notes)


def summary_columns(records: Sequence[Publishable]) -> Sequence[Column[Publishable]]:
    """The columns with their meanings for these cases. Add a line here for a new column."""
    optional = functools.partial(Column[Publishable], is_optional=True)
    results = [best for record in records if (best := derived.fastest_point(record))]
    levels, ranks = phrases.confidence_levels(results), derived.ranks(records)
    references = " or ".join(derived.reference_names(records))
    unbounded = ""
    if any(result.latency_ms["p99"].open_above for result in results if "p99" in result.latency_ms):
        unbounded = "; + marks too few requests for an upper bound"
    return (
        Column("Model", lambda record: record.case.model, narrow="Model"),
        Column("Format", phrases.format_text, narrow="Format"),
        Column("Precision", lambda record: record.case.precision.upper() or None, narrow=""),
        Column("Accuracy", _accuracy, narrow="Accuracy"),
        optional("Limit", _limit),
        optional(
            "Inferences/second",
            _at_best(lambda _record, result: result.throughput_per_s),
            THROUGHPUT,
            "half width",
            narrow="Infer/s",
            meaning=f"the best of a case's load points, ± half the width of its {levels} confidence interval",
        ),
        optional(
            "At",
            _at_best(lambda _record, result: phrases.point_text(result.point)),
            meaning="the load point: a batch size (offline), or a concurrency or request rate (online)",
        ),
        optional(
            "P99 (ms)", _at_best(_p99), LATENCY, narrow="p99, ms", meaning=f"the latency there{unbounded}"
        ),
        optional(
            "Rank",
            lambda record: ranks.get(record.name),
            COUNT,
            narrow="#",
            meaning="1 plus the number of the model's formats here that are shown to be faster; formats "
            "whose intervals overlap share a rank",
        ),
        optional(
            "Ratio to reference",
            _to_reference,
            RATIO,
            meaning=f"throughput divided by that of {references} of the same model, each at its "
            "best load point, measured in turns; in brackets the 95 % interval",
        ),
        optional(
            "Ratio to published",
            _at_best(nvidia_ratio),
            RATIO,
            meaning="throughput divided by NVIDIA's figure for the same GPU, format, precision and "
            "load point; the report `published` says what else differs",
        ),
        optional(
            "Ratio to in process",
            lambda record: measured.ratio if (measured := derived.efficiency_at_fastest(record)) else None,
            RATIO,
            "interval",
            meaning="throughput divided by that of the same artifact without a server, measured "
            "in turns; in brackets the 95 % interval",
        ),
        optional("Cost per million correct", _at_best(cost_cell), COST),
    )


def _at_best(take: Callable[[Publishable, speed.PointResult], Any]) -> Callable[[Publishable], Any]:
    """What a column takes of a case and its fastest load point; None if the case may show no point."""
    return lambda record: take(record, best) if (best := derived.fastest_point(record)) else None


def _p99(_record: Publishable, result: speed.PointResult) -> Cell:
    p99 = result.latency_ms.get("p99")
    cell = cell_of(LATENCY, p99)
    return cell._replace(text=f"{cell.text}+") if p99 and p99.open_above else cell


def _score_cell(score: correctness.Score, value: float, before: str) -> Cell:
    text = correctness_text.metric_text(score, value)
    return Cell(f"{before}{text}", cell_of(METRICS[score.better], value).value)


def _accuracy(record: Publishable) -> Cell:
    if (score := record.main_score) is None:
        return Cell(correctness_text.missing_score(record))
    return _score_cell(score, score.served, f"{score.metric} ")


def _limit(record: Publishable) -> Cell | None:
    score = record.main_score
    if score is None or (limit := score.tightest_limit) is None:
        return None
    return _score_cell(score, limit.value, "≤ " if score.better == "lower" else "")


def _to_reference(record: Publishable) -> Cell | None:
    compared = derived.reference_comparison(record)
    if compared is None:
        return None
    cell = cell_of(RATIO, compared.ratio, "interval")
    return Cell("reference", cell.value) if compared.case_id == record.name else cell


def _marks(record: Publishable) -> list[speed.Mark]:
    """What a reader should know of a case beyond its cells. A sentence is a mark that is its own code."""
    sentences = []
    if record.why_no_speed and (record.hidden or record.is_wrong or not record.search):
        sentences.append(record.why_no_speed)
    if record.main_score is None and record.build.has_random_weights:
        sentences.append(f"{correctness_text.no_score_text(record)}.")
    sentences += filter(None, [correctness_text.unmeasured_text(record), speed_text.version_note(record)])
    measured = derived.fastest_point(record), derived.efficiency_at_fastest(record)
    marks = itertools.chain(*(result.marks for result in measured if result is not None))
    return [*(speed.Mark(remark, remark) for remark in sentences), *marks]


def machine_blocks(records: Sequence[Record]) -> list[Block]:
    """The machine, for each case if there are several, the GPUs, and the runs of the records."""
    several = "Measured on more than one machine or set of versions:"
    machines = phrases.grouped(records, lambda record: _machine_text(record.machine))
    blocks: list[Block] = [*_by_case(machines, "Measured on ", several)]
    if uuids := dict.fromkeys(uuid for record in records for uuid in record.machine.gpu_uuids):
        blocks.append(f"GPUs used: {', '.join(uuids)}.")
    if origins := phrases.measured_text(records):
        preposition = "at " if origins.startswith("commit") else ""  # no host precedes it
        blocks.append(f"Measured {preposition}{origins}.")
    return blocks


def serving_blocks(records: Sequence[Record]) -> list[str | Bullets]:
    """The server and the backend that answered, for each case if there are several."""
    servers = phrases.grouped(records, lambda record: _serving(record.serving))
    return _by_case(servers, "", "Served in more than one way:")


def _by_case(groups: Mapping[str, Sequence[Record]], one: str, several: str) -> list[str | Bullets]:
    """The statement that is true of all cases, or each statement after the names of its cases."""
    if len(groups) == 1:
        return [phrases.sentence(one + next(iter(groups)))]
    lines = []
    for statement, group in groups.items():
        names = ", ".join(f"`{record.name}`" for record in group)
        lines.append(Formatted(f"{names}: {markdown_text(statement)}."))
    return [several, Bullets(lines)]


def _machine_text(machine: setup.Machine) -> str:
    gpu = f"{machine.gpu} (driver {machine.gpu_driver}), " if machine.gpu else ""
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    elsewhere = "a server elsewhere, asked from " if machine.is_client else ""
    cpu = f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB memory"
    return "; ".join(filter(None, (f"{elsewhere}{gpu}{cpu}", machine.system, versions)))


def _serving(serving: setup.Serving | None) -> str:
    if serving is None:
        return "not served yet"
    digest = f"@{serving.image_digest}" if serving.image_digest else ""
    image = f", {serving.image}{digest}" if serving.image else ""
    server = f"{phrases.server_name(serving.triton)} ({serving.kind}{image})"
    versions = ", ".join(f"{name} {version}" for name, version in serving.versions.items())
    in_server = f"; in the server {versions}" if versions else ""
    return f"served by {server}, {serving.backend} backend{in_server}"
