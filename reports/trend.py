"""How each figure of the history went from run to run on its machine, and where its level changed for good.

ruptures searches for the changes; what noise is expected, and what counts as a lasting change, is stated here. How many steps
are found, and how many false alarms there are, is simulated by tests/trend and written in docs/trend.md.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from ruptures import KernelCPD

from reports.history import Row
from reports.record.arguments import ACCURACY, SPEED, UsageError
from reports.record.quantities import (
    CHANGE,
    ERROR,
    LATENCY,
    RATIO,
    SCORE,
    SCORE_CHANGE,
    THROUGHPUT,
    Quantity,
)
from reports.record.sanitize import quoted, visible
from reports.record.schema import Estimate
from reports.tables.rendering import markdown
from reports.tables.table import table_of_texts
from reports.text.inline import Emphasised, text
from reports.text.labels import counted, days_text, grouped

FEWEST, LASTING = 4, 8
"""The runs that a level has at least: one to three in a row are outliers, and fewer than LASTING before another level are a
bad week, which is neither of the levels beside it."""
THRESHOLD = 5.0
"""How many standard errors a step's size has to be. By simulation fewer than one of 200 series of 1,000 runs then has a step
that is none."""
_PENALTY = 0.8 * THRESHOLD**2
"""For ruptures, which proposes smaller steps too: each is tested when its neighbours are known."""
_NEIGHBOURS = 60
"""The runs on either side that a step is tested with, so that a drift of some percent in 1,000 runs is no step."""
_MIDDLE_OF, _CLIPPED_AT = 9, 2.0
"""A value further than so many spreads from the median of so many runs around it is an outlier, and is taken for as far."""
_PRIOR_RUNS = 10
"""The usual spread counts like so many runs: the spread of ten runs alone is known to a third only."""
_BLOCKS = (5, 10, 20)
"""Lengths in runs over which noise that outlasts a run is looked for, where there are ten such blocks."""
_PRIOR_LASTING, _PRIOR_LASTING_RUNS = 2.0, 20
"""Lasting noise over that of one run, which counts like so many runs: a short history cannot tell a bad week from a step."""
_FEWEST_TOGETHER = 8
"""Series whose median tells what their machine did to all of them in a run."""
_MOST_DRAWN = 20
"""Series in one picture; it is as long as a page then."""
_NORMAL, _NORMAL_95 = 1.4826, 1.96
"""The standard deviation over the median absolute deviation, and standard errors to the ends of a 95 % interval."""


class Followed(NamedTuple):
    """A quantity that is followed."""

    name: str
    quantity: Quantity
    usual: float
    """The spread from run to run that is expected before anything is known; of the logarithm, and for a score that is a
    fraction in samples."""
    changes: Quantity = CHANGE
    """How a change is written; as a fraction of the value if it is CHANGE, else as a difference."""

    @property
    def is_relative(self) -> bool:
        """Whether changes are fractions of the value, so that logarithms are looked at."""
        return self.changes is CHANGE


#: Speeds of one build vary by 1 to 3 % from run to run on one machine, tails by more. A score repeats but for samples that are
#: near ties, an error but for its last digits.
FOLLOWED: Mapping[str, Followed] = {
    "throughput_per_s": Followed("throughput", THROUGHPUT, 0.02),
    "latency_p99_ms": Followed("p99 latency", LATENCY, 0.05),
    "in_process_ratio": Followed("served / in process", RATIO, 0.02),
    "score": Followed("accuracy", SCORE, 0.5, SCORE_CHANGE),
    "error": Followed("accuracy", ERROR, 0.001),
}


class Step(NamedTuple):
    """A lasting change of the level between two neighbouring runs of a series."""

    at: int
    """The first run of the new level, counted from 0."""
    before: Row
    after: Row
    change: Estimate
    is_worse: bool


@dataclass(frozen=True, eq=False)
class Series:
    """One quantity of a case over the runs of a machine, in their order."""

    machine: str
    """Host and stamp: a change of hardware, driver or versions is no step, but another series."""
    case: str
    figure: str
    at: str
    """The load point, or the metric."""
    rows: Sequence[Row]
    steps: Sequence[Step] = ()

    @property
    def followed(self) -> Followed:
        return FOLLOWED[self.figure]

    def values(self) -> np.ndarray:
        """Each run's value with the bounds of its interval, [runs, 3]; one that is open above reaches as far as below."""
        figures = [row.figures[self.figure] for row in self.rows]
        return np.array(
            [(value, low, 2 * value - low if high is None else high) for value, low, high in figures]
        )


def all_series(rows: Iterable[Row], *, join_hosts: bool = False) -> list[Series]:
    """Every series of the rows with its steps; `join_hosts` takes the hosts of one stamp for one machine, as where each run
    has a new container."""
    runs = sorted(rows, key=lambda row: (row.started, row.run))
    numbers = {name: number for number, name in enumerate(dict.fromkeys((row.run, row.host) for row in runs))}
    found: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in runs:
        machine = row.machine if join_hosts else f"{row.host} {row.machine}".strip()
        for name, (value, _, _) in row.figures.items():
            if name in FOLLOWED and (value > 0 or not FOLLOWED[name].is_relative):
                found.setdefault((machine, row.case, name, row.at), []).append(row)
    series = [Series(*name, of_name) for name, of_name in sorted(found.items())]
    groups = grouped(series, lambda one: (one.machine, one.figure)).values()
    steps_of = {one: steps for group in groups for one, steps in _steps_of(group, numbers).items()}
    return [dataclasses.replace(one, steps=steps_of[one]) for one in series]


def _steps_of(group: Sequence[Series], numbers: Mapping[tuple[str, str], int]) -> dict[Series, list[Step]]:
    """The steps of all series of one machine and quantity, once what moved them together for a time is taken out; `numbers`
    says when each run was, by its id and host."""
    followed = group[0].followed
    levels = {}
    for one in group:
        values = one.values()[:, 0]
        runs = [numbers[row.run, row.host] for row in one.rows]
        levels[one] = pd.Series(np.log(values) if followed.is_relative else values, index=runs)
    if followed.is_relative and len(group) >= _FEWEST_TOGETHER:
        together = _together(pd.DataFrame(levels), followed.usual)
        levels = {one: found - together[found.index] for one, found in levels.items()}
    return {one: _steps(one, found.to_numpy()) for one, found in levels.items()}


def _together(table: pd.DataFrame, usual: float) -> pd.Series:
    """How far the series of a machine [runs, series] were from their levels in each run; 0 in runs that too few tell of. A
    lasting step of all stays theirs."""
    many = table[table.count(axis=1) >= _FEWEST_TOGETHER]
    moved = many.sub(many.median()).median(axis=1)
    moved = many.sub(many.sub(moved, axis=0).median()).median(axis=1)
    for at, change, _ in steps(moved.to_numpy(), usual):
        moved.iloc[at:] -= change
    return moved.reindex(table.index, fill_value=0.0)


def _steps(one: Series, levels: np.ndarray) -> list[Step]:
    followed, rows = one.followed, one.rows
    usual = followed.usual / max(1, rows[-1].samples) if followed.quantity is SCORE else followed.usual
    found = []
    for at, change, error in steps(levels, usual):
        value, low, high = change, change - _NORMAL_95 * error, change + _NORMAL_95 * error
        if followed.is_relative:
            value, low, high = (math.expm1(bound) for bound in (value, low, high))
        size = Estimate(value, low, high)
        is_worse = change < 0 if followed.quantity.better == "higher" else change > 0
        found.append(Step(at, rows[at - 1], rows[at], size, is_worse))
    return found


def steps(values: np.ndarray, usual: float) -> list[tuple[int, float, float]]:
    """The lasting steps of a series: the first run of the new level, the change of the level, and its standard error.

    `values` [runs] in the order of the runs, and `usual` the spread from run to run that is expected before anything is known.
    """
    x, spread = _calmed(values, usual)
    kept = np.arange(len(x))
    while True:
        if len(kept) < 2 * FEWEST:
            return []
        search = KernelCPD(kernel="linear", min_size=FEWEST).fit(x[kept, None])
        ends = [0, *search.predict(pen=_PENALTY * spread**2)]
        inner = pairwise(ends[1:-1])
        passing = next(((start, end) for start, end in inner if end - start < LASTING), None)
        if passing is None:
            break
        kept = np.delete(kept, range(*passing))
    x = x[kept]
    while len(ends) > 2:
        sizes = [_size(x, spread, *sides) for sides in zip(ends, ends[1:], ends[2:], strict=False)]
        worth = [abs(change) / error for change, error in sizes]
        if min(worth) >= THRESHOLD:
            break
        del ends[1 + worth.index(min(worth))]
    else:
        return []
    return [(int(kept[at]), *size) for at, size in zip(ends[1:-1], sizes, strict=True)]


def _size(x: np.ndarray, spread: float, start: int, at: int, end: int) -> tuple[float, float]:
    """The change of the level at a run and its standard error, by its neighbours on either side."""
    before, after = x[max(start, at - _NEIGHBOURS) : at], x[at : min(end, at + _NEIGHBOURS)]
    return float(after.mean() - before.mean()), spread * math.sqrt(1 / len(before) + 1 / len(after))


def _calmed(values: np.ndarray, usual: float) -> tuple[np.ndarray, float]:
    """The values with their outliers cut, and the standard deviation that a mean of many runs is as uncertain by, times the
    root of their number: more than that of a run where neighbours scatter alike."""
    middles = pd.Series(values).rolling(_MIDDLE_OF, center=True, min_periods=1).median().to_numpy()
    of_neighbours = _spread(np.diff(values)) / math.sqrt(2)  # of which few hold a step
    of_one = _with_prior(max(of_neighbours, _spread(values - middles)), len(values), usual, _PRIOR_RUNS)
    calm = np.clip(values, middles - _CLIPPED_AT * of_one, middles + _CLIPPED_AT * of_one)
    lasting = [of_one]
    for length in (one for one in _BLOCKS if len(calm) >= 10 * one):
        means = calm[len(calm) % length :].reshape(-1, length).mean(axis=1)
        lasting.append(_spread(np.diff(means)) * math.sqrt(length / 2))
    return calm, _with_prior(max(lasting), len(calm), _PRIOR_LASTING * of_one, _PRIOR_LASTING_RUNS)


def _spread(differences: np.ndarray) -> float:
    return float(_NORMAL * np.median(np.abs(differences))) if len(differences) else 0.0


def _with_prior(spread: float, count: int, prior: float, prior_count: int) -> float:
    return math.sqrt((count * spread**2 + prior_count * prior**2) / (count + prior_count))


def table(series: Sequence[Series]) -> str:
    runs = {row.run: row for one in series for row in one.rows}
    commits = {row.commit for row in runs.values()} - {None}
    found = sum(len(one.steps) for one in series)
    said = (
        f"{counted(len(runs), 'run')} of {counted(len(commits), 'commit')}, "
        f"{days_text(row.started for row in runs.values())}; {counted(found, 'step')} in {len(series)} series."
    )
    rows = [
        [
            one.machine,
            one.case,
            one.at,
            one.followed.name,
            f"{len(one.rows):,}",
            _last(one),
            Emphasised(("**" if step.is_worse else "*", step_text(one, step)) for step in one.steps) or "-",
        ]
        for one in series
    ]
    columns = ("Machine", "Case", "At", "Quantity", "Runs", "Last value", "Steps")
    return f"{text(said)}\n\n{markdown([table_of_texts(columns, rows, 'llllrrl')])}"


def worse_steps(found: Sequence[Series], within: int, known: str | None) -> tuple[list[str], int]:
    """A sentence for each step for the worse within the latest runs of a series, after those of the commit `known`, and the exit
    status that they deserve. Raises UsageError where no run is of that commit."""
    after = ""
    if known:
        started = [row.started for one in found for row in one.rows if (row.commit or "").startswith(known)]
        if not started:
            raise UsageError(f"--known {quoted(known)}: no run in the history is of this commit")
        after = max(started)
    sentences, status = [], 0
    for one in found:
        for step in one.steps:
            if step.is_worse and step.at >= len(one.rows) - within and step.after.started > after:
                said = f"{one.case}, {one.at}, {one.followed.name}: {step_text(one, step)}"
                sentences.append(f"worse within the latest {within} runs: {said}")
                status = max(status, ACCURACY if one.figure in ("score", "error") else SPEED)
    return sentences, status


def step_text(one: Series, step: Step) -> str:
    """`between a1b2c3d4e and b2c3d4e5f: -3.1 % (-3.9 to -2.2)`, and what else is known of it."""
    before, after = step.before, step.after
    first, last = _commit(before), _commit(after)
    between = f"between {first} and {last}"
    if before.commit is not None and first == last:
        between = f"between two runs of {first}, {before.started[:16]} and {after.started[:16]}"
        between += ", so not by a commit" if before.clean else ""
    parts = [f"{between}: {one.followed.changes.text_with_interval(step.change)}"]
    if before.triton != after.triton:
        parts.append(f"Triton {before.triton} became {after.triton}")
    elif before.build != after.build:
        parts.append("the build is another")
    return "; ".join(parts)


def _commit(row: Row) -> str:
    """`a1b2c3d4e`, with `-dirty` where the files were others; the time of the run where there is no commit."""
    if row.commit is None:
        return f"the run of {row.started}"
    return row.commit[:9] + ("" if row.clean else "-dirty")


def _last(one: Series) -> str:
    """The value of the last run, with its interval where it has one."""
    value, low, high = one.rows[-1].figures[one.figure]
    quantity = one.followed.quantity
    if low == high:
        return quantity.text(value)
    closed = value if high is None else high
    return quantity.text_with_interval(Estimate(value, low, closed, open_above=high is None))


def picture(series: Sequence[Series]) -> Figure:
    """One picture of the history: a line for each series with the step at which its level changed, those with steps first."""
    drawn = sorted(series, key=lambda one: not one.steps)[:_MOST_DRAWN]
    runs = sorted({(row.started, row.run): row for one in drawn for row in one.rows}.items())
    places = {run: place for place, (run, _) in enumerate(runs)}
    figure = Figure(figsize=(8.6, 1.0 + 0.8 * len(drawn)), layout="constrained")
    panels = figure.subplots(len(drawn), sharex=True, squeeze=False)[:, 0]
    for axes, one in zip(panels, drawn, strict=True):
        at = [places[row.started, row.run] for row in one.rows]
        value, low, high = one.values().T * one.followed.quantity.scale
        axes.fill_between(at, low, high, alpha=0.25, linewidth=0)
        axes.plot(at, value, linewidth=1, marker="." if len(at) < 100 else "")
        axes.set_title(
            visible(f"{one.case}, {one.at}, {one.followed.name}: {_last(one)}"), loc="left", fontsize="small"
        )
        axes.yaxis.set_major_locator(MaxNLocator(3))
        for step in one.steps:
            place, falls = at[step.at] - 0.5, step.change.value < 0
            axes.axvline(place, color="C1" if step.is_worse else "C2", linestyle="--")
            size = one.followed.changes.text(step.change.value)
            axes.annotate(  # on the side where the line is above it
                f"{'▼' if falls else '▲'} {size}",
                (place, 0.06),
                (-4 if falls else 4, 0),
                ("data", "axes fraction"),
                "offset points",
                ha="right" if falls else "left",
            )
    ticks = np.linspace(0, len(runs) - 1, min(6, len(runs))).round().astype(int)
    rows = [runs[tick][1] for tick in ticks]
    panels[-1].set_xticks(ticks, [f"{(row.commit or 'no commit')[:9]}\n{row.started[:10]}" for row in rows])
    left = len(series) - len(drawn)
    title = "From run to run" + (f"; {left} more series are drawn with -k" if left else "")
    figure.suptitle(title, x=0.015, ha="left")
    return figure
