"""What a picture shows, in words: for `<desc>`, and shorter for `alt`."""

from collections.abc import Iterator, Sequence

from reports.plots.shapes import (
    Budget,
    Chart,
    Curve,
    PlottedPoint,
    RowPanel,
    Rows,
    Series,
    Stack,
    Sweep,
    Trend,
)
from reports.record.quantities import (
    ERROR,
    LATENCY,
    LATENCY_BUDGET,
    RATIO,
    SCORE,
    SHARE,
    THROUGHPUT,
    Quantity,
)
from reports.record.schema import Estimate

_QUANTITIES = {"throughput": THROUGHPUT, "score": SCORE, "error": ERROR, "share": SHARE, "ratio": RATIO}
"""How the values of a panel are written, by RowPanel.quantity."""


def description(chart: Chart) -> str:
    """Title, every number drawn, notes and caption."""
    lines = [f"{chart.title}: {chart.subtitle}.", *_numbers(chart), *chart.notes, f"{chart.caption}."]
    return " ".join(lines)


def alternative(chart: Chart) -> str:
    """A sentence or two that stand for the picture where it is not seen."""
    return f"{chart.title}, {chart.subtitle}: {_gist(chart)}."


def latency_name(name: str) -> str:
    """`mean` or the percentile."""
    return "mean" if name == "avg" else name


def budget_text(budget: Budget) -> str:
    """`budget: p99 10 ms`."""
    return f"budget: {budget.percentile} {LATENCY_BUDGET.text(budget.ms)}"


def _numbers(chart: Chart) -> Iterator[str]:
    content = chart.content
    if isinstance(content, Sweep):
        yield from _of_series(content.series, content.latencies)
    elif isinstance(content, Curve):
        yield from _of_series(content.series, [content.latency])
        if content.winner:
            yield f"Found by the search: {_point(content.winner, [content.latency])}"
    elif isinstance(content, Stack):
        for panel in content.panels:
            for bar in panel.bars:
                parts = ", ".join(
                    f"{component_name(name)} {LATENCY.cell(ms)}" for name, ms in bar.components_ms.items()
                )
                yield f"{panel.title}, {panel.x_label.lower()} {bar.name}, milliseconds: {parts}."
    elif isinstance(content, Trend):
        for trend_panel in content.panels:
            yield f"{trend_panel.title}:"
            yield from (row.said for row in trend_panel.rows)
    else:
        yield from _of_rows(content)
    if isinstance(content, Sweep | Curve) and content.budget:
        yield f"{budget_text(content.budget).capitalize()}."


def component_name(name: str) -> str:
    """`server compute infer`, `network, server send/receive`."""
    names = {"network_server_send_recv": "network, server send/receive", "client_recv": "client receive"}
    return names.get(name, name.replace("_", " "))


def _of_series(series: Sequence[Series], latencies: Sequence[str]) -> Iterator[str]:
    for one in series:
        name = f"{one.name}, " if one.name else ""
        for point in one.points:
            yield f"{name}{_point(point, latencies)}"


def _point(point: PlottedPoint, latencies: Sequence[str]) -> str:
    found = "".join(
        f", {latency_name(name)} latency {_interval(LATENCY, point.latency_ms[name])} ms"
        for name in latencies
        if name in point.latency_ms
    )
    return f"{point.name}: {_interval(THROUGHPUT, point.throughput_per_s)} inferences per second{found}."


def _of_rows(rows: Rows) -> Iterator[str]:
    for panel in rows.panels:
        quantity = _QUANTITIES[panel.quantity]
        yield f"{panel.title}, {panel.axis}:"
        for row in panel.rows:
            values = [f"{name} {_interval(quantity, value)}" for name, value in row.values.items()]
            limit = [f"limit {_cell(quantity, row.limit)}"] if row.limit is not None else []
            yield f"{row.name}: {', '.join([*values, *limit]) or row.text}."


def _gist(chart: Chart) -> str:
    """The first and the last of the points, or the range of the rows."""
    content = chart.content
    if isinstance(content, Stack):
        bars = [bar for panel in content.panels for bar in panel.bars]
        return f"latency components of {len(bars)} load points" if len(bars) > 1 else "latency components"
    if isinstance(content, Rows):
        return "; ".join(_panel_gist(panel, content) for panel in content.panels)
    if isinstance(content, Trend):
        steps = [
            f"{row.name} {step.text}" for panel in content.panels for row in panel.rows for step in row.steps
        ]
        return f"steps: {', '.join(steps)}" if steps else "no step"
    latencies = content.latencies if isinstance(content, Sweep) else [content.latency]
    points = [point for one in content.series for point in one.points]
    ends = points if len(points) == 1 else [points[0], points[-1]]
    return "; ".join(_brief(point, latencies[-1]) for point in ends)


def _brief(point: PlottedPoint, latency: str) -> str:
    throughput = THROUGHPUT.text(point.throughput_per_s.value)
    return (
        f"{point.name}: {throughput}, {latency_name(latency)} {LATENCY.text(point.latency_ms[latency].value)}"
    )


def _panel_gist(panel: RowPanel, content: Rows) -> str:
    """`resnet50: onnx-fp32 98.2`, or `resnet50: 823 (ts-trace-fp32) to 3,824 (onnx-int8)`."""
    title, quantity = panel.title, _QUANTITIES[panel.quantity]
    last = list(content.names)[-1] if len(content.names) == 3 else next(iter(content.names))
    found = sorted((row.values[last].value, row.name) for row in panel.rows if last in row.values)
    if not found:
        return f"{title}: {panel.rows[0].text}"
    ends = found if len(found) == 1 else [found[0], found[-1]]
    if ends[0][0] == ends[-1][0]:
        return f"{title}: {_cell(quantity, ends[0][0])}"
    return f"{title}: {' to '.join(f'{_cell(quantity, value)} ({name})' for value, name in ends)}"


def _cell(quantity: Quantity, value: float) -> str:
    """A value that is in the quantity's unit already."""
    return quantity.cell(value / quantity.scale)


def _interval(quantity: Quantity, one: Estimate) -> str:
    """With its interval, where it has one; in the quantity's unit already."""
    if one.low == one.high and not one.open_above:
        return _cell(quantity, one.value)
    bounds = (bound / quantity.scale for bound in (one.value, one.low, one.high))
    return quantity.cell_with_interval(Estimate(*bounds, open_above=one.open_above))
