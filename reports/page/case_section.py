"""What the HTML page shows of a case: tables and sentences, its curve, its worst samples, and its files."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reports import plots
from reports.page.details import accuracy_blocks, intervals_blocks, origin_blocks
from reports.published.comparison import legend, section
from reports.published.matching import match
from reports.record import files, per_sample, safe_open
from reports.record.per_sample import Sample, SampleScores
from reports.record.sanitize import visible
from reports.record.schema import Accuracy
from reports.tables.against import against_section
from reports.tables.case import scenario_section, soak_section
from reports.tables.points import efficiency_section
from reports.tables.table import Block
from reports.text.correctness import main_score, metric_text, unmeasured
from reports.text.publishable import Publishable, name_of
from reports.text.search import search_paragraph

_LARGEST_CONFIG_BYTES = 2**20  # those of this suite are below 4 KiB
_FEWEST_POINTS = 3
"""A curve of fewer load points shows no more than their table."""


class Status(NamedTuple):
    """Whether a case is right, in two words."""

    level: Literal["good", "care", "bad"]
    word: str
    why: str = ""
    """A sentence; empty if the case has passed."""


def section_of(record: Publishable, results: Path) -> dict[str, Any]:
    """What the template shows of a case; raises RecordError if a file beside its record is damaged."""
    search = record.search
    return {
        "record": record,
        "name": name_of(record),
        "status": status_of(record),
        "accuracy": accuracy_blocks(record),
        "worst": _worst(per_sample.of_record(record, results), record.accuracy),
        "scenarios": [
            (scenario_section(record, one), intervals_blocks(record, one)) for one in ("offline", "online")
        ],
        "curve": _curve(record),
        "efficiency": efficiency_section(record),
        "search": search_paragraph(record),
        "worst_of_search": search and _worst(per_sample.of_search(record, results), search.accuracy),
        "soak": soak_section(record),
        "against": against_section(record),
        "published": _published(record),
        "configs": _configs(record, results),
        "origin": origin_blocks(record),
    }


def status_of(record: Publishable) -> Status:
    if record.search is not None and record.accuracy is None and not (record.loads or record.hidden):
        return Status("care", "search only", "Nothing but a search was measured; what it found stands below.")
    if record.no_speed:
        return Status("bad", "not proven", record.no_speed)
    if main_score(record) is not None:
        return Status("good", "passed")
    if record.build.as_found:
        return Status("good", "same answers", "No labels say what the answers should be.")
    return Status("care", "accuracy not measured", f"{unmeasured(record)}. The conversion holds.")


def _curve(record: Publishable) -> tuple[str, str] | None:
    """Latency over throughput: the picture as a data URL, so that the SVG loads and runs nothing and shares
    no ids with the page, and its alternative text."""
    if sum(load.scenario == "online" for load in record.loads) < _FEWEST_POINTS:
        return None
    chart = plots.chart("throughput-latency", [record])
    data = base64.b64encode(plots.draw_for_both(chart)).decode()
    return f"data:image/svg+xml;base64,{data}", chart.alternative


def _worst(found: SampleScores | None, accuracy: Accuracy | None) -> list[tuple[Sample, str]] | None:
    if found is None or accuracy is None:
        return None
    places = {name: place for place, name in enumerate(found.ids)}
    worst = [(one, places.get(one.id)) for one in found.worst]
    return [(one, "" if place is None else _scores(found, accuracy, place)) for one, place in worst]


def _scores(found: SampleScores, accuracy: Accuracy, place: int) -> str:
    """`F1: framework 100 %, converted 100 %, served 40 %` of each metric, or one value if all are equal."""
    parts = []
    for score in accuracy.scores:
        stages = found.scores.get(score.metric, {})
        shown = {stage: metric_text(score, values[place]) for stage, values in stages.items()}
        each = ", ".join(f"{stage} {value}" for stage, value in shown.items())
        alike = set(shown.values())
        parts.append(f"{score.metric}: {each}" if len(alike) > 1 else f"{score.metric} {''.join(alike)}")
    return "; ".join(parts)


def _published(record: Publishable) -> Sequence[Block]:
    found = match(record)
    return [*section(found), legend([found])] if found.rows else [found.missing]


def _configs(record: Publishable, results: Path) -> list[tuple[str, str]]:
    """Title and text of those configurations of the case and a search's winner that lie beside the record."""
    path = files.path_of(record.case, results)
    wanted = [(path.with_suffix(files.CONFIG_SUFFIX), "config.pbtxt; offline it lacks dynamic_batching")]
    if record.search:  # which names the file, but never has another one shown
        wanted.append((path.parent / files.config_of_search(path), "config.pbtxt of the search's winner"))
    texts = [(title, _read(file, path.parent)) for file, title in wanted]
    return [(title, text) for title, text in texts if text is not None]


def _read(file: Path, folder: Path) -> str | None:
    try:
        return visible(safe_open.content(file, folder, _LARGEST_CONFIG_BYTES).decode())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise files.RecordError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        why = f"not UTF-8 text ({error.reason}). Delete it and measure the case again."
        raise files.RecordError(f"{file}: {why}") from error
