"""All records as one HTML page, which needs no network and no other file."""

import base64
import collections
import contextlib
import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tritonproof.base import disk
from tritonproof.base.sanitize import visible
from tritonproof.record import record_files, sample_files
from tritonproof.record.correctness import Ledger
from tritonproof.record.quantities import DURATION, SIZE
from tritonproof.record.sample_files import Sample, SampleScores
from tritonproof.reports import derived, plots
from tritonproof.reports.correctness_text import metric_text, no_score_text, unmeasured_text
from tritonproof.reports.nvidia_readmes import why_no_nvidia_rows
from tritonproof.reports.phrases import grouped, kind_of_device
from tritonproof.reports.publishable import Publishable
from tritonproof.reports.tables.case import accuracy_blocks, scenario_section, sections_beside_points
from tritonproof.reports.tables.nvidia_readmes import nvidia_legend, nvidia_section
from tritonproof.reports.tables.rendering import html, notes_below
from tritonproof.reports.tables.summary import machine_blocks, serving_blocks, summary, summary_table
from tritonproof.reports.tables.table import Block, Table


class Status(NamedTuple):
    """Whether a case is right, in two words."""

    level: Literal["good", "care", "bad"]
    word: str
    why: str = ""
    """The reason, a sentence; empty if the case has passed."""


def status_of(record: Publishable) -> Status:
    """What a record shows of its case, in a word with a colour and a sentence."""
    is_searched = record.search is not None and not (record.accuracy or record.points or record.hidden)
    unmeasured = unmeasured_text(record)
    if is_searched and not record.is_wrong:
        why = "Nothing but a search was measured; what it found stands below."
        return Status("care", "search only", f"{why} {unmeasured}".strip())
    if record.why_no_speed:
        return Status("bad", "not proven", f"{record.why_no_speed} {unmeasured}".strip())
    if unmeasured:
        return Status("care", "not all measured", unmeasured)
    if record.main_score is not None:
        return Status("good", "passed")
    if record.case.from_repository:
        answers = [result.answers_under_load for result in record.results_under_load]
        if any(gate.has_compared for gate in record.gates) or any(part and part.count for part in answers):
            return Status("good", "same answers", "No labels say what the answers should be.")
        return Status("care", "not measured", "No answers were compared.")
    why = f"{no_score_text(record)}. The conversion holds."
    return Status("care", "accuracy not measured", why)


def fastest(records: Sequence[Publishable]) -> list[Publishable]:
    """The right cases for which no other format of the model on that hardware is shown to be faster."""
    rank_by_name = derived.ranks(records)
    with_speed = grouped((record for record in records if record.points), derived.rank_group)
    return [
        record
        for group in with_speed.values()
        for record in group
        if len(group) == 1 or rank_by_name.get(record.name) == 1
    ]


def section_of(record: Publishable, path: Path) -> dict[str, Any]:
    """The template's variables for the record at `path`. Raises RecordError if its file of samples is
    damaged, OSError if a configuration cannot be read."""
    why_no_rows = why_no_nvidia_rows(record)
    published = [why_no_rows] if why_no_rows else [*nvidia_section(record), nvidia_legend([record])]
    build = record.build
    built = "Not built"
    if build.digest:
        size = f"{SIZE.text(build.size_mib)}, digest {build.digest}"
        built = f"Built in {DURATION.text(build.build_time_s)}: {size}; weights: {build.weights_source}"
    origin = f"{built}. The record was last changed at {record.updated or 'unknown'}."
    return {
        "record": record,
        "name": record.name,
        "status": status_of(record),
        "accuracy": accuracy_blocks(record),
        "worst": _worst(sample_files.scores_of(record, path), record.accuracy),
        "scenarios": [scenario_section(record, scenario) for scenario in ("offline", "online")],
        "curve": _curve(record),
        "beside_points": sections_beside_points(record),
        "published": published,
        "configs": _configs(record, path),
        "origin": [*machine_blocks([record]), *serving_blocks([record]), origin],
    }


def _curve(record: Publishable) -> tuple[str, str] | None:
    """The picture of latency over throughput as a data URL, in which the SVG loads and runs nothing and
    shares no ids with the page; and its alternative text. None if there is nothing to show."""
    try:
        chart = plots.throughput_latency([record])
    except plots.NothingToShowError:
        return None
    data = base64.b64encode(plots.draw_for_both(chart)).decode()
    return f"data:image/svg+xml;base64,{data}", chart.alternative


def _worst(samples: SampleScores | None, accuracy: Ledger | None) -> list[tuple[Sample, str]] | None:
    """The worst samples, each with its scores: `F1: framework 100 %, converted 100 %, served 40 %`."""
    if samples is None or accuracy is None:
        return None
    row_of = {name: row for row, name in enumerate(samples.ids)}
    worst = []
    for sample in samples.worst:
        parts = []
        for score in accuracy.scores:
            stages = samples.scores.get(score.metric, {}).items()
            if stages and sample.id in row_of:
                row = row_of[sample.id]
                texts = (f"{stage} {metric_text(score, scores[row])}" for stage, scores in stages)
                parts.append(f"{score.metric}: {', '.join(texts)}")
        worst.append((sample, "; ".join(parts)))
    return worst


def _configs(record: Publishable, path: Path) -> list[tuple[str, str]]:
    """The title and the text of each configuration beside the record: the case's, and a search winner's."""
    remark = "" if record.case.from_repository else "; offline it lacks dynamic_batching"
    configs = [(path.with_suffix(record_files.CONFIG_SUFFIX), f"config.pbtxt{remark}")]
    if record.search:  # the path comes from the record's own path, so a record cannot show another file
        config = path.parent / record_files.config_of_search(path)
        configs.append((config, "config.pbtxt of the search's winner"))
    texts = []
    for file, title in configs:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            texts.append((title, disk.content(file, path.parent).decode(errors="replace")))
    return texts


_TEMPLATES = Path(__file__).parent
_CHOICES = ("target", "model", "format", "precision")


def _without_legend(block: Block) -> Block:
    """The block; a table of the fastest cases without its legend and notes, which the summary also has."""
    if not isinstance(block, Table):
        return block
    columns = [dataclasses.replace(column, meaning="") for column in block.columns]
    return dataclasses.replace(block, columns=columns, notes=())


def page(sections: Sequence[Mapping[str, Any]]) -> str:
    """The page of these cases, each as `section_of` returns it."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,  # Markup is rendered already
    )
    environment.filters["html"] = lambda blocks, level=3: Markup(html(blocks, level))
    style, script = ((_TEMPLATES / name).read_text("utf-8") for name in ("page.css", "page.js"))
    records: list[Publishable] = [section["record"] for section in sections]
    all_cases = summary_table(records)
    return environment.get_template("page.html").render(
        style=Markup(style),
        script=Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        fastest=[_without_legend(block) for block in summary(fastest(records))],
        devices=dict.fromkeys(f"{record.case.target} ({kind_of_device(record)})" for record in records),
        choices={name: sorted({getattr(record.case, name) for record in records}) for name in _CHOICES},
        table=all_cases,
        names=[record.name for record in derived.ranked(records)],
        in_name=("Model", "Precision"),  # the name of a case says these
        zip=zip,
        statuses=collections.Counter(section["status"].word for section in sections),
        sections={section["name"]: section for section in sections},
        notes_below=notes_below(all_cases),
        machines=machine_blocks(records),
    )
