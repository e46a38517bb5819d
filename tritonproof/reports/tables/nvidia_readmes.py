"""Measured figures beside NVIDIA's published ones: a table for each published GPU, and what differs."""

from collections.abc import Sequence

from tritonproof.record.quantities import LATENCY, RATIO, SCORE, THROUGHPUT, WIDEST_RATIO
from tritonproof.record.schema import Estimate, Record
from tritonproof.reports import nvidia_readmes, phrases
from tritonproof.reports.nvidia_readmes import NvidiaMatch, NvidiaPair, NvidiaRow, ratio_to_nvidia
from tritonproof.reports.publishable import Publishable
from tritonproof.reports.tables.rendering import code
from tritonproof.reports.tables.table import Block, Bullets, Cell, Column, Heading, table


def nvidia_blocks(matches: Sequence[NvidiaMatch]) -> list[Block]:
    """A section per case, with a table per published GPU, and the cases without a published counterpart."""
    blocks: list[Block] = [Heading("Measured beside published", 1)]
    compared = [match for match in matches if match.rows]
    if compared:
        blocks.append(nvidia_legend(matches))
    for match in compared:
        blocks += [Heading(match.record.name, 2), *nvidia_section(match)]
    without_rows = (match for match in matches if match.why_no_rows)
    by_reason = phrases.grouped(without_rows, lambda match: match.why_no_rows)
    lines = []
    for reason, group in by_reason.items():
        lines.append(f"{', '.join(code(match.record.name) for match in group)}: {reason}")
    return [*blocks, Heading("Not compared", 2), Bullets(lines)] if lines else blocks


def nvidia_legend(matches: Sequence[NvidiaMatch]) -> str:
    levels = phrases.confidence_levels([result for match in matches for result in match.record.points])
    interval = f"{levels} interval" if levels else "interval"
    return (
        "Ratios are measured over published: above 1 is more throughput, or a longer latency. In brackets is "
        f"the measured {interval} over the published value, which was published without one; a ratio whose "
        f"interval is wider than a factor of {WIDEST_RATIO:g} is not shown. Latencies are in milliseconds. "
        "What the published figures leave out: tritonproof/reports/nvidia_readmes/README.md."
    )


def nvidia_section(match: NvidiaMatch) -> list[Block]:
    record, rows = match.record, match.rows
    if record.why_no_speed:
        return [record.why_no_speed]
    labels = ", ".join(dict.fromkeys(row["gpu_label"] for row in rows))
    intro = f"Measured on {phrases.device_text(record)}; published on {labels}."
    if rows[0]["gpu"] != record.case.target:
        intro += " It is other hardware, and the ratios hold that too."
    by_gpu = phrases.grouped(rows, lambda row: row["gpu"])
    tables = [block for group in by_gpu.values() for block in _gpu_section(record, group)]
    return [intro, *(tables or ["No load point was both measured and published."])]


def _as_published(value: float | None) -> Cell | None:
    return None if value is None else Cell(f"{value:g}", value)


def _latency_columns(name: str) -> list[Column[NvidiaPair]]:
    title, published = name.capitalize(), f"latency_{name}_ms"

    def measured(pair: NvidiaPair) -> Estimate | None:
        return pair.result.latency_ms.get(name)

    return [
        Column(f"{title} Latency", measured, LATENCY),
        Column(f"{title}, published", lambda pair: _as_published(pair.row[published]), LATENCY),
        Column(f"{title} ratio", lambda pair: ratio_to_nvidia(measured(pair), pair.row[published]), RATIO),
    ]


_COLUMNS: Sequence[Column[NvidiaPair]] = (
    Column("Load point", lambda pair: phrases.full_point_text(pair.result.point)),
    Column("Inferences/second", lambda pair: pair.result.throughput_per_s, THROUGHPUT),
    Column("Published", lambda pair: _as_published(pair.row["throughput_per_s"]), THROUGHPUT),
    Column(
        "Ratio",
        lambda pair: ratio_to_nvidia(pair.result.throughput_per_s, pair.row["throughput_per_s"]),
        RATIO,
        "interval",
    ),
    *_latency_columns("p99"),
    *_latency_columns("avg"),
)


def _gpu_section(record: Publishable, rows: Sequence[NvidiaRow]) -> list[Block]:
    """Heading, differences and table for one published GPU; empty without pairs."""
    row, pairs = rows[0], nvidia_readmes.pairs(record, rows)
    if not pairs:
        return []
    differ = dict.fromkeys(difference for pair in pairs for difference in differences(record, pair.row))
    lines = [f"Differs: {'; '.join(differ) or 'nothing that both sides state'}"]
    if row["sequence_length"]:
        measured = phrases.sequence_length(record).replace("-", "not recorded")
        lines.append(f"Sequence length: {measured}, published {row['sequence_length']}")
    for score in record.accuracy.scores if record.accuracy else ():
        if score.metric == row["metric"]:
            served = SCORE.text(score.served)
            lines.append(f"{score.metric}: {served} served, {row['score_percent']:g} % published")
    shown = table(_COLUMNS, pairs, marks=lambda pair: pair.result.marks)
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
    """The differences, measured first; a setting that the source leaves out is none."""
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
