"""What a picture shows, as plain values: made from records, turned into words, a digest or a drawing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from reports.record.schema import Estimate


class NothingToShowError(Exception):
    """Records that a plot has nothing to show of; the message is the sentence that stands in its place."""


@dataclass(frozen=True)
class Budget:
    """The latency that a percentile is to keep."""

    percentile: str
    ms: float


@dataclass(frozen=True)
class PlottedPoint:
    """A load point: `x` is its batch, concurrency or rate, `name` says which."""

    x: float
    name: str
    throughput_per_s: Estimate
    latency_ms: Mapping[str, Estimate]
    marked: bool
    """Whether it is to be read with care, and so is drawn hollow."""


@dataclass(frozen=True)
class Series:
    """Load points that a line joins; without a name where it is the only one."""

    name: str
    points: Sequence[PlottedPoint]


@dataclass(frozen=True)
class Sweep:
    """Throughput above, latency below, against batch or concurrency."""

    x_label: str
    latencies: Sequence[str]
    """Which are drawn: avg, p99 ...; one where there are several series."""
    series: Sequence[Series]
    budget: Budget | None


@dataclass(frozen=True)
class Curve:
    """Latency over throughput, a point per load."""

    latency: str
    series: Sequence[Series]
    budget: Budget | None
    winner: PlottedPoint | None
    """What a search within the budget found."""


@dataclass(frozen=True)
class Bar:
    """Where the mean time of a request went at one load point, in milliseconds."""

    name: str
    components_ms: Mapping[str, float]
    marked: bool


@dataclass(frozen=True)
class StackPanel:
    """Bars of one scenario and kind of load."""

    title: str
    x_label: str
    bars: Sequence[Bar]


@dataclass(frozen=True)
class Stack:
    """The components of the latency, stacked, for each load point."""

    panels: Sequence[StackPanel]


@dataclass(frozen=True)
class ValueRow:
    """One line of a panel: values by what they are, and what is said of them beside."""

    name: str
    values: Mapping[str, Estimate]
    """Empty where nothing may be shown; `text` then says why."""
    text: str
    marked: bool = False
    limit: float | None = None
    """The worst value that passes."""


@dataclass(frozen=True)
class RowPanel:
    """Rows that share an axis."""

    title: str
    axis: str
    rows: Sequence[ValueRow]
    quantity: Literal["throughput", "score", "error", "share", "ratio"]
    """What the values are; they are in its unit."""
    better: Literal["higher", "lower"] = "higher"


@dataclass(frozen=True)
class Rows:
    """Values of many cases, one row each."""

    kind: Literal["bars", "points"]
    names: Mapping[str, str]
    """The values in the order they are drawn, and what the legend calls them."""
    panels: Sequence[RowPanel]
    reference: float | None = None
    """The value at which a line is drawn across all rows, such as 100 %; None for no line."""
    whole: bool = False
    """Whether the axis starts at zero; bars always do."""


@dataclass(frozen=True)
class DrawnStep:
    """A lasting change, between two neighbouring points of a line."""

    x: float
    text: str
    """The size of the step as it is drawn: `-3.1 %`."""
    is_worse: bool


@dataclass(frozen=True)
class TrendRow:
    """One quantity over runs. Values are differences from their median, in the panel's unit."""

    name: str
    text: str
    """The value of the last run, with its unit."""
    said: str
    """The row's name and its steps in words, with the commits that they lie between."""
    xs: Sequence[float]
    values: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]
    steps: Sequence[DrawnStep]


@dataclass(frozen=True)
class TrendPanel:
    """Rows of one quantity, all drawn to one scale."""

    title: str
    unit: str
    rows: Sequence[TrendRow]
    reach: float
    """The difference from the median at which a row ends, in the unit; what is beyond is drawn at its edge."""


@dataclass(frozen=True)
class Trend:
    """How the figures of a case went from run to run."""

    panels: Sequence[TrendPanel]
    ticks: Sequence[tuple[float, str]]
    """Some runs along the axis, and what they are called."""


Plotted = Sweep | Curve | Stack | Rows
"""What matplotlib draws; the long lines of a trend are written as they are."""


@dataclass(frozen=True)
class Chart:
    """What one picture shows, with its title and what is written below it."""

    name: str
    title: str
    subtitle: str
    content: Plotted | Trend
    notes: Sequence[str]
    """What a reader should know, a line each."""
    caption: str
    """The hardware and the versions that were measured."""
