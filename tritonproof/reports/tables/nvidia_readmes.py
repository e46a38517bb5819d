"""Measured figures beside NVIDIA's published ones: a table for each published GPU, and what differs."""

from collections.abc import Sequence

from tritonproof.record import Record, fields
from tritonproof.record.quantities import LATENCY, RATIO, SCORE, THROUGHPUT, WIDEST_RATIO
from tritonproof.reports import phrases
from tritonproof.reports.nvidia_readmes import (
    NvidiaRow,
    nvidia_point,
    nvidia_rows,
    ratio_to_nvidia,
    why_no_nvidia_rows,
)
from tritonproof.reports.publishable import Publishable
from tritonproof.reports.tables.points import PointRow
from tritonproof.reports.tables.rendering import code
from tritonproof.reports.tables.table import Block, Bullets, Cell, Column, Heading, table


def nvidia_blocks(records: Sequence[Publishable]) -> list[Block]:
    """A section per case, with a table per published GPU, and the cases without a published counterpart."""
    blocks: list[Block] = [Heading("Measured beside published", 1)]
    by_reason = phrases.grouped(records, why_no_nvidia_rows)
    if compared := by_reason.pop(None, []):
        blocks.append(nvidia_legend(records))
    for record in compared:
        blocks += [Heading(record.name, 2), *nvidia_section(record)]
    lines = []
    for reason, group in by_reason.items():
        lines.append(f"{', '.join(code(record.name) for record in group)}: {reason}")
    return [*blocks, Heading("Not compared", 2), Bullets(lines)] if lines else blocks


def nvidia_legend(records: Sequence[Publishable]) -> str:
    levels = phrases.confidence_levels([result for record in records for result in record.points])
    interval = f"{levels} interval" if levels else "interval"
    return (
        "Ratios are measured over published: above 1 is more throughput, or a longer latency. In brackets is "
        f"the measured {interval} over the published value, which was published without one; a ratio whose "
        f"interval is wider than a factor of {WIDEST_RATIO:g} is not shown. Latencies are in milliseconds. "
        "What the published figures leave out: tritonproof/reports/nvidia_readmes/README.md."
    )


def nvidia_section(record: Publishable) -> list[Block]:
    """The tables of a case that has published rows, or the reason why its speed is hidden."""
    if record.why_no_speed:
        return [record.why_no_speed]
    rows = nvidia_rows(record)
    labels = ", ".join(dict.fromkeys(row["gpu_label"] for row in rows))
    intro = f"Measured on {phrases.device_text(record)}; published on {labels}."
    if rows[0]["gpu"] != record.case.target:
        intro += " It is other hardware, and the ratios hold that too."
    by_gpu = phrases.grouped(rows, lambda row: row["gpu"])
    tables = [block for group in by_gpu.values() for block in _gpu_section(record, group)]
    return [intro, *(tables or ["No load point was both measured and published."])]


def _as_published(value: float | None) -> Cell | None:
    return None if value is None else Cell(f"{value:g}", value)


def _latency_columns(name: str) -> list[Column[PointRow[NvidiaRow]]]:
    title, published = name.capitalize(), f"latency_{name}_ms"

    def measured(row: PointRow[NvidiaRow]) -> fields.Estimate | None:
        return row.result.latency_ms.get(name)

    return [
        Column(f"{title} Latency", measured, LATENCY),
        Column(f"{title}, published", lambda row: _as_published(row.detail[published]), LATENCY),
        Column(f"{title} ratio", lambda row: ratio_to_nvidia(measured(row), row.detail[published]), RATIO),
    ]


_COLUMNS: Sequence[Column[PointRow[NvidiaRow]]] = (
    Column("Load point", lambda row: phrases.full_point_text(row.result.point)),
    Column("Inferences/second", lambda row: row.result.throughput_per_s, THROUGHPUT),
    Column("Published", lambda row: _as_published(row.detail["throughput_per_s"]), THROUGHPUT),
    Column(
        "Ratio",
        lambda row: ratio_to_nvidia(row.result.throughput_per_s, row.detail["throughput_per_s"]),
        RATIO,
        "interval",
    ),
    *_latency_columns("p99"),
    *_latency_columns("avg"),
)


def _gpu_section(record: Publishable, rows: Sequence[NvidiaRow]) -> list[Block]:
    """Heading, differences and table for one published GPU; empty if no load point of it was measured."""
    results = {result.point: result for result in record.points}
    points = [PointRow(record, results[at], row) for row in rows if (at := nvidia_point(row)) in results]
    if not points:
        return []
    row = rows[0]
    differ = dict.fromkeys(difference for point in points for difference in differences(record, point.detail))
    lines = [f"Differs: {'; '.join(differ) or 'nothing that both sides state'}"]
    if row["sequence_length"]:
        measured = phrases.sequence_length(record).replace("-", "not recorded")
        lines.append(f"Sequence length: {measured}, published {row['sequence_length']}")
    for score in record.accuracy.scores if record.accuracy else ():
        if score.metric == row["metric"]:
            served = SCORE.text(score.served)
            lines.append(f"{score.metric}: {served} served, {row['score_percent']:g} % published")
    shown = table(_COLUMNS, points, marks=lambda row: row.result.marks)
    return [Heading(f"Beside {row['gpu_label']}", 3), Bullets(lines), shown]


_SETTINGS = {
    "max_batch_size": ("max batch size", ("offline", "online")),
    "instances": ("instances", ("offline", "online")),
    "cuda_graphs": ("CUDA graphs", ("offline", "online")),
    "max_queue_delay_us": ("max queue delay in µs", ("online",)),
    "preferred_batch_sizes": ("preferred batch sizes", ("online",)),
}
"""Settings that both sides may state, and the scenarios they act in: offline, the dynamic batcher is off."""


def differences(record: Record, row: NvidiaRow) -> list[str]:
    """The differences, with the measured value first; a setting that the source leaves out is none."""
    parts = []
    if row["gpu"] != record.case.target:
        parts.append(f"hardware {phrases.device_text(record)}, published {row['gpu_label']}")
    if record.serving and record.serving.backend == "python":
        parts.append("Triton's Python backend, published the format's own")
    if record.build.has_random_weights:
        parts.append("weights random, published trained")
    for name, (label, scenarios) in _SETTINGS.items():
        measured, published = map(phrases.setting_text, (getattr(record.deployment, name), row[name]))
        if row["scenario"] in scenarios and row[name] is not None and measured != published:
            parts.append(f"{label} {measured}, published {published}")
    return parts
