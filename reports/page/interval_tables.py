"""Tables that the HTML page has beyond the published ones: intervals, the ledger, marks, the machine; as markdown."""

from collections.abc import Sequence

from reports.record.quantities import (
    AGREEMENT,
    COUNT,
    DURATION,
    LATENCY,
    RELATIVE_ERROR,
    SIZE,
    THROUGHPUT,
)
from reports.record.schema import (
    Accuracy,
    Disagreement,
    Load,
    OutputDifference,
    Parity,
    Record,
    Score,
    meets,
)
from reports.tables.case import gates_table
from reports.tables.rendering import markdown
from reports.tables.table import table_of_texts
from reports.text.correctness import (
    conversation_text,
    metric_text,
    parity_text,
    same_answers_text,
    tightest,
    unmeasured,
)
from reports.text.inline import text
from reports.text.labels import confidence_levels, device, origin_rows, point

_LATENCIES = ("avg", "p50", "p90", "p95", "p99")
_IDS_SHOWN = 10
_KEPT = {True: "kept", False: "not kept"}


def intervals_table(loads: Sequence[Load]) -> str:
    """Every estimate of the load points with its interval, and how much was measured; empty without points."""
    if not loads:
        return ""
    columns = (
        "Load point",
        "Inferences/second",
        *(f"{name.capitalize()} (ms)" for name in _LATENCIES),
        *("Requests", "Samples", "Answers verified", "Passes", "Measured (s)", "Warm-up (s)"),
    )
    rows = [
        [
            point(load),
            THROUGHPUT.cell_with_interval(load.throughput_per_s),
            *(
                LATENCY.cell_with_interval(load.latency_ms[name]) if name in load.latency_ms else "-"
                for name in _LATENCIES
            ),
            COUNT.cell(load.requests),
            COUNT.cell(load.samples),
            COUNT.cell(load.answers.verified if load.answers else None),
            COUNT.cell(len(load.passes)),
            DURATION.cell(load.duration_s),
            DURATION.cell(load.warm_up_s),
        ]
        for load in loads
    ]
    said = f"In brackets {confidence_levels(loads)} confidence intervals."
    return f"{markdown([table_of_texts(columns, rows, 'l' + 'r' * 12)])}\n\n{said}"


def ledger(accuracy: Accuracy) -> str:
    """The scores after each stage with their limits, and what neighbouring stages decide differently."""
    scores = table_of_texts(
        ("Metric", "Framework", "Converted", "Served", "Limit", "Its source", "Verdict"),
        [row for score in accuracy.scores for row in _score_rows(score)],
        "lrrrrll",
    )
    differ = table_of_texts(
        ("Between", "Samples that differ", "Lost", "Gained", "Agreement", "Limit", "Samples"),
        [_disagreement_row(one) for one in accuracy.disagreements],
        "lrrrrrl",
    )
    said = (
        f"{COUNT.text(accuracy.samples)} samples, sent in {COUNT.text(accuracy.requests)} requests of mixed batch "
        "sizes with many in flight."
    )
    blocks = [said, *filter(None, map(markdown, ([scores], [differ])))]
    if accuracy.outputs:
        blocks.append(_outputs_table("the same file in process", accuracy.outputs))
    return "\n\n".join(blocks)


def conversion_sentence(conversion: Parity | None) -> str:
    """The converted model in process against the framework."""
    if conversion is None:
        return "The converted model was not compared with the framework."
    return (
        f"Converted model in process against the framework, on {COUNT.text(conversion.samples)} samples: "
        f"{parity_text(conversion)}; {'passed' if conversion.passed else 'failed'}."
    )


_AS_FOUND = (
    "Served as it was found: nothing was converted, and answers under load are held to the server's own to the same samples, "
    "one request at a time."
)


def accuracy_text(record: Record) -> str:
    """The parity and the ledger of a case, or why there is none."""
    blocks = [_AS_FOUND if record.build.as_found else conversion_sentence(record.conversion)]
    if record.conversion is not None and record.conversion.outputs:
        blocks.append(_outputs_table("the framework's", record.conversion.outputs))
    if record.conversation is not None:
        blocks.append(text(f"{conversation_text(record.conversation)}."))
    if record.accuracy is None or record.accuracy_missing:
        blocks.append(f"Accuracy: {text(unmeasured(record))}.")
    if record.accuracy is not None:
        blocks.append(ledger(record.accuracy))
        if record.accuracy.same_answers is not None:
            said = same_answers_text(record.accuracy.same_answers)
            blocks.append(text(f"{said[0].upper()}{said[1:]}."))
    if record.gates:
        blocks.append(markdown([gates_table(record.gates)]))
    return "\n\n".join(blocks)


def machine_table(record: Record) -> str:
    """Machine, versions, server and build: all that the numbers depend on."""
    machine, build, serving = record.machine, record.build, record.serving
    rows = [
        ("CPU", f"{machine.cpu}, {machine.cores} cores"),
        ("Memory", f"{machine.memory_gib} GiB"),
        *([("GPU", f"{device(record)}, driver {machine.gpu_driver}")] if machine.gpu else []),
        *(("GPU used", uuid) for uuid in machine.gpu_uuids),
        ("System", machine.system),
        *((name, version) for name, version in machine.versions.items()),
        *([("Server's image", serving.image)] if serving and serving.image else []),
        *([("Digest of the image", serving.image_digest)] if serving and serving.image_digest else []),
        *(
            (f"{name}, in the server", version)
            for name, version in (serving.versions if serving else {}).items()
        ),
        ("Weights", build.weights),
        (
            "Build",
            f"{SIZE.text(build.size_mib)} in {DURATION.text(build.build_time_s)}, digest {build.digest}",
        ),
        *origin_rows(record),
        ("Last change of the record", record.updated or "unknown"),
    ]
    return markdown([table_of_texts(("Part", "Value"), rows)])


def _score_rows(score: Score) -> list[list[str]]:
    """A row for each limit, the tightest first; one without a limit where there is none."""
    values = (score.framework, score.converted, score.served)
    stages = ["-" if value is None else metric_text(score, value) for value in values]
    first = tightest(score)
    limits = sorted(score.limits, key=lambda limit: limit != first)
    if not limits:
        return [[score.metric, *stages, "-", "-", _KEPT[score.passed]]]
    return [
        [
            *([score.metric, *stages] if place == 0 else [""] * 4),
            ("≥ " if score.better == "higher" else "≤ ") + metric_text(score, limit.value),
            limit.source,
            _KEPT[meets(score.better, score.served, limit.value)],
        ]
        for place, limit in enumerate(limits)
    ]


def _outputs_table(beside: str, outputs: Sequence[OutputDifference]) -> str:
    """How far each output is from those that it stands beside."""
    columns = (f"Output, beside {beside}", "Mean", "Limit", "Largest, of the spread", "Limit", "Sample")
    return markdown([table_of_texts(columns, [_output_row(one) for one in outputs], "lrrrrl")])


def _output_row(one: OutputDifference) -> list[str]:
    quantity = AGREEMENT if one.kind == "differing" else RELATIVE_ERROR
    figures = (one.mean, one.mean_limit, one.largest, one.largest_limit)
    what = "integers that differ" if one.kind == "differing" else "error"
    return [f"{one.output}, {what}", *map(quantity.cell, figures), one.sample or "-"]


def _disagreement_row(one: Disagreement) -> list[str]:
    shown = ", ".join(one.samples[:_IDS_SHOWN])
    return [
        " and ".join(one.between),
        str(one.count),
        str(one.lost),
        str(one.gained),
        AGREEMENT.text(one.agreement),
        "-" if one.agreement_limit is None else f"≥ {AGREEMENT.text(one.agreement_limit)}",
        shown + (f" and {one.count - _IDS_SHOWN} more" if one.count > _IDS_SHOWN else "") or "-",
    ]
