"""The three pictures of records: accuracy after each stage, best throughput, and latency over throughput.

A `Chart` is a picture's content as plain values, for the alternative text and the digest; `draw` draws it
with matplotlib, imported only then. The same records give the same picture by one version of matplotlib."""

import hashlib
import io
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

import msgspec

from tritonproof.base.sanitize import visible
from tritonproof.record import correctness, fields, speed
from tritonproof.record.quantities import LATENCY, LATENCY_BUDGET, METRICS, THROUGHPUT, Quantity
from tritonproof.reports import correctness_text, phrases
from tritonproof.reports.derived import fastest_point
from tritonproof.reports.publishable import Publishable
from tritonproof.reports.speed_text import BUDGET_WORDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Content = TypeVar("Content", covariant=True)
Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
DRAWING = 6
"""Counts up when drawings change, so that older files are drawn again."""
_STYLE = Path(__file__).with_suffix(".mplstyle")
_DIGEST = re.compile(r"<dc:identifier>([0-9a-f]{64})</dc:identifier>")
_STAGES = {"framework": "framework", "converted": "converted, in process", "served": "served by Triton"}
_WIDTH_IN, _ROW_IN, _AROUND_ROWS_IN, _CURVE_IN = 8.6, 0.24, 0.62, 3.9
"""8.6 inches are 620 points, the width of a README's column on a common screen."""
_COLOURS: Mapping[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "faint": ("#59636e", "#9198a1"),
    "grid": ("#d8dee4", "#30363d"),
    "first": ("#0072b2", "#56b4e9"),
    "second": ("#d55e00", "#e69f00"),
}
"""The colours of light and dark pages; lines have those of jfly.uni-koeln.de/color for the colour-blind."""


class NothingToShowError(Exception):
    """A plot has nothing to show of these records; the message is the sentence that replaces it."""


class PanelRow(NamedTuple):
    """A case in a panel: its values by name, and the text to the right."""

    name: str
    values: Mapping[str, fields.Estimate]
    """Empty if nothing may be shown; `text` then says why."""
    text: str
    is_marked: bool = False
    """Whether the case has marks; it is then drawn hollow."""
    limit: float | None = None
    """The worst value that passes."""


@dataclass(frozen=True)
class Panel:
    """The cases of a model, a row each: a bar from zero, or the scores after each stage with their limit."""

    title: str
    axis: str
    rows: Sequence[PanelRow]
    kind: Literal["bars", "stages"]


@dataclass(frozen=True)
class Curve:
    """Latency over throughput; a line joins the load points of a kind."""

    latency: str
    """Which latency: `p99`."""
    lines: Mapping[str, Sequence[speed.PointResult]]
    budget_ms: float | None
    winner: Mapping[str, speed.PointResult]
    """The result of a search that may keep the budget, by its label; empty without one."""


@dataclass(frozen=True)
class Chart:
    """The content of one picture, with its title and the text below it."""

    title: str
    subtitle: str
    gist: str
    """The range in words."""
    panels: Sequence[Panel] | Curve
    notes: Sequence[str]
    caption: str
    """The measured hardware and versions."""

    @property
    def alternative(self) -> str:
        return visible(f"{self.title}, {self.subtitle}: {self.gist}.")

    def digest(self, theme: Theme) -> str:
        """The SHA-256 of all that the picture is drawn from."""
        data = json.dumps([DRAWING, theme, self], sort_keys=True, default=msgspec.to_builtins)
        return hashlib.sha256(data.encode()).hexdigest()


def accuracy_chart(records: Sequence[Publishable]) -> Chart:
    """The score after each stage with its limit: for every metric of one case, or each case's first."""
    by_panel: dict[tuple[str, str], list[tuple[str, correctness.Score]]] = {}
    for record in records:
        if record.accuracy is not None and record.main_score is not None:
            for score in record.accuracy.scores if len(records) == 1 else record.accuracy.scores[:1]:
                key = (_model(record, records), score.metric)
                by_panel.setdefault(key, []).append((phrases.short_name(record.case), score))
    if not by_panel:
        raise NothingToShowError("No accuracy has been measured.")
    panels, gists = [], []
    for (model, metric), scores in by_panel.items():
        quantity = METRICS[better := scores[0][1].better]
        axis = f"{metric}{f', {quantity.unit}' if quantity.unit else ''} ({better} is better)"
        rows = []
        for name, score in scores:
            values = {stage: value for stage in _STAGES if (value := getattr(score, stage)) is not None}
            exact = {stage: fields.Estimate(*[quantity.scale * value] * 3) for stage, value in values.items()}
            limit, limit_text = score.tightest_limit, correctness_text.tightest_text(score)
            text = ", ".join(filter(None, (correctness_text.metric_text(score, score.served), limit_text)))
            worst = None if limit is None else quantity.scale * limit.value
            rows.append(PanelRow(name, exact, text if score.passed else f"{text}: fails", limit=worst))
        panels.append(Panel(model, axis, rows, "stages"))
        gists.append(_gist(model, rows, "served", quantity))
    missing = [record.name for record in records if record.main_score is None]
    notes = ["Upright line: the limit."]
    notes += [f"Without a score: {', '.join(missing)}."] if missing else []
    return _chart("Accuracy after each stage", records, "; ".join(gists), panels, notes)


def best_throughput(records: Sequence[Publishable]) -> Chart:
    """The highest throughput of each case that may show one, and the load point."""
    if not any(record.points for record in records):
        raise NothingToShowError("No case has a throughput to show.")
    panels, gists, codes = [], [], []
    for model, group in phrases.grouped(records, lambda record: _model(record, records)).items():
        rows = []
        for record in group:
            text = "no speed shown: not proven right" if record.hidden else "not measured"
            row = PanelRow(phrases.short_name(record.case), {}, text)
            if (best := fastest_point(record)) is not None:
                marks = [code for code in _codes(best) if code != "few-requests"]  # about latencies
                figure = THROUGHPUT.text_with_half_width(best.throughput_per_s, with_unit=False)
                text = f"{figure}, {phrases.full_point_text(best.point)}"
                row = PanelRow(row.name, {"throughput": best.throughput_per_s}, text, bool(marks))
                codes += marks
            rows.append(row)
        panels.append(Panel(model, "Inferences per second", rows, "bars"))
        gists.append(_gist(model, rows, "throughput", THROUGHPUT))
    notes = _notes(records, codes)
    random = [record.name for record in records if record.points and record.build.has_random_weights]
    notes += [f"Right by the conversion alone, with random weights: {', '.join(random)}."] if random else []
    return _chart("Best throughput", records, "; ".join(gists), panels, notes)


def throughput_latency(records: Sequence[Publishable]) -> Chart:
    """Latency over throughput in the online scenario, with the budget and the result of a search."""
    (record,) = records
    search = record.search
    if record.why_no_speed:
        raise NothingToShowError(record.why_no_speed)
    results = [result for result in record.points if result.point.scenario == "online"]
    if len(results) < 2:
        raise NothingToShowError("Fewer than two online load points have been measured: no curve.")
    if search and not all(search.percentile in result.latency_ms for result in results):
        search = None  # its budget is of a latency that the curve cannot show
    percentile = search.percentile if search else "p99"
    results.sort(key=lambda result: result.point.level)
    lines = phrases.grouped(results, lambda result: phrases.swept_text(result.point))
    winner = {}
    if search and search.verdict != "failed" and not record.why_no_winner:
        at = phrases.full_point_text(search.result.point)
        winner[f"found by the search, {BUDGET_WORDS[search.verdict]} the budget: {at}"] = search.result
    first, *_, last = (result for line in lines.values() for result in line)
    gist = "; ".join(
        f"{phrases.point_text(end.point)}: {THROUGHPUT.text(end.throughput_per_s.value)}, {percentile} "
        f"{LATENCY.text(end.latency_ms[percentile].value)}"
        for end in (first, last)
    )
    notes = _notes(records, [code for result in results for code in _codes(result)])
    if any(result.latency_ms[percentile].open_above for result in results):
        notes.append("Arrow: open above, the requests are too few for an upper end.")
    curve = Curve(percentile, lines, search.latency_budget_ms if search else None, winner)
    return _chart("Latency over throughput, online", records, gist, curve, notes)


@dataclass(frozen=True)
class View(Generic[Content]):
    """What `report plots` or a README can show of records."""

    shows: str
    of: Literal["one", "any", "several"]
    """The number of cases it shows; `several` works for one, too, but is not offered then."""
    make: Callable[[Sequence[Publishable]], Content]


PLOTS: Mapping[str, View[Chart]] = {
    "accuracy-ledger": View("accuracy after each stage beside its limit", "any", accuracy_chart),
    "best-throughput": View("the best throughput of each case", "several", best_throughput),
    "throughput-latency": View("latency over throughput, online, with the budget", "one", throughput_latency),
}


def available(records: Sequence[Publishable]) -> tuple[dict[str, Chart], list[str]]:
    """The plots that have content, by name, and why others have none; for one record pass `[record]`."""
    charts, reasons = {}, []
    for name, plot in PLOTS.items():
        if plot.of in ("any", "one" if len(records) == 1 else "several"):
            try:
                charts[name] = plot.make(records)
            except NothingToShowError as error:
                reasons.append(str(error))
    return charts, reasons


def _chart(
    title: str, records: Sequence[Publishable], gist: str, panels: Sequence[Panel] | Curve, notes: list[str]
) -> Chart:
    """The chart with its caption: `NVIDIA H200 · Triton 2.51.0 · measured 2026-11-23`."""
    subtitle = records[0].name if len(records) == 1 else f"{len(records)} cases"
    tritons = dict.fromkeys(phrases.server_name(each.serving.triton) for each in records if each.serving)
    days = phrases.days_text(record.updated for record in records)
    measured = [f"measured {days}"] if days else []
    caption = " · ".join([*dict.fromkeys(map(phrases.device_text, records)), *tritons, *measured])
    return Chart(title, subtitle, gist, panels, notes, caption)


def _notes(records: Sequence[Publishable], codes: Iterable[str]) -> list[str]:
    levels = phrases.confidence_levels(result for record in records for result in record.points)
    hollow = "; ".join(speed.MARKS.get(code, code) for code in dict.fromkeys(codes))
    return [f"Error bars: {levels} confidence intervals.", *([f"Hollow: {hollow}."] if hollow else [])]


def _codes(result: speed.PointResult) -> list[str]:
    """The marks that make a point hollow: not that of a wide interval, which is visible."""
    return [mark.code for mark in result.marks if mark.code != "wide-interval"]


def _gist(title: str, rows: Sequence[PanelRow], name: str, quantity: Quantity) -> str:
    """`resnet50: 98.2`, or `resnet50: 823 (ts-trace-fp32) to 3,824 (onnx-int8)`."""
    ranked = sorted((row.values[name].value, row.name) for row in rows if name in row.values)
    texts = [quantity.cell(value / quantity.scale) for value, _ in ranked] or [rows[0].text]
    if texts[0] == texts[-1]:
        return f"{title}: {texts[0]}"
    return f"{title}: {texts[0]} ({ranked[0][1]}) to {texts[-1]} ({ranked[-1][1]})"


def _model(record: Publishable, records: Sequence[Publishable]) -> str:
    several = len({record.case.target for record in records}) > 1
    return f"{record.case.model} on {record.case.target}" if several else record.case.model


def digest_of(svg: str) -> str | None:
    """The digest in a complete SVG of this module; None for other texts."""
    match = _DIGEST.search(svg)
    return match[1] if match and svg.rstrip().endswith("</svg>") else None


def draw(shown: Chart, theme: Theme, ending: Literal["svg", "png"] = "svg") -> bytes:
    metadata = {
        "Title": visible(f"{shown.title}: {shown.subtitle}"),
        "Description": visible(" ".join([shown.alternative, *shown.notes, f"{shown.caption}."])),
        "Identifier": shown.digest(theme),
    }
    return rendered(lambda: _figure(shown), theme, ending, metadata)


def draw_for_both(shown: Chart) -> bytes:
    """The picture as one SVG that takes the colours of its page, light or dark."""
    svg = draw(shown, "light").decode()
    for light, dark in _COLOURS.values():
        svg = svg.replace(light, f"light-dark({light}, {dark})")
    return svg.replace("<defs>", "<defs><style>svg {color-scheme: light dark}</style>", 1).encode()


def rendered(
    make: Callable[[], "Figure"], theme: Theme, ending: str = "svg", metadata: Mapping[str, str] = {}
) -> bytes:
    import matplotlib.style
    from cycler import cycler

    hue = {name: colours[THEMES.index(theme)] for name, colours in _COLOURS.items()}
    in_ink = ("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor")
    colours = {
        "axes.prop_cycle": cycler(color=[hue["first"], hue["second"], "#009e73", "#cc79a7", "#f0e442"]),
        "grid.color": hue["grid"],
        **dict.fromkeys(("figure.facecolor", "savefig.facecolor"), hue["paper"]),
        **dict.fromkeys(in_ink, hue["ink"]),
        **dict.fromkeys(("xtick.color", "ytick.color", "axes.edgecolor"), hue["faint"]),
    }
    tags = {"Software": None} if ending == "png" else {"Date": None, "Creator": None, **metadata}
    file = io.BytesIO()
    with matplotlib.style.context(["default", _STYLE, colours]):
        make().savefig(file, format=ending, metadata=tags)
    return file.getvalue()


def _figure(shown: Chart) -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    below = [line for text in (*shown.notes, shown.caption) for line in textwrap.wrap(visible(text), 150)]
    panels = shown.panels
    rows = [] if isinstance(panels, Curve) else [len(panel.rows) for panel in panels]
    heights = [_AROUND_ROWS_IN + _ROW_IN * number for number in rows] or [_CURVE_IN]
    height = 0.75 + sum(heights) + 0.15 * len(below)
    figure = Figure(figsize=(_WIDTH_IN, height), layout="constrained")
    all_axes = figure.subplots(len(heights), height_ratios=heights, squeeze=False)[:, 0]
    if isinstance(panels, Curve):
        _draw_curve(all_axes[0], panels)
    else:
        for axes, panel in zip(all_axes, panels, strict=True):
            _draw_rows(axes, panel)
        if panels[0].kind == "stages":
            handles = [Line2D([], [], label=label, **_stage(stage)) for stage, label in _STAGES.items()]
            figure.legend(handles=handles, loc="upper right", ncols=len(handles), borderaxespad=0.2)
    figure.suptitle(visible(f"{shown.title}, {shown.subtitle}"), x=0.015, ha="left")
    figure.supxlabel("\n".join(below), x=0.015, ha="left")
    return figure


def _draw_rows(axes: "Axes", panel: Panel) -> None:
    from matplotlib import rcParams

    ink = rcParams["text.color"]
    for index, row in enumerate(panel.rows):
        if row.limit is not None:
            axes.plot([row.limit] * 2, [index - 0.4, index + 0.4], color=ink)
        for name, estimate in row.values.items():
            if panel.kind == "bars":
                fill = "none" if row.is_marked else "C0"
                reach = {"xerr": _reach(estimate), "ecolor": ink}
                axes.barh(index, estimate.value, 0.66, color=fill, edgecolor="C0", linewidth=1.2, **reach)
            else:
                axes.plot(estimate.value, index, **_stage(name))
        axes.text(1.02, index, visible(row.text), transform=axes.get_yaxis_transform(), va="center", size=8)
    axes.margins(x=0.1)
    axes.set(xlim=(0, None) if panel.kind == "bars" else None, ylim=(len(panel.rows) - 0.5, -0.5))
    axes.set_yticks(range(len(panel.rows)), [visible(row.name) for row in panel.rows])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_title(visible(panel.title))
    axes.set_title(visible(panel.axis), loc="right", size=7.5, weight="normal")
    axes.xaxis.set_visible(any(row.values for row in panel.rows))


def _stage(stage: str) -> dict[str, Any]:
    number = [*_STAGES].index(stage)
    marker, size = [("D", 10.5), ("s", 8.5), ("o", 4.5)][number]
    colour = f"C{2 - number}"
    fill = colour if stage == "served" else "none"
    look = {"linestyle": "none", "marker": marker, "markersize": size, "zorder": 3 + number}
    return look | {"color": colour, "markerfacecolor": fill, "markeredgewidth": 1.3}


def _draw_curve(axes: "Axes", curve: Curve) -> None:
    from matplotlib import rcParams
    from matplotlib.markers import CARETUPBASE

    paper, ink = rcParams["figure.facecolor"], rcParams["text.color"]
    for number, (name, line) in enumerate(curve.lines.items()):
        colour, marker, dashes = f"C{number % 5}", "os^Dv"[number % 5], ["-", "--", "-.", ":"][number % 4]
        positions = [(each.throughput_per_s.value, each.latency_ms[curve.latency].value) for each in line]
        axes.plot(*zip(*positions, strict=True), dashes, marker=marker, color=colour, label=visible(name))
        for result, position in zip(line, positions, strict=True):
            latency, fill = result.latency_ms[curve.latency], paper if _codes(result) else colour
            reach = (_reach(latency), _reach(result.throughput_per_s))
            axes.errorbar(*position, *reach, marker=marker, color=colour, markerfacecolor=fill, elinewidth=1)
            if latency.open_above:
                axes.plot(position[0], latency.high, marker=CARETUPBASE, color=colour)
            if len(line) <= 12:  # more labels would overlap
                size = f"{result.point.level:g}"
                axes.annotate(size, position, (6, -10), textcoords="offset points", color=colour, size=7.5)
    for label, winner in curve.winner.items():
        position = (winner.throughput_per_s.value, winner.latency_ms[curve.latency].value)
        axes.plot(*position, "*", markersize=13, color="C4", markeredgecolor=ink, zorder=4, label=label)
    if curve.budget_ms is not None:
        label = f"budget: {curve.latency} {LATENCY_BUDGET.text(curve.budget_ms)}"
        axes.axhline(curve.budget_ms, color=ink, linestyle=(0, (6, 3)), linewidth=1.2, zorder=1, label=label)
    axes.set(xlabel="Inferences per second", ylabel=f"{curve.latency} latency (ms)")
    axes.set(xlim=(0, None), ylim=(0, None))
    axes.legend(loc="upper left", handlelength=3.5)


def _reach(estimate: fields.Estimate) -> tuple[list[float], list[float]]:
    """The distances of the interval's ends from the value, for error bars."""
    return [max(estimate.value - estimate.low, 0.0)], [max(estimate.high - estimate.value, 0.0)]
