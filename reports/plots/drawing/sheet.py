"""A figure that is laid out in inches from its top left, so that nothing depends on a layout engine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from reports.plots.theme import WIDTH_IN, Look
from reports.record.schema import Estimate


@dataclass(frozen=True)
class Sheet:
    """The figure, its look, and where its content begins."""

    figure: Figure
    look: Look
    height_in: float
    top_in: float

    def axes(self, left: float, top: float, width: float, height: float, **options: Any) -> Axes:
        """Axes of this size; inches from the left edge and from the top of the content."""
        bottom = self.height_in - self.top_in - top - height
        size = (
            left / WIDTH_IN,
            bottom / self.height_in,
            width / WIDTH_IN,
            height / self.height_in,
        )
        return self.figure.add_axes(size, **options)

    def text(self, left: float, top: float, text: str, **options: Any) -> None:
        """A line of text whose baseline lies `top` below the top of the content."""
        self.figure.text(left / WIDTH_IN, 1 - (self.top_in + top) / self.height_in, text, **options)


def reach(one: Estimate) -> tuple[tuple[float], tuple[float]]:
    """How far an interval goes to either side of its value, as error bars take it."""
    return (max(one.value - one.low, 0.0),), (max(one.high - one.value, 0.0),)


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Places moved apart, as little as it takes, so that neighbours keep `gap`; in the order given."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = [places[i] for i in order]
    for _ in range(50):
        for i in range(len(moved) - 1):
            overlap = gap - (moved[i + 1] - moved[i])
            if overlap > 1e-9:
                moved[i] -= overlap / 2
                moved[i + 1] += overlap / 2
    return [place for _, place in sorted(zip(order, moved, strict=True))]


def plain(value: float, _place: int | None = None) -> str:
    """A tick's label: exact, with thousands apart."""
    return f"{value:,.9g}"


def ticks(axis: Axis) -> None:
    """Put about five ticks at round numbers on an axis."""
    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(plain))


def thinned(values: Sequence[float], distance: Callable[[float, float], float], least: float) -> list[float]:
    """Sorted values without those that come too close after the one before."""
    kept: list[float] = []
    for value in sorted(values):
        if not kept or distance(kept[-1], value) >= least:
            kept.append(value)
    return kept
