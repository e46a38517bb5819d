"""What the HTML page shows of one case: markdown of the tables, plain text, pictures."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from reports import plots
from reports.page.interval_tables import accuracy_text, intervals_table, machine_table
from reports.plots import Chart
from reports.published.comparison import legend, section
from reports.published.matching import match
from reports.record import files, per_sample, safe_open
from reports.record.per_sample import Part, SampleScores
from reports.record.sanitize import visible
from reports.record.schema import Accuracy
from reports.tables.case import scenario_section, soak_section
from reports.tables.points import efficiency_section, points_of
from reports.tables.rendering import markdown
from reports.text.correctness import main_score, metric_text, unmeasured
from reports.text.inline import text
from reports.text.publishable import Publishable, name_of
from reports.text.search import search_paragraph

_LARGEST_CONFIG_BYTES = 2**20  # those of this suite are below 4 KiB


@dataclass(frozen=True)
class Status:
    """Whether a case is right, in two words."""

    level: Literal["good", "care", "bad"]
    word: str
    why: str
    """A sentence; empty where the case has passed."""


@dataclass(frozen=True)
class EmbeddedPicture:
    """A plot in both themes, as data URIs."""

    light: str
    dark: str
    alternative: str


@dataclass(frozen=True)
class WorstSample:
    """One of the worst samples with what it scored, as plain text."""

    id: str
    why: str
    scores: str
    pictures: Sequence[Part]
    texts: Sequence[Part]


@dataclass(frozen=True)
class ServedConfig:
    """A config.pbtxt, and what it is of."""

    title: str
    text: str


@dataclass(frozen=True)
class ScenarioTables:
    """The tables of a scenario, offline or online, as markdown."""

    tables: str
    intervals: str


@dataclass(frozen=True)
class CaseSection:
    """One case; what is a `str` is markdown, but for the name."""

    record: Publishable
    name: str
    status: Status
    accuracy: str
    worst: Sequence[WorstSample] | None
    """The worst samples of the ledger; None where there is no file of its samples."""
    scenarios: Sequence[ScenarioTables]
    pictures: Sequence[EmbeddedPicture]
    efficiency: str
    search: str
    worst_of_search: Sequence[WorstSample] | None
    soak: str
    published: str
    configs: Sequence[ServedConfig]
    machine: str


def check_files(record: Publishable, results: Path) -> None:
    """Raise RecordError where a file beside the record is damaged, which its section would show."""
    per_sample.of_record(record, results)
    per_sample.of_search(record, results)
    _configs(record, results)


def section_of(record: Publishable, results: Path) -> CaseSection:
    """All of one case; raises RecordError where a file beside its record is damaged."""
    return CaseSection(
        record=record,
        name=name_of(record),
        status=status_of(record),
        accuracy=accuracy_text(record),
        worst=_worst(per_sample.of_record(record, results), record.accuracy),
        scenarios=[_scenario(record, one) for one in ("offline", "online")],
        pictures=[
            picture(name, [record]) for name in plots.available([record]) if plots.PLOTS[name].of == "one"
        ],
        efficiency=markdown(efficiency_section(record)),
        search=text(search_paragraph(record)),
        worst_of_search=_worst(
            per_sample.of_search(record, results),
            record.search.accuracy if record.search else None,
        ),
        soak=markdown(soak_section(record)),
        published=_published(record),
        configs=_configs(record, results),
        machine=machine_table(record),
    )


def status_of(record: Publishable) -> Status:
    """Passed, passed but for an accuracy that random weights do not have, searched alone, or not proven."""
    if record.search is not None and record.accuracy is None and not (record.loads or record.hidden):
        return Status("care", "search only", "Nothing but a search was measured; what it found stands below.")
    if record.no_speed:
        return Status("bad", "not proven", record.no_speed)
    if record.build.as_found and main_score(record) is None:
        return Status("good", "same answers", "No labels say what the answers should be.")
    if main_score(record) is None:
        return Status("care", "accuracy not measured", f"{unmeasured(record)}. The conversion holds.")
    return Status("good", "passed", "")


def picture(name: str, records: Sequence[Publishable]) -> EmbeddedPicture:
    """A plot that `reports.plots.available` names."""
    return _embedded(plots.chart(name, records))


def _embedded(chart: Chart) -> EmbeddedPicture:
    light, dark = (plots.draw(chart, theme) for theme in plots.THEMES)
    return EmbeddedPicture(_uri(light), _uri(dark), chart.alternative)


def _uri(svg: bytes) -> str:
    """The address that holds an SVG itself. As a picture, an SVG loads nothing, runs nothing and shares no ids with the
    page."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"


def _scenario(record: Publishable, scenario: str) -> ScenarioTables:
    loads = [at.load for at in points_of(record, scenario)]
    return ScenarioTables(markdown(scenario_section(record, scenario)), intervals_table(loads))


def _worst(found: SampleScores | None, accuracy: Accuracy | None) -> list[WorstSample] | None:
    if found is None or accuracy is None:
        return None
    places = {name: place for place, name in enumerate(found.ids)}
    return [
        WorstSample(
            one.id,
            one.why,
            _scores(found, accuracy, places[one.id]) if one.id in places else "",
            [part for part in one.parts if part.kind == "image"],
            [part for part in one.parts if part.kind == "text"],
        )
        for one in found.worst
    ]


def _scores(found: SampleScores, accuracy: Accuracy, place: int) -> str:
    """`F1: framework 100 %, converted 100 %, served 40 %`, of each metric in the ledger; once where all are equal."""
    parts = []
    for score in accuracy.scores:
        stages = found.scores.get(score.metric, {})
        shown = {stage: metric_text(score, values[place]) for stage, values in stages.items()}
        each = ", ".join(f"{stage} {value}" for stage, value in shown.items())
        alike = set(shown.values())
        parts.append(f"{score.metric}: {each}" if len(alike) > 1 else f"{score.metric} {''.join(alike)}")
    return "; ".join(parts)


def _published(record: Publishable) -> str:
    found = match(record)
    if not found.rows:
        return text(found.missing)
    return markdown([*section(found), legend([found])])


def _configs(record: Publishable, results: Path) -> list[ServedConfig]:
    """The configurations of the case and of a search's winner, as far as they lie beside the record."""
    path = files.path_of(record.case, results)
    wanted = [(path.with_suffix(files.CONFIG_SUFFIX), "config.pbtxt; offline it lacks dynamic_batching")]
    if record.search and record.search.config:
        name = files.config_of_search(files.path_of(record.case, results))
        if record.search.config != name:
            raise files.RecordError(
                f"{path}: search.config: {record.search.config[:80]!r} is not {name}, the name that a search gives the "
                "file. Delete the record and measure the case again."
            )
        wanted.append((path.parent / files.config_of_search(path), "config.pbtxt of the search's winner"))
    texts = [(title, _read(file, path.parent)) for file, title in wanted]
    return [ServedConfig(title, text) for title, text in texts if text is not None]


def _read(file: Path, folder: Path) -> str | None:
    """A file in the record's folder or below; None where there is none."""
    try:
        return visible(safe_open.content(file, folder, _LARGEST_CONFIG_BYTES).decode())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise files.RecordError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise files.RecordError(
            f"{file}: not UTF-8 text ({error.reason}). Delete it and measure the case again."
        ) from error
