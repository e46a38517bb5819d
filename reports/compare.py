"""Measured records beside the figures NVIDIA published: same model, GPU, format, precision and load point.

Like stands beside like. Where hardware, settings or, when asked for, the format differ, the output says so.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import pandas as pd

from reports import published
from reports.markdown import markdown, text
from reports.record import Estimate, Load, Record, case_id, has_passed
from reports.verdict import notes, why_no_speed

# The quantities that are compared: name and unit of the columns, here and in the published figures.
_QUANTITIES = (("throughput", "per_s"), ("latency_p99", "ms"), ("latency_avg", "ms"))
_OF_CASE = ("target", "model", "format", "accelerator", "precision")
_OF_POINT = ("scenario", "batch", "concurrency")
_OF_ROW = ("gpu", "gpu_label", "format", "accelerator", "precision", "score_percent", "source", "table")

#: Every column of the tidy table, in its order. `ratio` is measured over published, and so are its bounds.
COLUMNS = (
    *("case", *_OF_CASE, "device", "passed", "why_no_speed", *_OF_POINT),
    *(f"published_{name}" for name in _OF_ROW),
    *("same_gpu", "same_format", "differences", "metric", "score_percent", "notes"),
    *(
        column
        for name, unit in _QUANTITIES
        for column in (
            *(f"{name}{part}_{unit}" for part in ("", "_low", "_high", "_published")),
            *(f"{name}_ratio{part}" for part in ("", "_low", "_high")),
        )
    ),
)

_TABLE = (
    "Load point",
    *("Inferences/second", "Published", "Ratio"),
    *("P99 Latency", "P99, published", "P99 ratio"),
    *("Avg Latency", "Avg, published", "Avg ratio"),
)

# Accelerators that a format's name already says: published beside it, and none in a case's name.
_IMPLIED = {"ts-trace": "cuda", "ts-script": "cuda", "tf-trt": "trt"}

# Settings that both sides may state, with the scenarios they act in: offline the dynamic batcher is off.
_SETTINGS = {
    "max_batch_size": ("max batch size", ("offline", "online")),
    "instances": ("instances", ("offline", "online")),
    "cuda_graphs": ("CUDA graphs", ("offline", "online")),
    "max_queue_delay_us": ("max queue delay in µs", ("online",)),
    "preferred_batch_sizes": ("preferred batch sizes", ("online",)),
}

# What a scenario sweeps, and the option of the benchmarks that chooses it.
_SWEEPS = {"offline": ("batch", "--batches"), "online": ("concurrency", "--concurrencies")}

Row = Mapping[str, Any]
"""A published row by column; None where the source does not publish the quantity."""
Point = tuple[str, int, int]
"""Scenario, batch and concurrency."""


@dataclass(frozen=True)
class Comparison:
    """A record and the published rows it may stand beside."""

    record: Record
    rows: Sequence[Row]
    """All of the record's GPU where there are some, else of every published GPU."""
    missing: str
    """Why there are no rows, as a sentence; empty where there are some."""


def compare(records: Sequence[Record], other_formats: bool = False) -> list[Comparison]:
    """Each record with the published rows of its model, format, accelerator and precision.

    `other_formats` also gives a record that has none of these the rows of its model in other formats.
    """
    rows = _published()
    return [_comparison(record, rows, other_formats) for record in records]


def joined(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """One row per measured point and published row of the same point; the columns are COLUMNS.

    A case that has not passed keeps its rows, with the reason in place of every measured number.
    """
    rows = [
        _joined(one.record, load, row)
        for one in comparisons
        for group in _groups(one)
        for load, row in _pairs(one.record, group)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def document(comparisons: Sequence[Comparison]) -> str:
    """All comparisons as markdown: a section per case, in it a table per published GPU."""
    sections = [_section(one) for one in comparisons if one.rows]
    blocks = ["# Measured beside published"]
    if sections:
        blocks += [_legend(comparisons), *sections]
    if lines := not_compared(comparisons):
        blocks += ["## Not compared", "\n".join(f"- {line}" for line in lines)]
    return "\n\n".join(blocks)


def not_compared(comparisons: Sequence[Comparison]) -> list[str]:
    """A line for each reason why cases have no published counterpart, with their names."""
    cases: dict[str, list[str]] = {}
    for one in comparisons:
        if one.missing:
            cases.setdefault(one.missing, []).append(f"`{case_id(one.record.case)}`")
    return [f"{', '.join(names)}: {reason}" for reason, names in cases.items()]


def remarks(comparisons: Sequence[Comparison]) -> list[str]:
    """What the tidy table cannot hold: the cases without rows, and the points of others without a pair."""
    points = [
        f"`{case_id(one.record.case)}`: {line}" for one in comparisons if one.rows for line in _unmatched(one)
    ]
    return points + not_compared(comparisons)


def _unmatched(comparison: Comparison) -> list[str]:
    """A line for the points that were measured alone, and one for those published alone with their command."""
    record = comparison.record
    measured, figures = set(_loads(record)), set(map(_point_of, comparison.rows))
    lines = [] if measured & figures else ["No load point was both measured and published."]
    if alone := measured - figures:
        lines.append(f"{_counted(alone, 'measured')} not published: {_listed(alone)}.")
    if alone := figures - measured:
        how = _how(record, figures, alone)
        lines.append(f"{_counted(alone, 'published')} not measured: {_listed(alone)}. {how}")
    return lines


# --- which rows belong to a record -------------------------------------------------------------------------


def _published() -> list[Row]:
    figures = published.load()
    plain = figures.astype(object).where(figures.notna(), None)
    return [dict(zip(plain.columns, values, strict=True)) for values in plain.itertuples(index=False)]


def _comparison(record: Record, rows: Sequence[Row], other_formats: bool) -> Comparison:
    case = record.case
    of_model = [row for row in rows if row["model"] == case.model]
    like = [row for row in of_model if _same_format(record, row)]
    chosen = like or (of_model if other_formats else [])
    of_gpu = [row for row in chosen if row["gpu"] == case.target]
    missing = ""
    if not of_model:
        models = ", ".join(sorted({row["model"] for row in rows}))
        missing = f"NVIDIA published no figures of {case.model}, only of {models}."
    elif not chosen:
        names = ", ".join(dict.fromkeys(_name(_served(row)) for row in of_model))
        missing = (
            f"NVIDIA published {case.model} as {names}, not as {_name(_measured(record))}. "
            "With --other-formats they are compared all the same."
        )
    return Comparison(record, of_gpu or chosen, missing)


def _measured(record: Record) -> tuple[str | None, ...]:
    case = record.case
    return _served({"format": case.format, "accelerator": case.accelerator, "precision": case.precision})


def _served(row: Row) -> tuple[str | None, ...]:
    """Format, accelerator unless the format's name says it, and precision."""
    format_, accelerator = row["format"], row["accelerator"]
    return format_, None if accelerator == _IMPLIED.get(format_) else accelerator, row["precision"]


def _same_format(record: Record, row: Row) -> bool:
    return _measured(record) == _served(row)


def _name(served: Sequence[str | None]) -> str:
    return " ".join(part for part in served if part)


def _groups(comparison: Comparison) -> list[list[Row]]:
    """The rows of each published GPU and format, in the order of their source."""
    groups: dict[Any, list[Row]] = {}
    for row in comparison.rows:
        groups.setdefault((row["gpu"], _served(row)), []).append(row)
    return list(groups.values())


def _pairs(record: Record, rows: Sequence[Row]) -> Iterator[tuple[Load, Row]]:
    """Each measured point with the row of the same point, in the order of the source: offline comes first."""
    loads = _loads(record)
    for row in rows:
        if load := loads.get(_point_of(row)):
            yield load, row


def _loads(record: Record) -> dict[Point, Load]:
    """By point; those at a request rate were not published, nor is anything like them."""
    loads = (load for load in record.loads if load.request_rate_per_s is None)
    return {_point(load): load for load in loads}


def _point(load: Load) -> Point:
    return load.scenario, load.batch, load.concurrency


def _point_of(row: Row) -> Point:
    return row["scenario"], row["batch"], row["concurrency"]


# --- a pair, and what is not alike in it -------------------------------------------------------------------


def _joined(record: Record, load: Load, row: Row) -> dict[str, Any]:
    """The row of the tidy table, by column; without measured speed where the case may not show any."""
    shown = has_passed(record)
    cells = {
        "case": case_id(record.case),
        **{name: getattr(record.case, name) for name in _OF_CASE},
        "device": _device(record),
        "passed": shown,
        "why_no_speed": why_no_speed(record),
        **dict(zip(_OF_POINT, _point(load), strict=True)),
        **{f"published_{name}": row[name] for name in _OF_ROW},
        "same_gpu": row["gpu"] == record.case.target,
        "same_format": _same_format(record, row),
        "differences": "; ".join(_differences(record, row)) or None,
        "metric": row["metric"],
        "score_percent": _score_percent(record, row["metric"]),
        "notes": notes(load) or None if shown else None,
    }
    measured = {"throughput": load.throughput_per_s}
    measured |= {f"latency_{name}": estimate for name, estimate in load.latency_ms.items()}
    for name, unit in _QUANTITIES:
        reference = row[f"{name}_{unit}"]
        cells |= _ratios(name, unit, measured.get(name) if shown else None, reference)
    return cells


def _ratios(name: str, unit: str, measured: Estimate | None, reference: float | None) -> dict[str, Any]:
    """The published value has no interval, so the ratio's is the measured one over it."""
    value, low, high = (measured.value, measured.low, measured.high) if measured else (None, None, None)
    return {
        f"{name}_{unit}": value,
        f"{name}_low_{unit}": low,
        f"{name}_high_{unit}": high,
        f"{name}_published_{unit}": reference,
        f"{name}_ratio": _ratio(value, reference),
        f"{name}_ratio_low": _ratio(low, reference),
        f"{name}_ratio_high": _ratio(high, reference),
    }


def _ratio(measured: float | None, reference: float | None) -> float | None:
    return measured / reference if measured is not None and reference else None


def _score_percent(record: Record, metric: str | None) -> float | None:
    """The served score of the published metric; records hold fractions."""
    scores = record.accuracy.scores if record.accuracy and metric else ()
    return next((100 * score.served for score in scores if score.metric == metric), None)


def _differences(record: Record, row: Row) -> list[str]:
    """What is not alike, measured first; a setting that the source leaves out is no difference."""
    found = []
    if row["gpu"] != record.case.target:
        found.append(f"hardware {_device(record)}, published {row['gpu_label']}")
    if not _same_format(record, row):
        found.append(f"format {_name(_measured(record))}, published {_name(_served(row))}")
    if record.serving and record.serving.backend == "python":
        found.append("Triton's Python backend, published the format's own")
    if record.build.weights.startswith("random"):
        found.append("weights random, published trained")
    for name, (label, scenarios) in _SETTINGS.items():
        measured, reference = _setting(getattr(record.deployment, name)), row[name]
        if row["scenario"] in scenarios and reference is not None and measured != _setting(reference):
            found.append(f"{label} {measured}, published {_setting(reference)}")
    return found


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value) if isinstance(value, int | str) else " ".join(map(str, value)) or "none"


def _device(record: Record) -> str:
    if record.case.target == "cpu":
        return record.machine.cpu
    return record.machine.gpu or record.case.target.upper()


# --- markdown ----------------------------------------------------------------------------------------------


def _legend(comparisons: Sequence[Comparison]) -> str:
    levels = sorted({load.throughput_per_s.confidence for one in comparisons for load in one.record.loads})
    interval = f"{' or '.join(f'{100 * level:g} %' for level in levels)} interval" if levels else "interval"
    return (
        "Ratios are measured over published: above 1 is more throughput, or a longer latency. In brackets is "
        f"the measured {interval} over the published value, which was published without one. Latencies are in "
        "milliseconds. What the published figures leave out: reports/published/README.md."
    )


def _section(comparison: Comparison) -> str:
    record, rows = comparison.record, comparison.rows
    heading = f"## {case_id(record.case)}"
    if hidden := why_no_speed(record):
        return f"{heading}\n\n{text(hidden)}"
    labels = ", ".join(dict.fromkeys(row["gpu_label"] for row in rows))
    intro = f"Measured on {_device(record)}; published on {labels}."
    if rows[0]["gpu"] != record.case.target:
        intro += " It is other hardware, and the ratios hold that too."
    if not _same_format(record, rows[0]):
        intro += f" NVIDIA did not publish {_name(_measured(record))}: what follows is not alike."
    tables = [_table(record, group) for group in _groups(comparison)]
    return "\n\n".join([heading, text(intro), *filter(None, tables), *_unmatched(comparison)])


def _table(record: Record, rows: Sequence[Row]) -> str:
    """Heading, differences, table and marked points for one published GPU and format; empty without pairs."""
    pairs = list(_pairs(record, rows))
    if not pairs:
        return ""
    row = rows[0]
    heading = f"### Beside {row['gpu_label']}"
    if not _same_format(record, row):
        heading += f", unlike: measured {_name(_measured(record))}, published {_name(_served(row))}"
    lines = [f"- Differs: {_summary(record, [row for _, row in pairs])}"]
    if row["sequence_length"]:
        lines.append(f"- Published at sequence length {row['sequence_length']}; records do not hold theirs")
    score = _score_percent(record, row["metric"])
    if score is not None:
        lines.append(f"- {row['metric']}: {score:.2f} % served, {row['score_percent']:g} % published")
    cells = [_cells(load, _joined(record, load, row)) for load, row in pairs]
    blocks = [heading, "\n".join(map(text, lines)), markdown(_TABLE, cells, "l" + "r" * 9)]
    marked = [f"- {_label(load)}: {text(notes(load))}" for load, _ in pairs if load.marks]
    return "\n\n".join([*blocks, "Marked points (*):", "\n".join(marked)] if marked else blocks)


def _summary(record: Record, rows: Sequence[Row]) -> str:
    """The differences of all rows, each once; one of a single scenario says so where there are both."""
    found: dict[str, set[str]] = {}
    for row in rows:
        for difference in _differences(record, row):
            found.setdefault(difference, set()).add(row["scenario"])
    every = {row["scenario"] for row in rows}
    parts = [
        difference if scenarios == every else f"{difference} ({min(scenarios)} only)"
        for difference, scenarios in found.items()
    ]
    return "; ".join(parts) or "nothing that both sides state"


def _cells(load: Load, pair: Mapping[str, Any]) -> list[str]:
    rate = pair["throughput_per_s"]
    bounds = f"({_short(pair['throughput_ratio_low'])} to {_short(pair['throughput_ratio_high'])})"
    cells = [
        _label(load),
        (f"{rate:.1f}" if rate >= 10 else f"{rate:.3g}") + ("*" if load.marks else ""),
        f"{pair['throughput_published_per_s']:g}",
        f"{_short(pair['throughput_ratio'])} {bounds}",
    ]
    for name in ("latency_p99", "latency_avg"):
        value, reference = pair[f"{name}_ms"], pair[f"{name}_published_ms"]
        cells += [
            "-" if value is None else f"{value:.3f}",
            "-" if reference is None else f"{reference:g}",
            _short(pair[f"{name}_ratio"]),
        ]
    return cells


def _short(ratio: float | None) -> str:
    if ratio is None:
        return "-"
    if ratio >= 10:
        return f"{ratio:.1f}" if ratio < 100 else f"{ratio:.0f}"
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:#.2g}"


def _label(load: Load) -> str:
    size = f"batch {load.batch}" if load.scenario == "offline" else f"concurrency {load.concurrency}"
    return f"{load.scenario}, {size}"


def _counted(points: Set[Point], kind: str) -> str:
    return f"1 {kind} point was" if len(points) == 1 else f"{len(points)} {kind} points were"


def _listed(points: Set[Point]) -> str:
    sweeps = ((scenario, what, _sizes(points, scenario)) for scenario, (what, _) in _SWEEPS.items())
    return "; ".join(f"{scenario}, {what} {sizes}" for scenario, what, sizes in sweeps if sizes)


def _sizes(points: Iterable[Point], scenario: str) -> str:
    """Batch sizes offline, concurrencies online."""
    place = 1 if scenario == "offline" else 2
    return ",".join(map(str, sorted({point[place] for point in points if point[0] == scenario})))


def _how(record: Record, figures: Set[Point], alone: Set[Point]) -> str:
    """The command that measures published points; results join a record only at the same largest batch."""
    largest = max((batch for _, batch, _ in alone), default=0)
    grows = largest > record.deployment.max_batch_size
    command = f"tox run -e benchmarks -- -k {case_id(record.case)}"
    for scenario, (_, option) in _SWEEPS.items():
        if sizes := _sizes(figures if grows else alone, scenario):
            command += f" {option} {sizes}"
    if grows:
        return f"Measure the case anew: `{command} --deployment max_batch_size={largest}`"
    return f"Measure them, with the other options of the case's run: `{command}`"
