"""What only the HTML page shows of a case: every interval, the ledger, and where it was measured."""

from collections.abc import Sequence

from reports.record.quantities import AGREEMENT, COUNT, DURATION, LATENCY, RELATIVE_ERROR, SIZE, THROUGHPUT
from reports.record.schema import Accuracy, Disagreement, Load, OutputDifference, Record, Score
from reports.tables.case import gates_table
from reports.tables.points import points_of
from reports.tables.summary import machine_blocks, serving_blocks
from reports.tables.table import Block, Cell, Column, Table, figure, table
from reports.text import correctness
from reports.text.labels import confidence_levels, first_of, point, sentence
from reports.text.publishable import Publishable

_IDS_SHOWN = 10


def _latency(name: str) -> Column[Load]:
    title = f"{name.capitalize()} (ms)"
    return Column(title, lambda one: one.latency_ms.get(name), LATENCY, "interval")


_INTERVALS: Sequence[Column[Load]] = (
    Column("Load point", point),
    Column("Inferences/second", lambda one: one.throughput_per_s, THROUGHPUT, "interval"),
    *map(_latency, ("avg", "p50", "p90", "p95", "p99")),
    Column("Requests", lambda one: one.requests, COUNT),
    Column("Samples", lambda one: one.samples, COUNT),
    Column("Answers verified", lambda one: one.answers.verified if one.answers else None, COUNT),
    Column("Passes", lambda one: len(one.passes), COUNT),
    Column("Measured (s)", lambda one: one.duration_s, DURATION),
    Column("Warm-up (s)", lambda one: one.warm_up_s, DURATION),
)


def intervals_blocks(record: Publishable, scenario: str) -> list[Block]:
    """Every estimate of the load points with its interval, and the amount of measuring; empty without any."""
    loads = [at.load for at in points_of(record, scenario)]
    said = f"In brackets {confidence_levels(loads)} confidence intervals."
    return [table(_INTERVALS, loads, notes=[said])] if loads else []


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
    Column("Between", lambda one: " and ".join(one.between)),
    Column("Samples that differ", lambda one: one.count, COUNT),
    Column("Lost", lambda one: one.lost, COUNT),
    Column("Gained", lambda one: one.gained, COUNT),
    Column("Agreement", lambda one: one.agreement, AGREEMENT, with_unit=True),
    Column("Limit", lambda one: one.agreement_limit, AGREEMENT, with_unit=True),
    Column("Samples", lambda one: first_of(one.samples, _IDS_SHOWN, count=one.count) or None),
)


def _output(title: str, name: str) -> Column[OutputDifference]:
    def take(one: OutputDifference) -> Cell:
        return figure(AGREEMENT if one.kind == "differing" else RELATIVE_ERROR, getattr(one, name))

    return Column(title, take, is_right=True)


def _outputs_table(beside: str, outputs: Sequence[OutputDifference]) -> Table:
    what = {"differing": "integers that differ", "error": "error"}
    columns: Sequence[Column[OutputDifference]] = (
        Column(f"Output, beside {beside}", lambda one: f"{one.output}, {what[one.kind]}"),
        _output("Mean", "mean"),
        _output("Limit", "mean_limit"),
        _output("Largest, of the spread", "largest"),
        _output("Limit", "largest_limit"),
        Column("Sample", lambda one: one.sample or None),
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
    found = record.conversion
    if found is None:
        return "The converted model was not compared with the framework."
    how = f"Converted model in process against the framework, on {COUNT.text(found.samples)} samples"
    return f"{how}: {correctness.parity_text(found)}; {'passed' if found.passed else 'failed'}."


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
