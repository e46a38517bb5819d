"""Pictures of records: `available` says which there are to show, `svg` and `png` draw one.

matplotlib is imported when something is drawn with it, so that what a picture shows can be checked without it.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from reports.plots import across_cases, alt_text, one_case
from reports.plots.shapes import Chart, NothingToShowError, Trend
from reports.plots.theme import LOOKS, Theme
from reports.text.publishable import Publishable

THEMES: tuple[Theme, ...] = ("light", "dark")

DRAWING = 2
"""Counted up when drawings change, so that files drawn before are drawn anew."""

_DIGEST = re.compile(r'<svg[^>]* data-digest="([0-9a-f]{64})"')


@dataclass(frozen=True)
class Plot:
    """A kind of picture that `plots` can draw."""

    shows: str
    of: Literal["one", "any", "several"]
    """How many cases it shows; one of several works for one too, and is not offered."""
    chart: Callable[[Sequence[Publishable], float | None], Chart]
    """Gives what the picture shows of records, with a latency budget in milliseconds; NothingToShowError says why
    nothing."""


PLOTS: Mapping[str, Plot] = {
    "batch-sweep": Plot("throughput and latency against batch, offline", "one", one_case.batch_sweep),
    "concurrency-sweep": Plot(
        "throughput and latency against concurrency, online", "one", one_case.concurrency_sweep
    ),
    "throughput-latency": Plot(
        "latency over throughput, online, with the budget", "one", one_case.throughput_latency
    ),
    "latency-components": Plot(
        "where the time of a request goes, stacked", "one", one_case.latency_components
    ),
    "accuracy-ledger": Plot(
        "accuracy after each stage beside its limit", "any", across_cases.accuracy_ledger
    ),
    "best-throughput": Plot("the best throughput of each case", "several", across_cases.best_throughput),
    "efficiency": Plot("served throughput over that in process and the peak", "any", across_cases.efficiency),
    "comparison": Plot("speed beside that of another build", "any", across_cases.comparison),
}


def available(records: Sequence[Publishable]) -> list[str]:
    """Names of the plots that have something to show of `records`; of one record `[record]`."""
    offered = (name for name, plot in PLOTS.items() if len(records) > 1 or plot.of != "several")
    return [name for name in offered if _has_something(name, records)]


def chart(name: str, records: Sequence[Publishable], latency_budget_ms: float | None = None) -> Chart:
    """What a plot shows; NothingToShowError, with a sentence to put in its place, where it shows nothing."""
    return PLOTS[name].chart(records, latency_budget_ms)


def svg(
    name: str, records: Sequence[Publishable], theme: Theme = "light", latency_budget_ms: float | None = None
) -> str:
    """An `<svg>` element of 620 points' width, to stand in a file or in a page; the same records give the same text
    by one version of matplotlib. NothingToShowError as `chart`."""
    return chart_svg(chart(name, records, latency_budget_ms), theme)


def png(
    name: str, records: Sequence[Publishable], theme: Theme = "light", latency_budget_ms: float | None = None
) -> bytes:
    """The picture as PNG, at 200 dots per inch. NothingToShowError as `chart`."""
    from reports.plots.drawing import chart as plotted

    shown = chart(name, records, latency_budget_ms)
    assert not isinstance(shown.content, Trend)
    return plotted.png(shown, shown.content, theme)


def chart_svg(shown: Chart, theme: Theme) -> str:
    """The `<svg>` element of what a picture shows, as `svg`."""
    description, of_all = alt_text.description(shown), digest(shown, theme)
    if isinstance(shown.content, Trend):
        from reports.plots.drawing import trend

        return trend.svg(shown, shown.content, LOOKS[theme], description, of_all)
    from reports.plots.drawing import chart as plotted

    return plotted.svg(shown, shown.content, theme, description, of_all)


def digest(shown: Chart, theme: Theme) -> str:
    """SHA-256 of everything that is drawn."""
    data = {"drawing": DRAWING, "theme": theme, "chart": shown}
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=msgspec.to_builtins).encode()).hexdigest()


def digest_of(text: str) -> str | None:
    """The digest that a whole SVG of this module carries; None of any other text."""
    found = _DIGEST.search(text)
    return found[1] if found and text.rstrip().endswith("</svg>") else None


def _has_something(name: str, records: Sequence[Publishable]) -> bool:
    try:
        chart(name, records)
    except NothingToShowError:
        return False
    return True
