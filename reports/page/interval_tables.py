"""Tables that the HTML page has beyond the published ones: intervals, the ledger, marks, the machine; as markdown."""

from collections.abc import Sequence

from reports.record.schema import Accuracy, Disagreement, Estimate, Load, Parity, Record, Score, meets
from reports.words.labels import point
from reports.words.markdown import markdown, text
from reports.words.rightness import number, tightest, unmeasured

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
        *("Requests", "Passes", "Measured (s)", "Warm-up (s)"),
    )
    rows = [
        [
            point(load),
            _interval(load.throughput_per_s),
            *(_interval(load.latency_ms[name]) if name in load.latency_ms else "-" for name in _LATENCIES),
            f"{load.requests:,}",
            str(len(load.passes)),
            f"{load.duration_s:.1f}",
            f"{load.warm_up_s:.2g}",
        ]
        for load in loads
    ]
    levels = sorted({load.throughput_per_s.confidence for load in loads})
    said = f"In brackets {' or '.join(f'{100 * level:g} %' for level in levels)} confidence intervals."
    return f"{markdown(columns, rows, 'l' + 'r' * 10)}\n\n{said}"


def ledger(accuracy: Accuracy) -> str:
    """The scores after each stage with their limits, and what neighbouring stages decide differently."""
    scores = markdown(
        ("Metric", "Framework", "Converted", "Served", "Limit", "Its source", "Verdict"),
        [row for score in accuracy.scores for row in _score_rows(score)],
        "lrrrrll",
    )
    differ = markdown(
        ("Between", "Samples that differ", "Lost", "Gained", "Agreement", "Limit", "Samples"),
        [_disagreement_row(one) for one in accuracy.disagreements],
        "lrrrrrl",
    )
    said = f"{accuracy.samples:,} samples, sent in {accuracy.requests:,} requests of mixed batch sizes with many in flight."
    return "\n\n".join([said, *([scores] if accuracy.scores else []), differ])


def conversion_sentence(conversion: Parity | None) -> str:
    """The converted model in process against the framework."""
    if conversion is None:
        return "The converted model was not compared with the framework."
    parts = []
    if conversion.relative_error is not None:
        error, limit = conversion.relative_error, conversion.relative_error_limit
        parts.append(f"relative error {error:.2g} (limit {limit:.2g})")
    limit_text = "" if conversion.agreement_limit is None else f" (limit {conversion.agreement_limit:.2%})"
    parts.append(f"agreement {conversion.agreement:.2%}{limit_text}")
    return (
        f"Converted model in process against the framework, on {conversion.samples} samples: {', '.join(parts)}; "
        f"{'passed' if conversion.passed else 'failed'}."
    )


def accuracy_text(record: Record) -> str:
    """The parity and the ledger of a case, or why there is none."""
    blocks = [conversion_sentence(record.conversion)]
    if record.accuracy is None or record.accuracy_missing:
        blocks.append(f"Accuracy: {text(unmeasured(record))}.")
    if record.accuracy is not None:
        blocks.append(ledger(record.accuracy))
    return "\n\n".join(blocks)


def machine_table(record: Record) -> str:
    """Machine, versions, server and build: all that the numbers depend on."""
    machine, build = record.machine, record.build
    rows = [
        ("CPU", f"{machine.cpu}, {machine.cores} cores"),
        ("Memory", f"{machine.memory_gib} GiB"),
        *([("GPU", f"{machine.gpu}, driver {machine.gpu_driver}")] if machine.gpu else []),
        ("System", machine.system),
        *((name, version) for name, version in machine.versions.items()),
        ("Weights", build.weights),
        ("Build", f"{build.size_mib:.1f} MiB in {build.build_time_s:.1f} s, digest {build.digest}"),
        ("Last change of the record", record.updated or "unknown"),
    ]
    return markdown(("Part", "Value"), rows, "ll")


def _score_rows(score: Score) -> list[list[str]]:
    """A row for each limit, the tightest first; one without a limit where there is none."""
    stages = [number(score, value) for value in (score.framework, score.converted, score.served)]
    first = tightest(score)
    limits = sorted(score.limits, key=lambda limit: limit != first)
    if not limits:
        return [[score.metric, *stages, "-", "-", _KEPT[score.passed]]]
    return [
        [
            *([score.metric, *stages] if place == 0 else [""] * 4),
            ("≥ " if score.better == "higher" else "≤ ") + number(score, limit.value),
            limit.source,
            _KEPT[meets(score.better, score.served, limit.value)],
        ]
        for place, limit in enumerate(limits)
    ]


def _disagreement_row(one: Disagreement) -> list[str]:
    shown = ", ".join(one.samples[:_IDS_SHOWN])
    return [
        " and ".join(one.between),
        str(one.count),
        str(one.lost),
        str(one.gained),
        f"{one.agreement:.2%}",
        "-" if one.agreement_limit is None else f"≥ {one.agreement_limit:.2%}",
        shown + (f" and {one.count - _IDS_SHOWN} more" if one.count > _IDS_SHOWN else "") or "-",
    ]


def _interval(one: Estimate) -> str:
    return f"{_digits(one.value)} ({_digits(one.low)} to {_digits(one.high)})"


def _digits(value: float) -> str:
    """Four significant digits."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
