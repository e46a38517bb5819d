"""The content of a picture in words: long for `<desc>`, short for `alt`."""

from reports.plots.shapes import (
    Budget,
    Chart,
    PlottedPoint,
    RowPanel,
    Rows,
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

_QUANTITIES = {"throughput": THROUGHPUT, "score": SCORE, "error": ERROR, "share": SHARE, "ratio": RATIO}
"""How the values of a panel are written, by RowPanel.quantity."""


def description(chart: Chart) -> str:
    """What the picture shows, its notes and its caption; the tables of the same records have each number."""
    return " ".join([alternative(chart), *chart.notes, f"{chart.caption}."])


def alternative(chart: Chart) -> str:
    """A sentence or two that stand for the picture where it is not seen."""
    return f"{chart.title}, {chart.subtitle}: {_gist(chart)}."


def latency_name(name: str) -> str:
    """Names a latency in a sentence: `mean` or the percentile."""
    return "mean" if name == "avg" else name


def budget_text(budget: Budget) -> str:
    """Names a latency budget: `budget: p99 10 ms`."""
    return f"budget: {budget.percentile} {LATENCY_BUDGET.text(budget.ms)}"


def component_name(name: str) -> str:
    """`server compute infer`, `network, server send/receive`."""
    names = {"network_server_send_recv": "network, server send/receive", "client_recv": "client receive"}
    return names.get(name, name.replace("_", " "))


def _gist(chart: Chart) -> str:
    """The first and the last of the points, or the range of the rows."""
    content = chart.content
    if isinstance(content, Stack):
        bars = [bar for panel in content.panels for bar in panel.bars]
        return f"latency components of {len(bars)} load points" if len(bars) > 1 else "latency components"
    if isinstance(content, Rows):
        return "; ".join(_panel_gist(panel, content) for panel in content.panels)
    if isinstance(content, Trend):
        rows = [row for panel in content.panels for row in panel.rows if row.steps]
        return f"steps in {'; '.join(row.said for row in rows)}" if rows else "no step"
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
