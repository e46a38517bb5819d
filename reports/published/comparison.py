"""Records beside the figures that NVIDIA published: a section per case, with a table per published GPU."""

from collections.abc import Iterable, Sequence, Set

from reports import published
from reports.compare.changes import setting_text
from reports.record import commands
from reports.record.quantities import LATENCY, RATIO, SCORE, THROUGHPUT, WIDEST_RATIO
from reports.record.schema import Estimate, Record
from reports.tables.table import Block, Bullets, Cell, Column, Heading, table
from reports.text.inline import code
from reports.text.labels import confidence_levels, device, full_point, grouped, sequence_length
from reports.text.publishable import Publishable, name_of

_SWEEPS = {"offline": ("batch", "--batches"), "online": ("concurrency", "--concurrencies")}
"""What a scenario sweeps, and the option of the benchmarks that sets it."""


def document(matches: Sequence[published.Match]) -> list[Block]:
    blocks: list[Block] = [Heading("Measured beside published", 1)]
    compared = [match for match in matches if match.rows]
    if compared:
        blocks.append(legend(matches))
    for match in compared:
        blocks += [Heading(name_of(match.record), 2), *section(match)]
    if lines := not_compared(matches):
        blocks += [Heading("Not compared", 2), Bullets(lines)]
    return blocks


def legend(matches: Sequence[published.Match]) -> str:
    levels = confidence_levels([load for match in matches for load in match.record.loads])
    interval = f"{levels} interval" if levels else "interval"
    return (
        "Ratios are measured over published: above 1 is more throughput, or a longer latency. In brackets is "
        f"the measured {interval} over the published value, which was published without one; a ratio whose "
        f"interval is wider than a factor of {WIDEST_RATIO:g} is not shown. Latencies are in milliseconds. "
        "What the published figures leave out: reports/published/README.md."
    )


def section(match: published.Match) -> list[Block]:
    record, rows = match.record, match.rows
    if record.no_speed:
        return [record.no_speed]
    labels = ", ".join(dict.fromkeys(row["gpu_label"] for row in rows))
    intro = f"Measured on {device(record)}; published on {labels}."
    if not published.is_same_gpu(record, rows[0]):
        intro += " It is other hardware, and the ratios hold that too."
    by_gpu = grouped(rows, lambda row: row["gpu"])
    tables = [block for group in by_gpu.values() for block in _of_gpu(record, group)]
    return [intro, *tables, *_unmatched(match)]


def _ratio(measured: Estimate | None, reference: float | None) -> Estimate | None:
    return published.over_published(measured, reference) if measured and reference else None


def _as_published(value: float | None) -> Cell | None:
    return None if value is None else Cell(f"{value:g}", value)


def _of_latency(name: str) -> list[Column[published.Pair]]:
    title = name.capitalize()

    def ratio(pair: published.Pair) -> Estimate | None:
        return _ratio(pair.load.latency_ms.get(name), pair.row[f"latency_{name}_ms"])

    return [
        Column(f"{title} Latency", lambda pair: pair.load.latency_ms.get(name), LATENCY),
        Column(f"{title}, published", lambda pair: _as_published(pair.row[f"latency_{name}_ms"]), LATENCY),
        Column(f"{title} ratio", ratio, RATIO),
    ]


_COLUMNS: Sequence[Column[published.Pair]] = (
    Column("Load point", lambda pair: full_point(pair.load)),
    Column("Inferences/second", lambda pair: pair.load.throughput_per_s, THROUGHPUT, is_starred=True),
    Column("Published", lambda pair: _as_published(pair.row["throughput_per_s"]), THROUGHPUT),
    Column(
        "Ratio",
        lambda pair: _ratio(pair.load.throughput_per_s, pair.row["throughput_per_s"]),
        RATIO,
        "interval",
    ),
    *_of_latency("p99"),
    *_of_latency("avg"),
)


def _of_gpu(record: Publishable, rows: Sequence[published.PublishedRow]) -> list[Block]:
    """Heading, differences and table for one published GPU; empty without pairs."""
    row, points = rows[0], published.pairs(record, rows)
    if not points:
        return []
    lines = [f"Differs: {_all_differences(record, [pair.row for pair in points])}"]
    if row["sequence_length"]:
        measured = sequence_length(record).replace("-", "not recorded")
        lines.append(f"Sequence length: {measured}, published {row['sequence_length']}")
    for score in record.accuracy.scores if record.accuracy else ():
        if score.metric == row["metric"]:
            served = SCORE.text(score.served)
            lines.append(f"{score.metric}: {served} served, {row['score_percent']:g} % published")
    shown = table(
        _COLUMNS, points, name=lambda pair: full_point(pair.load), marks=lambda pair: pair.load.marks
    )
    return [Heading(f"Beside {row['gpu_label']}", 3), Bullets(lines), shown]


def _all_differences(record: Record, rows: Sequence[published.PublishedRow]) -> str:
    """The differences of all rows, each once; of two scenarios, a difference in only one says so."""
    scenarios_of: dict[str, set[str]] = {}
    for row in rows:
        for difference in differences(record, row):
            scenarios_of.setdefault(difference, set()).add(row["scenario"])
    all_scenarios = {row["scenario"] for row in rows}
    parts = [
        difference if scenarios == all_scenarios else f"{difference} ({min(scenarios)} only)"
        for difference, scenarios in scenarios_of.items()
    ]
    return "; ".join(parts) or "nothing that both sides state"


def not_compared(matches: Sequence[published.Match]) -> list[str]:
    """A line for each reason why cases have no published counterpart, with their names."""
    by_reason = grouped((match for match in matches if match.missing), lambda match: match.missing)
    return [
        f"{', '.join(code(name_of(match.record)) for match in group)}: {reason}"
        for reason, group in by_reason.items()
    ]


def _unmatched(match: published.Match) -> list[str]:
    """A line on points only measured, and one on points only published with the command to measure them."""
    record = match.record
    measured, figures = set(published.measured_points(record)), set(map(published.point_of, match.rows))
    lines = [] if measured & figures else ["No load point was both measured and published."]
    if alone := measured - figures:
        lines.append(f"{_counted(alone, 'measured')} not published: {_listed(alone)}.")
    if alone := figures - measured:
        how = _how(record, figures, alone)
        lines.append(f"{_counted(alone, 'published')} not measured: {_listed(alone)}. {how}")
    return lines


def _counted(points: Set[published.PointKey], kind: str) -> str:
    return f"1 {kind} point was" if len(points) == 1 else f"{len(points)} {kind} points were"


def _listed(points: Set[published.PointKey]) -> str:
    sweeps = ((scenario, axis, _sizes(points, scenario)) for scenario, (axis, _) in _SWEEPS.items())
    return "; ".join(f"{scenario}, {axis} {sizes}" for scenario, axis, sizes in sweeps if sizes)


def _sizes(points: Iterable[published.PointKey], scenario: str) -> str:
    place = 1 if scenario == "offline" else 2  # of the batch size, and of the concurrency
    return ",".join(map(str, sorted({point[place] for point in points if point[0] == scenario})))


def _how(record: Record, figures: Set[published.PointKey], alone: Set[published.PointKey]) -> str:
    """How to measure published points: anew if they need a larger batch than the deployment takes."""
    largest = max((batch for _, batch, _ in alone), default=0)
    grows = largest > record.deployment.max_batch_size
    command = commands.run(f"-k {name_of(record)}")
    for scenario, (_, option) in _SWEEPS.items():
        if sizes := _sizes(figures if grows else alone, scenario):
            command += f" {option} {sizes}"
    if grows:
        return f"Measure the case anew: `{command} --deployment max_batch_size={largest}`"
    return f"Measure them, with the other options of the case's run: `{command}`"


_SETTINGS = {
    "max_batch_size": ("max batch size", ("offline", "online")),
    "instances": ("instances", ("offline", "online")),
    "cuda_graphs": ("CUDA graphs", ("offline", "online")),
    "max_queue_delay_us": ("max queue delay in µs", ("online",)),
    "preferred_batch_sizes": ("preferred batch sizes", ("online",)),
}
"""Settings that both sides may state, and the scenarios they act in: offline, the dynamic batcher is off."""


def differences(record: Record, row: published.PublishedRow) -> list[str]:
    """The differences, measured first; a setting that the source leaves out is none."""
    parts = []
    if not published.is_same_gpu(record, row):
        parts.append(f"hardware {device(record)}, published {row['gpu_label']}")
    if record.serving and record.serving.backend == "python":
        parts.append("Triton's Python backend, published the format's own")
    if record.build.weights.startswith("random"):
        parts.append("weights random, published trained")
    for name, (label, scenarios) in _SETTINGS.items():
        measured, reference = setting_text(getattr(record.deployment, name)), row[name]
        if row["scenario"] in scenarios and reference is not None and measured != setting_text(reference):
            parts.append(f"{label} {measured}, published {setting_text(reference)}")
    return parts
