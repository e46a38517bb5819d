"""Whether a case is right, as tables: the conversion, the ledger stage by stage, and the gates."""

from collections.abc import Sequence

from reports.record.quantities import AGREEMENT, COUNT, RELATIVE_ERROR
from reports.record.schema import GATES, Accuracy, AnswerGate, Disagreement, OutputDifference, Record, Score
from reports.tables.table import Block, Cell, Column, Table, figure, table
from reports.text import correctness
from reports.text.labels import first_of, sentence

_IDS_SHOWN = 10


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


def _apart(gate: AnswerGate) -> str | None:
    return correctness.apart_text(gate.same) + correctness.remarks(gate.same) if gate.same else None


_GATES: Sequence[Column[AnswerGate]] = (
    Column("Without labels", lambda row: GATES.get(row.gate, row.gate)),
    Column("Tried", lambda row: row.tried),
    Column("Requests", lambda row: row.requests, COUNT),
    Column("Apart at most", _apart, is_right=True),
    Column("Verdict", lambda row: row.wrong or "passed"),
)


def gates_table(gates: Sequence[AnswerGate]) -> Table:
    return table(_GATES, correctness.gates_in_order(gates))


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
