"""How each figure of the history went from run to run on its machine, and where its level changed for good.

ruptures searches for the changes; what noise is expected, and what counts as a lasting change, is stated
here. How many steps are found, and how many false alarms there are, is simulated by tests/trend and written
in docs/trend.md.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from ruptures import KernelCPD

from reports.history import Row
from reports.record import quantities
from reports.record.arguments import ACCURACY, SPEED, UsageError
from reports.record.sanitize import quoted, visible
from reports.record.schema import Estimate
from reports.tables.rendering import markdown
from reports.tables.table import table_of_texts
from reports.text.inline import Emphasised, text
from reports.text.labels import counted, days_text

FEWEST, LASTING = 4, 8
"""The runs that a level has at least: one to three in a row are outliers, and fewer than LASTING before
another level are a bad week, which is neither of the levels beside it."""
THRESHOLD = 5.0
"""How many standard errors a step's size has to be. By simulation fewer than one of 200 series of 1,000 runs
then has a step that is none."""
_NEIGHBOURS = 60
"""The runs on either side that a step is tested with, so that a drift of some percent in 1,000 runs is no
step."""
_FEWEST_TOGETHER = 8
"""Series whose median tells what their machine did to all of them in a run."""


class Followed(NamedTuple):
    """A quantity that is followed."""

    name: str
    quantity: quantities.Quantity
    usual: float
    """The spread from run to run that is expected before anything is known: of the logarithm, and of a score
    in samples."""
    changes: quantities.Quantity = quantities.CHANGE


# Speeds of one build vary by 1 to 3 % from run to run on one machine, tails by more. A score repeats but for
# samples that are near ties, an error but for its last digits.
FOLLOWED: Mapping[str, Followed] = {
    "throughput_per_s": Followed("throughput", quantities.THROUGHPUT, 0.02),
    "latency_p99_ms": Followed("p99 latency", quantities.LATENCY, 0.05),
    "in_process_ratio": Followed("served / in process", quantities.RATIO, 0.02),
    "score": Followed("accuracy", quantities.SCORE, 0.5, quantities.SCORE_CHANGE),
    "error": Followed("accuracy", quantities.ERROR, 0.001),
}


class Step(NamedTuple):
    """A lasting change of the level between two neighbouring runs of a series."""

    before: Row
    after: Row
    change: Estimate
    is_worse: bool


@dataclass(frozen=True)
class Series:
    """One quantity of a case over the runs of a machine, in their order."""

    machine: str
    """Host and stamp: a change of hardware, driver or versions is no step, but another series."""
    case: str
    figure: str
    at: str
    """The load point, or the metric."""
    rows: Sequence[Row]
    steps: Sequence[Step]

    @property
    def followed(self) -> Followed:
        return FOLLOWED[self.figure]

    @property
    def name(self) -> str:
        return f"{self.case}, {self.at}, {self.followed.name}"


def _when(row: Row) -> tuple[str, str, str]:
    """What sorts the runs, and tells them apart."""
    return (row.started, row.run, row.host)


def all_series(rows: Iterable[Row], *, join_hosts: bool = False) -> list[Series]:
    """Every series of the rows with its steps; `join_hosts` takes the hosts of one stamp for one machine, as
    where each run has a new container."""
    found: dict[tuple[str, str], dict[tuple[str, str], list[Row]]] = {}
    for row in sorted(rows, key=_when):
        machine = row.machine if join_hosts else f"{row.host} {row.machine}".strip()
        for figure, (value, _, _) in row.figures.items():
            if figure in FOLLOWED and (value > 0 or figure == "score"):
                found.setdefault((machine, figure), {}).setdefault((row.case, row.at), []).append(row)
    series = [one for group, of_group in found.items() for one in _series_of(*group, of_group)]
    return sorted(series, key=lambda one: (one.machine, one.case, one.figure, one.at))


def _series_of(machine: str, figure: str, group: Mapping[tuple[str, str], list[Row]]) -> Iterable[Series]:
    """All series of a machine and quantity, whose steps are found once what moved them together for a time is
    taken out."""
    usual, is_score = FOLLOWED[figure].usual, figure == "score"
    values = ({_when(row): row.figures[figure][0] for row in rows} for rows in group.values())
    levels = pd.DataFrame(dict(enumerate(values))).sort_index()
    if not is_score:
        levels = levels.map(math.log, na_action="ignore")
        levels = levels.sub(_together(levels, usual), axis=0)
    for number, ((case, at), rows) in enumerate(group.items()):
        found = []
        of_samples = max(1, rows[-1].samples) if is_score else 1
        for first, change, error in steps(levels[number].dropna().to_numpy(), usual / of_samples):
            bounds = (change, change - 1.96 * error, change + 1.96 * error)
            size = Estimate(*(bounds if is_score else map(math.expm1, bounds)))
            is_worse = (change < 0) == (FOLLOWED[figure].quantity.better == "higher")
            found.append(Step(rows[first - 1], rows[first], size, is_worse))
        yield Series(machine, case, figure, at, rows, found)


def _together(levels: pd.DataFrame, usual: float) -> pd.Series:
    """How far the series of a machine [runs, series] were from their levels in each run; 0 in runs that too
    few tell of. A lasting step of all stays theirs."""
    many = levels[levels.count(axis=1) >= _FEWEST_TOGETHER]
    moved = many.sub(many.median()).median(axis=1)
    moved = many.sub(many.sub(moved, axis=0).median()).median(axis=1)
    for first, change, _ in steps(moved.to_numpy(), usual):
        moved.iloc[first:] -= change
    return moved.reindex(levels.index, fill_value=0.0)


def steps(values: np.ndarray, usual: float) -> list[tuple[int, float, float]]:
    """The lasting steps of a series: the first run of the new level, the change of the level, and its
    standard error.

    `values` [runs] in the order of the runs, and `usual` the spread from run to run that is expected before
    anything is known.
    """
    if len(values) < 2 * FEWEST:
        return []
    x, spread = _calmed(values, usual)
    kept = np.arange(len(x))
    while True:
        # ruptures proposes smaller steps too: each is tested when its neighbours are known.
        search = KernelCPD(kernel="linear", min_size=FEWEST).fit(x[kept, None])
        ends = [0, *search.predict(pen=0.8 * (THRESHOLD * spread) ** 2)]
        passing = [sides for sides in pairwise(ends[1:-1]) if sides[1] - sides[0] < LASTING]
        if not passing:
            break
        kept = np.delete(kept, range(*passing[0]))
    while len(ends) > 2:
        sizes = [_size(x[kept], spread, *sides) for sides in zip(ends, ends[1:], ends[2:], strict=False)]
        worth = [abs(change) / error for change, error in sizes]
        if min(worth) >= THRESHOLD:
            return [(int(kept[first]), *size) for first, size in zip(ends[1:-1], sizes, strict=True)]
        del ends[1 + worth.index(min(worth))]
    return []


def _size(x: np.ndarray, spread: float, start: int, at: int, end: int) -> tuple[float, float]:
    """The change of the level at a run and its standard error, by its neighbours on either side."""
    before, after = x[max(start, at - _NEIGHBOURS) : at], x[at : min(end, at + _NEIGHBOURS)]
    return float(after.mean() - before.mean()), spread * math.sqrt(1 / len(before) + 1 / len(after))


def _calmed(values: np.ndarray, usual: float) -> tuple[np.ndarray, float]:
    """The values with their outliers cut, which are two spreads from the median around them, and the standard
    deviation that a mean of many runs is as uncertain by, times the root of their number: more than that of a
    run where neighbours scatter alike.

    The usual spread counts like ten runs, as that of ten runs alone is known to a third only. Noise that
    outlasts a run is looked for in blocks of runs, where there are ten of them, and counts as twice that of a
    run in twenty: a short history cannot tell a bad week from a step."""
    middles = pd.Series(values).rolling(9, center=True, min_periods=1).median().to_numpy()
    of_neighbours = _spread(np.diff(values)) / math.sqrt(2)  # of which few hold a step
    of_one = _with_prior(max(of_neighbours, _spread(values - middles)), len(values), usual, 10)
    calm = np.clip(values, middles - 2 * of_one, middles + 2 * of_one)
    lasting = [of_one]
    for length in (one for one in (5, 10, 20) if len(calm) >= 10 * one):
        means = calm[len(calm) % length :].reshape(-1, length).mean(axis=1)
        lasting.append(_spread(np.diff(means)) * math.sqrt(length / 2))
    return calm, _with_prior(max(lasting), len(calm), 2 * of_one, 20)


def _spread(differences: np.ndarray) -> float:
    return 1.4826 * float(np.median(np.abs(differences)))  # the standard deviation of normal ones


def _with_prior(spread: float, count: int, prior: float, prior_count: int) -> float:
    return math.sqrt((count * spread**2 + prior_count * prior**2) / (count + prior_count))


def table(series: Sequence[Series]) -> str:
    """What the history holds, and a row for each series with its last value and its steps, those for the
    worse in bold."""
    runs = {row.run: row for one in series for row in one.rows}
    commits = counted(len({row.commit for row in runs.values()} - {None}), "commit")
    found = counted(sum(len(one.steps) for one in series), "step")
    days = days_text(row.started for row in runs.values())
    said = f"{counted(len(runs), 'run')} of {commits}, {days}; {found} in {len(series)} series."
    columns = ("Machine", "Case", "At", "Quantity", "Runs", "Last value", "Steps")
    rows = []
    for one in series:
        told = Emphasised(("**" if step.is_worse else "*", step_text(one, step)) for step in one.steps)
        name, count = one.followed.name, f"{len(one.rows):,}"
        rows.append((one.machine, one.case, one.at, name, count, _last(one), told or "-"))
    return f"{text(said)}\n\n{markdown([table_of_texts(columns, rows, 'llllrrl')])}"


def worse_steps(series: Sequence[Series], within: int, known: str | None) -> tuple[list[str], int]:
    """A sentence for each step for the worse within the latest runs of a series, after those of the commit
    `known`, and the exit status that they deserve. Raises UsageError where no run is of that commit."""
    accepted = ""
    if known:
        started = [row.started for one in series for row in one.rows if (row.commit or "").startswith(known)]
        if not started:
            raise UsageError(f"--known {quoted(known)}: no run in the history is of this commit")
        accepted = max(started)
    sentences, status = [], 0
    for one in series:
        for step in one.steps:
            is_recent = step.after in one.rows[-within:] and step.after.started > accepted
            if step.is_worse and is_recent:
                sentences.append(f"worse within the latest {within} runs: {one.name}: {step_text(one, step)}")
                status = max(status, ACCURACY if one.followed.name == "accuracy" else SPEED)
    return sentences, status


def step_text(one: Series, step: Step) -> str:
    """`between a1b2c3d4e and b2c3d4e5f: -3.1 % (-3.9 to -2.2)`, and what else is known of it."""
    before, after = step.before, step.after
    between = f"between {_commit(before)} and {_commit(after)}"
    if before.commit and _commit(before) == _commit(after):
        between = f"between two runs of {_commit(before)}, {before.started[:16]} and {after.started[:16]}"
        between += ", so not by a commit" if before.clean else ""
    more = "" if before.build == after.build else "; the build is another"
    if before.triton != after.triton:
        more = f"; Triton {before.triton} became {after.triton}"
    return f"{between}: {one.followed.changes.text_with_interval(step.change)}{more}"


def _commit(row: Row) -> str:
    """`a1b2c3d4e`, with `-dirty` where the files were others; the time of the run where there is no
    commit."""
    dirty = "" if row.clean else "-dirty"
    return f"the run of {row.started}" if row.commit is None else row.commit[:9] + dirty


def _last(one: Series) -> str:
    """The value of the last run, with its interval where it has one."""
    value, low, high = one.rows[-1].figures[one.figure]
    estimate = Estimate(value, low, value if high is None else high, open_above=high is None)
    quantity = one.followed.quantity
    return quantity.text(value) if low == high else quantity.text_with_interval(estimate)


def picture(series: Sequence[Series]) -> Figure:
    """One picture of the history: a line for each series with the step at which its level changed, those with
    steps first."""
    drawn = sorted(series, key=lambda one: not one.steps)[:20]  # which are as long as a page
    runs = sorted({_when(row): row for one in drawn for row in one.rows}.items())
    places = {run: place for place, (run, _) in enumerate(runs)}
    figure = Figure(figsize=(8.6, 1.0 + 0.8 * len(drawn)), layout="constrained")
    panels = figure.subplots(len(drawn), sharex=True, squeeze=False)[:, 0]
    for axes, one in zip(panels, drawn, strict=True):
        at = [places[_when(row)] for row in one.rows]
        figures = [row.figures[one.figure] for row in one.rows]
        # An interval that is open above is drawn as far as it reaches below.
        bounds = [(value, low, 2 * value - low if high is None else high) for value, low, high in figures]
        value, low, high = np.array(bounds).T * one.followed.quantity.scale
        axes.fill_between(at, low, high, alpha=0.25, linewidth=0)
        axes.plot(at, value, linewidth=1, marker="." if len(at) < 100 else "")
        axes.set_title(visible(f"{one.name}: {_last(one)}"), loc="left", fontsize="small")
        axes.locator_params(axis="y", nbins=3)
        for step in one.steps:  # named on the side where the line is above it
            place, size = places[_when(step.after)] - 0.5, one.followed.changes.text(step.change.value)
            sign, side = ("▼", "right") if step.change.value < 0 else ("▲", "left")
            axes.axvline(place, color="C1" if step.is_worse else "C2", linestyle="--")
            axes.text(place, 0.06, f"{sign} {size} ", ha=side, transform=axes.get_xaxis_transform())
    ticks = np.linspace(0, len(runs) - 1, min(6, len(runs))).round().astype(int)
    panels[-1].set_xticks(
        ticks,
        [f"{(runs[tick][1].commit or 'no commit')[:9]}\n{runs[tick][1].started[:10]}" for tick in ticks],
    )
    left = f"; {len(series) - len(drawn)} more series are drawn with -k" if len(series) > len(drawn) else ""
    figure.suptitle(f"From run to run{left}", x=0.015, ha="left")
    return figure
