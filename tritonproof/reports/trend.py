"""How each figure of the history changed, and its level shifts, which are lasting changes: the package
ruptures proposes them, and a model of the noise decides. Simulations in tests/reports/trend show how many
shifts are found, and how many are false: docs/trend.md."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from msgspec import structs
from ruptures import KernelCPD

from tritonproof.base.commands import EXIT_ACCURACY, EXIT_SPEED
from tritonproof.base.errors import InputError
from tritonproof.base.sanitize import excerpt, visible
from tritonproof.record import fields, quantities
from tritonproof.reports.history import HistoryRow, row_identity
from tritonproof.reports.phrases import counted, days_text
from tritonproof.reports.tables import table as tables
from tritonproof.reports.tables.rendering import bold, italic, join_markdown, markdown

MIN_RUNS, LASTING = 4, 8
"""The fewest runs of a level. Fewer than MIN_RUNS are outliers; fewer than LASTING a bad week."""
THRESHOLD = 5.0
"""The smallest shift in standard errors: less than one is false in 200 simulated series of 1,000 runs."""
_NEIGHBOURS = 60
"""The most runs on either side that test a shift: a drift of some percent over 1,000 runs is no shift."""
_MIN_TOGETHER = 8
"""The fewest series of a machine whose median in a run shows an effect of the machine on all of them."""


class TrackedQuantity(NamedTuple):
    """A quantity whose history is shown. `usual_std` is the standard deviation to expect from run to run: of
    a speed or an error as a share of it, such as 0.02, of a score as a number of samples. `status` is the
    exit status of a shift for the worse; `changes` formats a shift's size."""

    name: str
    quantity: quantities.Quantity
    usual_std: float
    status: int = EXIT_SPEED
    changes: quantities.Quantity = quantities.CHANGE


# The speed of a build varies by 1 to 3 % from run to run on one machine, and tail latency by more. A score
# varies only by samples that are near ties, an error only in its last digits.
_TRACKED = {
    "throughput_per_s": TrackedQuantity("throughput", quantities.THROUGHPUT, 0.02),
    "latency_p99_ms": TrackedQuantity("p99 latency", quantities.LATENCY, 0.05),
    "in_process_ratio": TrackedQuantity("served / in process", quantities.RATIO, 0.02),
    "score": TrackedQuantity("accuracy", quantities.SCORE, 0.5, EXIT_ACCURACY, quantities.SCORE_CHANGE),
    "error": TrackedQuantity("accuracy", quantities.ERROR, 0.001, EXIT_ACCURACY, quantities.ERROR_CHANGE),
}
_run_key = attrgetter("started", "run", "host")  # sorts the runs, and tells them apart


class LevelShift(NamedTuple):
    """A lasting change of the level between two neighbouring runs of a series."""

    before: HistoryRow
    after: HistoryRow
    change: fields.Estimate
    is_worse: bool


class Series(NamedTuple):
    """One quantity of a case over the runs of a machine, in their order. A machine is a host with a stamp, so
    a change of hardware, drivers or versions is no shift but starts another series."""

    machine: str
    case: str
    figure: str
    at: str
    tracked: TrackedQuantity
    rows: Sequence[HistoryRow]
    shifts: Sequence[LevelShift]


def all_series(rows: Iterable[HistoryRow], *, join_hosts: bool = False) -> list[Series]:
    """Every series of the rows with its shifts, without ratios that may not be shown. `join_hosts` treats
    hosts of equal stamps as one machine, and rows that differ only in the host's name as one measurement."""
    if join_hosts:
        without_host = (structs.replace(row, host="") for row in rows)
        rows = {row_identity(row): row for row in without_host}.values()
    figures = [
        (row.host, row.machine, row.kind, name, row.case, row.at, _run_key(row), row, value)
        for row in sorted(rows, key=_run_key)
        for name, (value, _, _) in row.figures.items()
        if name in _TRACKED and (value > 0 or _TRACKED[name].status == EXIT_ACCURACY)
        if quantities.is_shown(_estimate(row, name))
    ]
    columns = ["host", "machine", "kind", "figure", "case", "at", "run", "row", "value"]
    series = []
    for (host, stamp, _, figure), group in pd.DataFrame(figures, columns=columns).groupby(columns[:4]):
        tracked = _TRACKED[figure]
        # An accuracy may be zero and does not vary with the machine: its shifts are differences, not ratios.
        is_accuracy = tracked.status == EXIT_ACCURACY
        levels = group.pivot(index="run", columns=["case", "at"], values="value")
        if not is_accuracy:
            levels = _without_machine_effect(np.log(levels), tracked.usual_std)
        for (case, at), case_rows in group.groupby(["case", "at"])["row"].agg(list).items():
            shifts, usual_std = [], tracked.usual_std
            values = levels[case, at].dropna().to_numpy()
            if figure == "score":
                usual_std /= max(1, case_rows[-1].samples)
            elif is_accuracy:
                usual_std *= values.mean() or 1.0
            for first, change, error in find_shifts(values, usual_std):
                bounds = (change, change - 1.96 * error, change + 1.96 * error)
                size = fields.Estimate(*(bounds if is_accuracy else map(math.expm1, bounds)))
                is_worse = (change < 0) == (tracked.quantity.better == "higher")
                shifts.append(LevelShift(case_rows[first - 1], case_rows[first], size, is_worse))
            series.append(Series(f"{host} {stamp}".strip(), case, figure, at, tracked, case_rows, shifts))
    return sorted(series, key=attrgetter("machine", "case", "figure", "at"))


def _without_machine_effect(levels: pd.DataFrame, usual_std: float) -> pd.DataFrame:
    """The series of a machine, `levels` [runs, series], without what moved all of them in a run from their
    usual levels. Runs with too few series stay as they are, and so does a lasting shift of all series."""
    shared = levels[levels.count(axis=1) >= _MIN_TOGETHER]
    moved = shared.sub(shared.median()).median(axis=1)
    moved = shared.sub(shared.sub(moved, axis=0).median()).median(axis=1)
    for first, change, _ in find_shifts(moved.to_numpy(), usual_std):
        moved.iloc[first:] -= change
    return levels.sub(moved.reindex(levels.index, fill_value=0.0), axis=0)


def find_shifts(values: np.ndarray, usual_std: float) -> list[tuple[int, float, float]]:
    """The lasting shifts of the `values` of a series, [runs]. Each is the index of the first run of the new
    level, the change, and the standard error of the change. `usual_std` is that of TrackedQuantity."""
    if len(values) < 2 * MIN_RUNS:
        return []
    clipped, std = _clipped(values, usual_std)
    indices = np.arange(len(clipped))
    while True:
        # The lower penalty also proposes smaller shifts. Each is tested below, when its neighbours are known.
        search = KernelCPD(kernel="linear", min_size=MIN_RUNS).fit(clipped[indices, None])
        ends = [0, *search.predict(pen=0.8 * (THRESHOLD * std) ** 2)]
        transient = [sides for sides in pairwise(ends[1:-1]) if sides[1] - sides[0] < LASTING]
        if not transient:
            break
        indices = np.delete(indices, range(*transient[0]))
    while len(ends) > 2:
        candidates = []
        for start, at, end in zip(ends, ends[1:], ends[2:], strict=False):
            before = clipped[indices[max(start, at - _NEIGHBOURS) : at]]
            after = clipped[indices[at : min(end, at + _NEIGHBOURS)]]
            error = std * math.sqrt(1 / len(before) + 1 / len(after))
            candidates.append((int(indices[at]), float(after.mean() - before.mean()), error))
        z_scores = [abs(change) / error for _, change, error in candidates]
        if min(z_scores) >= THRESHOLD:
            return candidates
        del ends[1 + z_scores.index(min(z_scores))]
    return []


def _clipped(values: np.ndarray, usual_std: float) -> tuple[np.ndarray, float]:
    """The values, clipped to two standard deviations around the moving median, and the standard deviation to
    use for the mean of many runs. This is larger than that of single runs if neighbours deviate together.

    `usual_std` weighs as much as ten runs, which alone would tell the deviation only to a third. Means of
    blocks of runs, if there are ten blocks, show noise that lasts longer than a run. As a short history
    cannot tell a bad week from a shift, twice the deviation of single runs weighs as much as twenty runs."""
    medians = pd.Series(values).rolling(9, center=True, min_periods=1).median().to_numpy()
    neighbour_std = _robust_std(np.diff(values)) / math.sqrt(2)  # shifts are between few neighbours
    observed = max(neighbour_std, _robust_std(values - medians))
    run_std = math.sqrt(np.average([observed**2, usual_std**2], weights=[len(values), 10]))
    clipped = np.clip(values, medians - 2 * run_std, medians + 2 * run_std)
    stds = [run_std]
    for length in (length for length in (5, 10, 20) if len(clipped) >= 10 * length):
        means = clipped[len(clipped) % length :].reshape(-1, length).mean(axis=1)
        stds.append(_robust_std(np.diff(means)) * math.sqrt(length / 2))
    return clipped, math.sqrt(np.average([max(stds) ** 2, 4 * run_std**2], weights=[len(clipped), 20]))


def _robust_std(differences: np.ndarray) -> float:
    return 1.4826 * float(np.median(np.abs(differences)))  # the standard deviation if they are normal


def table(series: Sequence[Series]) -> str:
    """The history's length, and a row for each series: its last value and shifts, worse ones bold."""
    runs = {row.run: row for each in series for row in each.rows}
    commits = counted(len({row.commit for row in runs.values()} - {None}), "commit")
    days = days_text(row.started for row in runs.values())
    shifts = counted(sum(len(each.shifts) for each in series), "level shift")
    extent = f"{counted(len(runs), 'run')} of {commits}, {days}; {shifts} in {len(series)} series."
    return markdown([extent, tables.table(_COLUMNS, series)])


def _shifts_cell(series: Series) -> str | None:
    texts = ((bold if shift.is_worse else italic)(shift_text(series, shift)) for shift in series.shifts)
    return join_markdown(texts, "; ") or None


def worse_shifts(series: Sequence[Series], within: int, known: str | None) -> list[tuple[int, str]]:
    """The exit status and a sentence for each shift for the worse in the latest `within` runs of a series and
    after its runs of the commit `known`. Raises InputError if no run is of that commit."""
    digits = max(7, len(known or ""))  # with fewer digits many commits begin
    starts = [[row.started for row in each.rows if (row.commit or "?")[:digits] == known] for each in series]
    if known and not any(starts):
        what, fix = "no run of the history has this commit", "give its first 7 or more digits"
        raise InputError(what, where=f"--known {excerpt(known)}", fix=fix)
    return [
        (each.tracked.status, f"{each.case}, {each.at}, {each.tracked.name}: {shift_text(each, shift)}")
        for each, accepted in zip(series, starts, strict=True)
        for shift in each.shifts
        if shift.is_worse and shift.after in each.rows[-within:]
        if shift.after.started > max(accepted, default="")
    ]


def shift_text(series: Series, shift: LevelShift) -> str:
    """`between a1b2c3d4e and b2c3d4e5f: -3.1 % (-3.9 to -2.2)`, and what else changed, if anything."""
    before, after = shift.before, shift.after
    between = f"between {_commit(before)} and {_commit(after)}"
    if before.commit and _commit(before) == _commit(after):
        between = f"between two runs of {_commit(before)}, {before.started[:16]} and {after.started[:16]}"
        between += ", so not by a commit" if before.clean else ""
    remark = "" if before.build == after.build else "; the build is another"
    if before.triton != after.triton:
        remark += f"; Triton {before.triton} became {after.triton}"
    return f"{between}: {series.tracked.changes.text_with_interval(shift.change)}{remark}"


def _commit(row: HistoryRow) -> str:
    return f"{row.commit[:9]}{'' if row.clean else '-dirty'}" if row.commit else f"the run of {row.started}"


def _estimate(row: HistoryRow, figure: str) -> fields.Estimate:
    value, low, high = row.figures[figure]
    kind = fields.Ratio if _TRACKED[figure].quantity is quantities.RATIO else fields.Estimate
    return kind(value, low, value if high is None else high, open_above=high is None)


def _last_value(series: Series) -> str:
    last, quantity = _estimate(series.rows[-1], series.figure), series.tracked.quantity
    is_exact = last.low == last.high and not last.open_above
    return quantity.text(last.value) if is_exact else quantity.text_with_interval(last)


_COLUMNS: Sequence[tables.Column[Series]] = (
    tables.Column("Machine", lambda series: series.machine),
    tables.Column("Case", lambda series: series.case),
    tables.Column("At", lambda series: series.at),
    tables.Column("Quantity", lambda series: series.tracked.name),
    tables.Column("Runs", lambda series: f"{len(series.rows):,}", right_aligned=True),
    tables.Column("Last value", _last_value, right_aligned=True),
    tables.Column("Level shifts", _shifts_cell),
)


def picture(series: Sequence[Series]) -> Figure:
    """One picture of the history: a panel for each series with its shifts marked, those with shifts first."""
    drawn = sorted(series, key=lambda each: not each.shifts)[:20]  # they fill a page
    runs = sorted({_run_key(row): row for each in drawn for row in each.rows}.items())
    index_of = {run: index for index, (run, _) in enumerate(runs)}
    figure = Figure(figsize=(8.6, 1.0 + 0.8 * len(drawn)), layout="constrained")
    panels = figure.subplots(len(drawn), sharex=True, squeeze=False)[:, 0]
    for axes, each in zip(panels, drawn, strict=True):
        positions = [index_of[_run_key(row)] for row in each.rows]
        bounds = np.array([row.figures[each.figure] for row in each.rows], dtype=float)
        value, low, high = bounds.T * each.tracked.quantity.scale
        high = np.where(np.isnan(high), 2 * value - low, high)  # open above: drawn as far as it reaches below
        axes.fill_between(positions, low, high, alpha=0.25, linewidth=0)
        axes.plot(positions, value, linewidth=1, marker="." if len(positions) < 100 else "")
        title = visible(f"{each.case}, {each.at}, {each.tracked.name}: {_last_value(each)}")
        axes.set_title(title, loc="left", fontsize="small")
        axes.locator_params(axis="y", nbins=3)
        for shift in each.shifts:  # the size stands at the bottom, on the side where the line is higher
            x = index_of[_run_key(shift.after)] - 0.5
            size = each.tracked.changes.text(shift.change.value)
            sign, side = ("▼", "right") if shift.change.value < 0 else ("▲", "left")
            axes.axvline(x, color="C1" if shift.is_worse else "C2", linestyle="--")
            axes.text(x, 0.06, f"{sign} {size} ", ha=side, transform=axes.get_xaxis_transform())
    ticks = np.linspace(0, len(runs) - 1, min(6, len(runs))).round().astype(int)
    ends = [runs[tick][1] for tick in ticks]
    names = [f"{(row.commit or 'no commit')[:9]}\n{visible(row.started[:10])}" for row in ends]
    panels[-1].set_xticks(ticks, names)
    remark = f"; {len(series) - len(drawn)} more series are drawn with -k" if len(series) > len(drawn) else ""
    figure.suptitle(f"From run to run{remark}", x=0.015, ha="left")
    return figure
