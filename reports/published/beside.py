"""Records beside the published figures as markdown: a section per case, in it a table per published GPU."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from reports.published.joined import differences, joined_row, score_percent_of
from reports.published.matching import (
    Match,
    PointKey,
    PublishedRow,
    format_name,
    groups,
    is_same_format,
    is_same_gpu,
    measured_as,
    measured_points,
    pairs,
    point_of,
    served_as,
)
from reports.record.quantities import LATENCY, NOT_SHOWN, NOTHING, RATIO, SCORE, WIDEST_RATIO
from reports.record.schema import Estimate, Load, Record
from reports.words.grouping import grouped
from reports.words.labels import confidence_levels, device, full_point, marked_throughput, sequence_length
from reports.words.markdown import markdown, text
from reports.words.marks import marked_points
from reports.words.shown import Shown, name_of

_TABLE = (
    "Load point",
    *("Inferences/second", "Published", "Ratio"),
    *("P99 Latency", "P99, published", "P99 ratio"),
    *("Avg Latency", "Avg, published", "Avg ratio"),
)

# What a scenario sweeps, and the option of the benchmarks that chooses it.
_SWEEPS = {"offline": ("batch", "--batches"), "online": ("concurrency", "--concurrencies")}


def document(matches: Sequence[Match]) -> str:
    """All records as markdown: a section per case, in it a table per published GPU."""
    sections = [f"## {name_of(one.record)}\n\n{section(one)}" for one in matches if one.rows]
    blocks = ["# Measured beside published"]
    if sections:
        blocks += [legend(matches), *sections]
    if lines := not_compared(matches):
        blocks += ["## Not compared", "\n".join(f"- {text(line)}" for line in lines)]
    return "\n\n".join(blocks)


def not_compared(matches: Sequence[Match]) -> list[str]:
    """A line for each reason why cases have no published counterpart, with their names."""
    missing = grouped((one for one in matches if one.missing), lambda one: one.missing)
    return [
        f"{', '.join(f'`{name_of(one.record)}`' for one in found)}: {reason}"
        for reason, found in missing.items()
    ]


def remarks(matches: Sequence[Match]) -> list[str]:
    """What the tidy table cannot hold: the cases without rows, and the points of others without a pair."""
    points = [f"`{name_of(one.record)}`: {line}" for one in matches if one.rows for line in _unmatched(one)]
    return points + not_compared(matches)


def _unmatched(match: Match) -> list[str]:
    """A line for the points that were measured alone, and one for those published alone with their command."""
    record = match.record
    measured, figures = set(measured_points(record)), set(map(point_of, match.rows))
    lines = [] if measured & figures else ["No load point was both measured and published."]
    if alone := measured - figures:
        lines.append(f"{_counted(alone, 'measured')} not published: {_listed(alone)}.")
    if alone := figures - measured:
        how = _how(record, figures, alone)
        lines.append(f"{_counted(alone, 'published')} not measured: {_listed(alone)}. {how}")
    return lines


def legend(matches: Sequence[Match]) -> str:
    """How the tables are to be read."""
    levels = confidence_levels([load for one in matches for load in one.record.loads])
    interval = f"{levels} interval" if levels else "interval"
    return (
        "Ratios are measured over published: above 1 is more throughput, or a longer latency. In brackets is "
        f"the measured {interval} over the published value, which was published without one; a ratio whose interval "
        f"is wider than a factor of {WIDEST_RATIO:g} is not shown. Latencies are in milliseconds. What the published figures leave out: reports/published/README.md."
    )


def section(match: Match) -> str:
    """What stands below the heading of a case that has published rows."""
    record, rows = match.record, match.rows
    if record.no_speed:
        return text(record.no_speed)
    labels = ", ".join(dict.fromkeys(row["gpu_label"] for row in rows))
    intro = f"Measured on {device(record)}; published on {labels}."
    if not is_same_gpu(record, rows[0]):
        intro += " It is other hardware, and the ratios hold that too."
    if not is_same_format(record, rows[0]):
        intro += f" NVIDIA did not publish {format_name(measured_as(record))}: what follows is not alike."
    tables = [_table(record, group) for group in groups(match)]
    return "\n\n".join([text(intro), *filter(None, tables), *_unmatched(match)])


def _table(record: Shown, rows: Sequence[PublishedRow]) -> str:
    """Heading, differences, table and marked points for one published GPU and format; empty without pairs."""
    found = [(at, row) for at, row in pairs(record, rows) if isinstance(at, Load)]
    if not found:
        return ""
    row = rows[0]
    heading = f"### Beside {row['gpu_label']}"
    if not is_same_format(record, row):
        heading += (
            f", unlike: measured {format_name(measured_as(record))}, published {format_name(served_as(row))}"
        )
    lines = [f"Differs: {_summary(record, [row for _, row in found])}"]
    if row["sequence_length"]:
        measured = sequence_length(record).replace("-", "not recorded")
        lines.append(f"Sequence length: {measured}, published {row['sequence_length']}")
    score = score_percent_of(record, row["metric"])
    if score is not None:
        lines.append(
            f"{row['metric']}: {SCORE.text(score / 100)} served, {row['score_percent']:g} % published"
        )
    cells = [_cells(load, joined_row(record, load, row)) for load, row in found]
    blocks = [heading, "\n".join(f"- {text(line)}" for line in lines), markdown(_TABLE, cells, "l" + "r" * 9)]
    return "\n\n".join(blocks + marked_points((full_point(load), load) for load, _ in found))


def _summary(record: Record, rows: Sequence[PublishedRow]) -> str:
    """The differences of all rows, each once; one of a single scenario says so where there are both."""
    found: dict[str, set[str]] = {}
    for row in rows:
        for difference in differences(record, row):
            found.setdefault(difference, set()).add(row["scenario"])
    every = {row["scenario"] for row in rows}
    parts = [
        difference if scenarios == every else f"{difference} ({min(scenarios)} only)"
        for difference, scenarios in found.items()
    ]
    return "; ".join(parts) or "nothing that both sides state"


def _cells(load: Load, pair: Mapping[str, Any]) -> list[str]:
    cells = [
        full_point(load),
        marked_throughput(load),
        _as_published(pair["throughput_published_per_s"]),
        _ratio_cell(pair, "throughput", "per_s", interval=True),
    ]
    for name in ("latency_p99", "latency_avg"):
        cells += [
            LATENCY.cell(pair[f"{name}_ms"]),
            _as_published(pair[f"{name}_published_ms"]),
            _ratio_cell(pair, name, "ms", interval=False),
        ]
    return cells


def _ratio_cell(pair: Mapping[str, Any], name: str, unit: str, *, interval: bool) -> str:
    """The ratio; `not shown` where both figures are there and the interval is too wide for it."""
    value, low, high = (pair[f"{name}_ratio{part}"] for part in ("", "_low", "_high"))
    if value is None:
        has_both = pair[f"{name}_{unit}"] is not None and pair[f"{name}_published_{unit}"]
        return NOT_SHOWN if has_both else NOTHING
    return RATIO.cell_with_interval(Estimate(value, low, high)) if interval else RATIO.cell(value)


def _as_published(value: float | None) -> str:
    """A published figure with the digits that the source printed."""
    return "-" if value is None else f"{value:g}"


def _counted(points: Set[PointKey], kind: str) -> str:
    return f"1 {kind} point was" if len(points) == 1 else f"{len(points)} {kind} points were"


def _listed(points: Set[PointKey]) -> str:
    sweeps = ((scenario, what, _sizes(points, scenario)) for scenario, (what, _) in _SWEEPS.items())
    return "; ".join(f"{scenario}, {what} {sizes}" for scenario, what, sizes in sweeps if sizes)


def _sizes(points: Iterable[PointKey], scenario: str) -> str:
    """Batch sizes offline, concurrencies online."""
    place = 1 if scenario == "offline" else 2
    return ",".join(map(str, sorted({point[place] for point in points if point[0] == scenario})))


def _how(record: Record, figures: Set[PointKey], alone: Set[PointKey]) -> str:
    """The command that measures published points; results join a record only at the same largest batch."""
    largest = max((batch for _, batch, _ in alone), default=0)
    grows = largest > record.deployment.max_batch_size
    command = f".venv/bin/tox run -e benchmarks -- -k {name_of(record)}"
    for scenario, (_, option) in _SWEEPS.items():
        if sizes := _sizes(figures if grows else alone, scenario):
            command += f" {option} {sizes}"
    if grows:
        return f"Measure the case anew: `{command} --deployment max_batch_size={largest}`"
    return f"Measure them, with the other options of the case's run: `{command}`"
