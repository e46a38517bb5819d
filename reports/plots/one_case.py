"""The load points of one case as plots: sweeps of batch and concurrency, latency over throughput, components."""

from collections.abc import Callable, Iterable, Sequence

from reports.plots.captions import (
    caption,
    intervals_note,
    is_marked,
    mark_notes,
    open_intervals_note,
    subtitle,
)
from reports.plots.shapes import (
    Bar,
    Budget,
    Chart,
    Curve,
    NothingToShowError,
    PlottedPoint,
    Series,
    Stack,
    StackPanel,
    Sweep,
)
from reports.record.schema import COMPONENTS, Load, verdict_of
from reports.text.labels import point
from reports.text.publishable import Publishable


def batch_sweep(records: Sequence[Publishable], budget_ms: float | None) -> Chart:
    """Offline: throughput and latency against the client's batch size."""
    record, loads = _measured(records, "offline", lambda load: load.request_rate_per_s is None)
    series = _series(loads, lambda load: load.batch, lambda load: f"{load.concurrency} in flight")
    return _sweep("batch-sweep", "client batch size", record, loads, series, budget_ms)


def concurrency_sweep(records: Sequence[Publishable], budget_ms: float | None) -> Chart:
    """Online: throughput and latency against the number of requests in flight."""
    record, loads = _measured(records, "online", lambda load: load.request_rate_per_s is None)
    series = _series(loads, lambda load: load.concurrency, lambda load: f"client batch {load.batch}")
    return _sweep("concurrency-sweep", "concurrency", record, loads, series, budget_ms)


def throughput_latency(records: Sequence[Publishable], budget_ms: float | None) -> Chart:
    """Online: what latency a throughput costs, with the budget and what a search within it found."""
    record, loads = _measured(records, "online", lambda _: True)
    budget = _budget(record, budget_ms)
    latency = budget.percentile if budget else "p99"
    series = _series(loads, _load_size, _kind_of_load)
    content = Curve(latency, series, budget, _winner(record))
    return _chart("throughput-latency", "Latency over throughput, online", record, loads, content)


def latency_components(records: Sequence[Publishable], _budget_ms: float | None) -> Chart:
    """Where the mean time of a request goes, at each load point."""
    record, loads = _measured(records, None, lambda load: bool(load.components_ms), least=1)
    panels: dict[tuple[str, str], list[Bar]] = {}
    for load in sorted(
        loads, key=lambda load: (load.scenario, load.request_rate_per_s or 0, _load_size(load))
    ):
        components = {name: load.components_ms.get(name, 0.0) for name in COMPONENTS}
        panels.setdefault(_bars_of(load), []).append(
            Bar(f"{_load_size(load):g}", components, is_marked(load))
        )
    content = Stack([StackPanel(title, x_label, bars) for (title, x_label), bars in panels.items()])
    return _chart("latency-components", "Where the time of a request goes", record, loads, content)


def _measured(
    records: Sequence[Publishable], scenario: str | None, wanted: Callable[[Load], bool], least: int = 2
) -> tuple[Publishable, list[Load]]:
    """The case and its load points; NothingToShowError where there are too few, or no speed may be shown."""
    if len(records) != 1:
        raise NothingToShowError(f"This plot shows one case, and there are {len(records)}.")
    record = records[0]
    if record.no_speed:
        raise NothingToShowError(record.no_speed)
    loads = [load for load in record.loads if scenario in (None, load.scenario) and wanted(load)]
    if len(loads) < least:
        name, only = f"{scenario} load point" if scenario else "load point", "Only one" if loads else "No"
        raise NothingToShowError(f"{only} {name} has been measured" + (": no curve." if loads else "."))
    return record, loads


def _series(
    loads: Iterable[Load], size: Callable[[Load], float], kind: Callable[[Load], str]
) -> list[Series]:
    """Lines of points that differ in size alone."""
    found: dict[str, list[PlottedPoint]] = {}
    for load in sorted(loads, key=lambda load: (load.request_rate_per_s or 0, load.concurrency, load.batch)):
        found.setdefault(kind(load), []).append(_point(load, size(load)))
    return [
        Series(name if len(found) > 1 else "", sorted(points, key=lambda point: point.x))
        for name, points in found.items()
    ]


def _point(load: Load, size: float) -> PlottedPoint:
    return PlottedPoint(size, point(load), load.throughput_per_s, load.latency_ms, is_marked(load))


def _sweep(
    name: str,
    x_label: str,
    record: Publishable,
    loads: Sequence[Load],
    series: Sequence[Series],
    budget_ms: float | None,
) -> Chart:
    budget = _budget(record, budget_ms)
    percentile = budget.percentile if budget else "p99"
    latencies = [percentile] if len(series) > 1 else [*dict.fromkeys(("avg", percentile, "p99"))]
    title = f"Throughput and latency against {x_label}, {loads[0].scenario}"
    return _chart(name, title, record, loads, Sweep(x_label.capitalize(), latencies, series, budget))


def _chart(
    name: str, title: str, record: Publishable, loads: Sequence[Load], content: Sweep | Curve | Stack
) -> Chart:
    is_stack = isinstance(content, Stack)
    notes = [] if is_stack else [intervals_note([record]), *open_intervals_note(loads)]
    named = ((point(load), load) for load in sorted(loads, key=_load_size))
    notes += mark_notes(named, "Starred (*)" if is_stack else "Hollow")
    return Chart(name, title, subtitle([record]), content, notes, caption([record]))


def _budget(record: Publishable, given_ms: float | None) -> Budget | None:
    """The budget asked for now, else that of the case's search."""
    search = record.search
    if given_ms is not None:
        return Budget(search.percentile if search else "p99", given_ms)
    return Budget(search.percentile, search.budget_ms) if search else None


def _winner(record: Publishable) -> PlottedPoint | None:
    """What a search found, where it kept its budget and is proven to be right."""
    search = record.search
    if search is None or verdict_of(search) == "failed" or record.no_winner:
        return None
    return _point(search.load, _load_size(search.load))


def _load_size(load: Load) -> float:
    if load.request_rate_per_s is not None:
        return load.request_rate_per_s
    return load.batch if load.scenario == "offline" else load.concurrency


def _kind_of_load(load: Load) -> str:
    batch = f", client batch {load.batch}" if load.batch != 1 else ""
    return (f"{load.arrivals} rate" if load.request_rate_per_s is not None else "concurrency") + batch


def _bars_of(load: Load) -> tuple[str, str]:
    """Title and x axis of the panel that a load point belongs into."""
    if load.scenario == "offline":
        return "Offline", "Client batch size"
    batch = f", client batch {load.batch}" if load.batch != 1 else ""
    if load.request_rate_per_s is None:
        return f"Online{batch}", "Concurrency"
    return f"Online, {load.arrivals}{batch}", "Requests per second"
