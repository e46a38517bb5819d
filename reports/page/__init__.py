import base64
import collections
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reports import plots
from reports.published import match_published, published_legend, published_section
from reports.record import disk, files, per_sample
from reports.record.per_sample import Sample, SampleScores
from reports.record.quantities import (
    COST,
    COUNT,
    DURATION,
    ENERGY,
    LATENCY,
    RATIO,
    SHARE_OF_SPEED,
    SIZE,
    THROUGHPUT,
)
from reports.record.sanitize import visible
from reports.record.schema import Accuracy, Load, case_id
from reports.tables.case import accuracy_blocks, scenario_section, sections_beside_points
from reports.tables.points import points_of
from reports.tables.rendering import html, notes_below
from reports.tables.summary import machine_blocks, machine_text, serving_blocks, summary_table
from reports.tables.table import Column, table
from reports.text import speed
from reports.text.correctness import (
    main_score,
    metric_text,
    missing_score,
    missing_score_reason,
    tightest_text,
)
from reports.text.phrases import (
    confidence_levels,
    full_point_text,
    gpus_text,
    grouped,
    kind_of_device,
    point_text,
)
from reports.text.publishable import Publishable, name_of


class Status(NamedTuple):
    """Whether a case is right, in two words."""

    level: Literal["good", "care", "bad"]
    word: str
    why: str = ""
    """A sentence; empty if the case has passed."""


def status_of(record: Publishable) -> Status:
    if record.search is not None and record.accuracy is None and not (record.loads or record.hidden):
        return Status("care", "search only", "Nothing but a search was measured; what it found stands below.")
    if record.no_speed:
        return Status("bad", "not proven", record.no_speed)
    if main_score(record) is not None:
        return Status("good", "passed")
    if record.build.as_found:
        return Status("good", "same answers", "No labels say what the answers should be.")
    return Status("care", "accuracy not measured", f"{missing_score_reason(record)}. The conversion holds.")


# --- which configuration to deploy --------------------------------------------------------------------------


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
    rank_by_name = speed.ranks(records)
    return [
        _answer(group, rank_by_name) for group in grouped(speed.ranked(records), speed.rank_group).values()
    ]


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
        ", ".join(filter(None, (case.target, gpus_text(case)))),
        [_choice(record, len(choices), len(usable), group) for record in choices],
        remarks,
        [(name_of(record), status_of(record)) for record in group if record.no_speed],
    )


def _choice(record: Publishable, equal: int, usable: int, group: Sequence[Publishable]) -> DeployOption:
    best, score = speed.best_load(record), main_score(record)
    right, fast = [missing_score(record)], []
    if score is not None:
        right = [f"{score.metric} {metric_text(score, score.served)}", tightest_text(score)]
    if best is not None:
        p99 = best.latency_ms.get("p99")
        fast = [
            THROUGHPUT.text_with_half_width(best.throughput_per_s),
            full_point_text(best) + (f", p99 {LATENCY.text(p99.value)}" if p99 else ""),
        ]
    return DeployOption(
        name_of(record),
        speed.format_name(record),
        _why(record, equal, usable, group),
        status_of(record),
        list(filter(None, right)),
        fast,
        _cost(record, best) if best else [],
    )


def _why(record: Publishable, equal: int, usable: int, group: Sequence[Publishable]) -> str:
    if usable == 1:
        return "the only one with a speed to show"
    beside = speed.format_comparison(record)
    if beside is not None and beside.reference == case_id(record.case):
        return "no other is shown to be faster"
    compared = ""
    if beside is not None:
        (name,) = speed.reference_names([record], group)
        compared = f"{RATIO.cell_with_interval(beside.ratio)} times as fast as {name}"
    remark = f"; not shown to be faster or slower than the other{'s' * (equal > 2)}" if equal > 1 else ""
    return compared + remark


def _cost(record: Publishable, best: Load) -> list[str]:
    """Money, energy, and the share of the speed in process that serving leaves, each if known."""
    cost = speed.cost_per_million(record, best)
    energy = best.gpu.energy_j_per_1000 if best.gpu else None
    lines = [f"{COST.cell(cost.amount)} per million {cost.of_what}"] if cost else []
    lines += [f"{ENERGY.text(energy)} per 1,000 inferences"] if energy is not None else []
    for efficiency in record.efficiency[:1]:
        share, bracket, interval = SHARE_OF_SPEED.text_with_interval(efficiency.ratio).partition(" (")
        lines += [f"{share} of the speed in process", *([f"({interval}"] if bracket else [])]
    return lines


# --- the section of a case ---------------------------------------------------------------------------------

_LARGEST_CONFIG_BYTES = 2**20  # this suite's are below 4 KiB
_FEWEST_POINTS = 3
"""A curve of fewer load points shows no more than their table."""


def _latency(name: str) -> Column[Load]:
    title = f"{name.capitalize()} (ms)"
    return Column(title, lambda load: load.latency_ms.get(name), LATENCY, "interval")


_INTERVALS: Sequence[Column[Load]] = (
    Column("Load point", point_text),
    Column("Inferences/second", lambda load: load.throughput_per_s, THROUGHPUT, "interval"),
    *map(_latency, ("avg", "p50", "p90", "p95", "p99")),
    Column("Requests", lambda load: load.requests, COUNT),
    Column("Samples", lambda load: load.samples, COUNT),
    Column("Answers verified", lambda load: load.answers.verified if load.answers else None, COUNT),
    Column("Passes", lambda load: len(load.passes), COUNT),
    Column("Measured (s)", lambda load: load.duration_s, DURATION),
    Column("Warm-up (s)", lambda load: load.warm_up_s, DURATION),
)


def section_of(record: Publishable, results: Path) -> dict[str, Any]:
    """The template's variables for a case. Raises RecordError if a file beside its record is damaged."""
    build, published = record.build, match_published(record)
    scenarios = []
    for scenario in ("offline", "online"):
        loads = [load_point.load for load_point in points_of(record, scenario)]
        note = f"In brackets {confidence_levels(loads)} confidence intervals."
        intervals = [table(_INTERVALS, loads, notes=[note])] if loads else []
        scenarios.append((scenario_section(record, scenario), intervals))
    beside = (
        [*published_section(published), published_legend([published])]
        if published.rows
        else [published.missing]
    )
    origin = (
        f"Built in {DURATION.text(build.build_time_s)}: {SIZE.text(build.size_mib)} of {build.weights}, "
        f"digest {build.digest}. The record was last changed at {record.updated or 'unknown'}."
    )
    return {
        "record": record,
        "name": name_of(record),
        "status": status_of(record),
        "accuracy": accuracy_blocks(record),
        "worst": _worst(per_sample.record_samples(record, results), record.accuracy),
        "scenarios": scenarios,
        "curve": _curve(record),
        "beside_points": sections_beside_points(record),
        "published": beside,
        "configs": _configs(record, results),
        "origin": [*machine_blocks([record]), *serving_blocks([record]), origin],
    }


def _curve(record: Publishable) -> tuple[str, str] | None:
    """The picture of latency over throughput, and its alternative text. The picture is a data URL, in which
    the SVG loads and runs nothing and shares no ids with the page."""
    if sum(load.scenario == "online" for load in record.loads) < _FEWEST_POINTS:
        return None
    chart = plots.chart("throughput-latency", [record])
    data = base64.b64encode(plots.draw_for_both(chart)).decode()
    return f"data:image/svg+xml;base64,{data}", chart.alternative


def _worst(samples: SampleScores | None, accuracy: Accuracy | None) -> list[tuple[Sample, str]] | None:
    """The worst samples, each with its scores by metric, `F1: framework 100 %, converted 100 %, served 40 %`,
    or one value if all stages agree."""
    if samples is None or accuracy is None:
        return None
    places = {name: place for place, name in enumerate(samples.ids)}
    worst = []
    for sample in samples.worst:
        parts = []
        for score in accuracy.scores if sample.id in places else ():
            stages = samples.scores.get(score.metric, {})
            shown = {stage: metric_text(score, values[places[sample.id]]) for stage, values in stages.items()}
            alike = len(set(shown.values())) < 2
            listed = "".join({*shown.values()}) if alike else ", ".join(map(" ".join, shown.items()))
            parts.append(f"{score.metric} {listed}" if alike else f"{score.metric}: {listed}")
        worst.append((sample, "; ".join(parts)))
    return worst


def _configs(record: Publishable, results: Path) -> list[tuple[str, str]]:
    """Title and text of each configuration beside the record: the case's own, and that of a search's
    winner."""
    path = files.path_of(record.case, results)
    configs = [(path.with_suffix(files.CONFIG_SUFFIX), "config.pbtxt; offline it lacks dynamic_batching")]
    if record.search:  # the path comes from the record's own path, so a record cannot show another file
        configs.append((path.parent / files.config_of_search(path), "config.pbtxt of the search's winner"))
    texts = []
    for file, title in configs:
        try:
            content = disk.content(file, path.parent, _LARGEST_CONFIG_BYTES)
            texts.append((title, visible(content.decode(errors="replace"))))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise files.RecordError(f"{file}: cannot be read: {error.strerror}") from error
    return texts


# --- the page ----------------------------------------------------------------------------------------------

_TEMPLATES = Path(__file__).parent
_CHOICES = ("target", "model", "format", "precision")
_BAR = "The bar behind a speed is its part of the fastest of the same model on the same hardware."


def page(sections: Sequence[Mapping[str, Any]]) -> str:
    """The page of these cases, each as `section_of` returns it."""
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
    summary = summary_table(records)
    shares: dict[str, float] = {}
    for group in grouped(records, speed.rank_group).values():
        loads = {name_of(record): speed.best_load(record) for record in group}
        speeds = {name: best.throughput_per_s.value for name, best in loads.items() if best}
        shares |= {name: 100 * own / (max(speeds.values()) or 1) for name, own in speeds.items()}
    by_machine = grouped(records, lambda record: machine_text(record.machine))
    return environment.get_template("page.html").render(
        style=Markup(style),
        script=Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        answers=answers(records),
        is_priced=any(record.price_per_hour is not None for record in records),
        devices=dict.fromkeys(f"{record.case.target} ({kind_of_device(record)})" for record in records),
        choices={name: sorted({getattr(record.case, name) for record in records}) for name in _CHOICES},
        table=summary,
        in_name=("Model", "Precision"),  # the name of a case says these
        zip=zip,
        shares=shares,
        speed=THROUGHPUT,
        statuses=collections.Counter(section["status"].word for section in sections),
        sections={section["name"]: section for section in sections},
        notes_below=[_BAR, *notes_below(summary)],
        machines=[block for group in by_machine.values() for block in machine_blocks(group)],
    )
