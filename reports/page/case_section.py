"""A case on the HTML page: its tables, sentences, curve, intervals, accuracy ledger, origin, worst samples
and files."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reports import plots
from reports.published import match
from reports.published.comparison import legend, section
from reports.record import files, per_sample, safe_open
from reports.record.per_sample import Sample, SampleScores
from reports.record.quantities import AGREEMENT, COUNT, DURATION, LATENCY, RELATIVE_ERROR, SIZE, THROUGHPUT
from reports.record.sanitize import visible
from reports.record.schema import Accuracy, Disagreement, Load, OutputDifference, Record, Score
from reports.tables.against import against_section
from reports.tables.case import gates_table, scenario_section
from reports.tables.points import efficiency_section, points_of
from reports.tables.soak import soak_section
from reports.tables.summary import machine_blocks, serving_blocks
from reports.tables.table import Block, Cell, Column, Table, figure, table
from reports.text import correctness
from reports.text.correctness import main_score, metric_text, unmeasured
from reports.text.labels import confidence_levels, first_of, point, sentence
from reports.text.publishable import Publishable, name_of
from reports.text.speed import search_paragraph

_IDS_SHOWN = 10


def _latency(name: str) -> Column[Load]:
    title = f"{name.capitalize()} (ms)"
    return Column(title, lambda load: load.latency_ms.get(name), LATENCY, "interval")


_INTERVALS: Sequence[Column[Load]] = (
    Column("Load point", point),
    Column("Inferences/second", lambda load: load.throughput_per_s, THROUGHPUT, "interval"),
    *map(_latency, ("avg", "p50", "p90", "p95", "p99")),
    Column("Requests", lambda load: load.requests, COUNT),
    Column("Samples", lambda load: load.samples, COUNT),
    Column("Answers verified", lambda load: load.answers.verified if load.answers else None, COUNT),
    Column("Passes", lambda load: len(load.passes), COUNT),
    Column("Measured (s)", lambda load: load.duration_s, DURATION),
    Column("Warm-up (s)", lambda load: load.warm_up_s, DURATION),
)


def intervals_blocks(record: Publishable, scenario: str) -> list[Block]:
    """Each load point's estimates with their intervals, and how much was measured; empty without load
    points."""
    loads = [load_point.load for load_point in points_of(record, scenario)]
    note = f"In brackets {confidence_levels(loads)} confidence intervals."
    return [table(_INTERVALS, loads, notes=[note])] if loads else []


def _stage(name: str) -> Column[Score]:
    def take(score: Score) -> str | None:
        value = getattr(score, name)
        return None if value is None else correctness.metric_text(score, value)

    return Column(name.capitalize(), take, is_right=True)


_LEDGER: Sequence[Column[Score]] = (
    Column("Metric", lambda score: score.metric),
    *map(_stage, ("framework", "converted", "served")),
    Column("Limit", lambda score: correctness.tightest_text(score) or None, is_right=True),
    Column("Its source", lambda score: limit.source if (limit := correctness.tightest(score)) else None),
    Column("Verdict", lambda score: "kept" if score.passed else "not kept"),
)


_DISAGREEMENTS: Sequence[Column[Disagreement]] = (
    Column("Between", lambda pair: " and ".join(pair.between)),
    Column("Samples that differ", lambda pair: pair.count, COUNT),
    Column("Lost", lambda pair: pair.lost, COUNT),
    Column("Gained", lambda pair: pair.gained, COUNT),
    Column("Agreement", lambda pair: pair.agreement, AGREEMENT, with_unit=True),
    Column("Limit", lambda pair: pair.agreement_limit, AGREEMENT, with_unit=True),
    Column("Samples", lambda pair: first_of(pair.samples, _IDS_SHOWN, count=pair.count) or None),
)


def _output(title: str, name: str) -> Column[OutputDifference]:
    def take(output: OutputDifference) -> Cell:
        return figure(AGREEMENT if output.kind == "differing" else RELATIVE_ERROR, getattr(output, name))

    return Column(title, take, is_right=True)


def _outputs_table(beside: str, outputs: Sequence[OutputDifference]) -> Table:
    measures = {"differing": "integers that differ", "error": "error"}
    columns: Sequence[Column[OutputDifference]] = (
        Column(f"Output, beside {beside}", lambda output: f"{output.output}, {measures[output.kind]}"),
        _output("Mean", "mean"),
        _output("Limit", "mean_limit"),
        _output("Largest, of the spread", "largest"),
        _output("Limit", "largest_limit"),
        Column("Sample", lambda output: output.sample or None),
    )
    return table(columns, outputs)


def accuracy_blocks(record: Record) -> list[Block]:
    conversion, accuracy = record.conversion, record.accuracy
    blocks: list[Block] = [_conversion_sentence(record)]
    if conversion is not None:
        blocks.append(_outputs_table("the framework's", conversion.outputs))
    if record.conversation is not None:
        blocks.append(f"{correctness.conversation_text(record.conversation)}.")
    if accuracy is None or record.accuracy_missing:
        blocks.append(f"Accuracy: {correctness.unmeasured(record)}.")
    if accuracy is not None:
        blocks += _ledger(accuracy)
    return [*blocks, gates_table(record.gates)]


def _conversion_sentence(record: Record) -> str:
    if record.build.as_found:
        return (
            "Served as it was found: nothing was converted, and answers under load are held to the server's "
            "own to the same samples, one request at a time."
        )
    conversion = record.conversion
    if conversion is None:
        return "The converted model was not compared with the framework."
    subject = f"Converted model in process against the framework, on {COUNT.text(conversion.samples)} samples"
    return f"{subject}: {correctness.parity_text(conversion)}; {'passed' if conversion.passed else 'failed'}."


def _ledger(accuracy: Accuracy) -> list[Block]:
    samples, requests = COUNT.text(accuracy.samples), COUNT.text(accuracy.requests)
    return [
        f"{samples} samples, sent in {requests} requests of mixed batch sizes with many in flight.",
        table(_LEDGER, accuracy.scores),
        table(_DISAGREEMENTS, accuracy.disagreements),
        _outputs_table("the same file in process", accuracy.outputs),
        sentence(correctness.same_answers_text(accuracy.same_answers)) if accuracy.same_answers else "",
    ]


def origin_blocks(record: Record) -> list[Block]:
    build, size = record.build, SIZE.text(record.build.size_mib)
    built = f"Built in {DURATION.text(build.build_time_s)}: {size} of {build.weights}, digest {build.digest}."
    changed = f"The record was last changed at {record.updated or 'unknown'}."
    return [*machine_blocks([record]), *serving_blocks([record]), f"{built} {changed}"]


_LARGEST_CONFIG_BYTES = 2**20  # this suite's are below 4 KiB
_FEWEST_POINTS = 3
"""A curve of fewer load points shows no more than their table."""


class Status(NamedTuple):
    """Whether a case is right, in two words."""

    level: Literal["good", "care", "bad"]
    word: str
    why: str = ""
    """A sentence; empty if the case has passed."""


def section_of(record: Publishable, results: Path) -> dict[str, Any]:
    """The template's variables for a case. Raises RecordError if a file beside its record is damaged."""
    search = record.search
    return {
        "record": record,
        "name": name_of(record),
        "status": status_of(record),
        "accuracy": accuracy_blocks(record),
        "worst": _worst(per_sample.of_record(record, results), record.accuracy),
        "scenarios": [
            (scenario_section(record, scenario), intervals_blocks(record, scenario))
            for scenario in ("offline", "online")
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
    """The picture of latency over throughput, and its alternative text. The picture is a data URL, in which
    the SVG loads and runs nothing and shares no ids with the page."""
    if sum(load.scenario == "online" for load in record.loads) < _FEWEST_POINTS:
        return None
    chart = plots.chart("throughput-latency", [record])
    data = base64.b64encode(plots.draw_for_both(chart)).decode()
    return f"data:image/svg+xml;base64,{data}", chart.alternative


def _worst(scores: SampleScores | None, accuracy: Accuracy | None) -> list[tuple[Sample, str]] | None:
    if scores is None or accuracy is None:
        return None
    places = {name: place for place, name in enumerate(scores.ids)}
    worst = [(sample, places.get(sample.id)) for sample in scores.worst]
    return [(sample, "" if place is None else _scores(scores, accuracy, place)) for sample, place in worst]


def _scores(sample_scores: SampleScores, accuracy: Accuracy, place: int) -> str:
    """For each metric `F1: framework 100 %, converted 100 %, served 40 %`, or one value if all stages
    agree."""
    parts = []
    for score in accuracy.scores:
        stages = sample_scores.scores.get(score.metric, {})
        shown = {stage: metric_text(score, values[place]) for stage, values in stages.items()}
        listed = ", ".join(f"{stage} {value}" for stage, value in shown.items())
        unique = set(shown.values())
        parts.append(f"{score.metric}: {listed}" if len(unique) > 1 else f"{score.metric} {''.join(unique)}")
    return "; ".join(parts)


def _published(record: Publishable) -> Sequence[Block]:
    published = match(record)
    return [*section(published), legend([published])] if published.rows else [published.missing]


def _configs(record: Publishable, results: Path) -> list[tuple[str, str]]:
    """Title and text of each configuration beside the record: the case's own, and that of a search's
    winner."""
    path = files.path_of(record.case, results)
    configs = [(path.with_suffix(files.CONFIG_SUFFIX), "config.pbtxt; offline it lacks dynamic_batching")]
    if record.search:  # the path comes from the record's own path, so a record cannot show another file
        configs.append((path.parent / files.config_of_search(path), "config.pbtxt of the search's winner"))
    texts = [(title, _read(file, path.parent)) for file, title in configs]
    return [(title, text) for title, text in texts if text is not None]


def _read(file: Path, folder: Path) -> str | None:
    try:
        return visible(safe_open.content(file, folder, _LARGEST_CONFIG_BYTES).decode())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise files.RecordError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 text ({error.reason}). Delete it and measure the case again."
        raise files.RecordError(f"{file}: {problem}") from error
