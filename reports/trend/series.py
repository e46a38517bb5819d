"""Series of one quantity over the runs of one machine, with the steps in them.

Machines are kept apart by their stamp and host: a change of hardware, driver or versions is no step, but another series.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reports.record.quantities import (
    CHANGE,
    ERROR,
    LATENCY,
    METRIC_CHANGES,
    RATIO,
    SCORE,
    THROUGHPUT,
    Quantity,
)
from reports.record.schema import Estimate
from reports.trend.rows import Row
from reports.trend.steps import Step, steps

_FEWEST_TOGETHER = 8
"""Series that tell what a machine did to all of them in a run: the median of so many adds a tenth to their scatter."""
_ROUNDS = 3
"""Times that levels and the common movement are taken in turns; they stay as they are from the second on."""
_TO_STANDARD_ERROR = 2 * 1.96
"""The width of a 95 % interval over the standard error."""


@dataclass(frozen=True)
class Kind:
    """A quantity that is followed."""

    name: str
    quantity: Quantity
    usual: float
    """The spread from run to run that is expected before anything is known; of the logarithm, or for a score that is a
    fraction in samples."""
    is_relative: bool
    """Whether changes are fractions of the value, so that logarithms are looked at."""
    moves_with_machine: bool
    """Whether a slow day of the machine moves it."""


#: Speeds of one build vary by 1 to 3 % from run to run on one machine, tails by more. A score repeats but for samples
#: that are near ties, an error but for its last digits: one model's formats agree to a tenth of a percent
#: (`reports/readme`, fastpitch-micro).
KINDS: Mapping[str, Kind] = {
    "throughput_per_s": Kind("throughput", THROUGHPUT, 0.02, True, True),
    "latency_p99_ms": Kind("p99 latency", LATENCY, 0.05, True, True),
    "in_process_ratio": Kind("served / in process", RATIO, 0.02, True, False),
    "score": Kind("accuracy", SCORE, 0.5, False, False),
    "error": Kind("accuracy", ERROR, 0.001, True, False),
}


@dataclass(frozen=True)
class Machine:
    """What the figures of a series have in common."""

    target: str
    device: str
    digest: str
    """Of its stamp."""
    host: str
    """Empty where hosts are left out, or taken together."""


@dataclass(frozen=True)
class Point:
    """The value in one run."""

    row: Row
    value: Estimate


@dataclass(frozen=True)
class FoundStep:
    """A step, by the runs that it lies between."""

    before: Row
    after: Row
    earliest: Row
    latest: Row
    change: Estimate
    """As a fraction of the level before, or of a score that is a fraction the difference."""
    is_worse: bool


@dataclass(frozen=True)
class Series:
    """One quantity of a case over the runs of a machine, in their order."""

    machine: Machine
    case: str
    at: str
    """The load point, or the metric."""
    kind: Kind
    points: Sequence[Point]
    steps: Sequence[FoundStep] = ()

    @property
    def changes(self) -> Quantity:
        """How a change is written: in percent, or of a score in points."""
        if self.kind.is_relative:
            return CHANGE
        return METRIC_CHANGES["higher"]


def all_series(rows: Iterable[Row], *, join_hosts: bool = False) -> list[Series]:
    """Every series of the rows with its steps, by machine, case and quantity; `join_hosts` takes the hosts of one stamp
    for one machine, as where each run has a new container."""
    points: dict[tuple[Machine, str, str, str], list[Point]] = {}
    for row in sorted(rows, key=lambda one: (one.started, one.run)):
        machine = Machine(row.target, row.device, row.machine, "" if join_hosts else row.host)
        for name, figure in row.figures.items():
            kind = "error" if name == "score" and row.better == "lower" else name
            if kind in KINDS and not (KINDS[kind].is_relative and min(figure) <= 0):
                points.setdefault((machine, row.case, row.at, kind), []).append(Point(row, Estimate(*figure)))
    plain = [
        Series(machine, case, at, KINDS[kind], found) for (machine, case, at, kind), found in points.items()
    ]
    groups: dict[tuple[Machine, str], list[Series]] = {}
    for one in plain:
        groups.setdefault((one.machine, one.kind.name), []).append(one)
    found = [stepped for group in groups.values() for stepped in _with_steps(group)]
    order = list(KINDS.values())
    return sorted(found, key=lambda one: (_name(one.machine), one.case, order.index(one.kind), one.at))


def _name(machine: Machine) -> tuple[str, ...]:
    return (machine.target, machine.host, machine.device, machine.digest)


def _with_steps(group: Sequence[Series]) -> list[Series]:
    """The series of one machine and kind with their steps, once what moved them together from run to run is taken
    out."""
    common = _common(group) if group[0].kind.moves_with_machine else {}
    return [_stepped(one, common) for one in group]


def _common(group: Sequence[Series]) -> dict[tuple[str, str], float]:
    """How far all series of a machine were from their levels in each run, but for lasting steps of all, which stay."""
    runs = sorted({_place(point.row) for one in group for point in one.points})
    column = {place: number for number, place in enumerate(runs)}
    table = np.full((len(group), len(runs)), np.nan)
    for number, one in enumerate(group):
        for point in one.points:
            table[number, column[_place(point.row)]] = math.log(point.value.value)
    many = (~np.isnan(table)).sum(axis=0) >= _FEWEST_TOGETHER
    if not many.any():
        return {}
    table = table[:, many]
    table = table[~np.isnan(table).all(axis=1)]
    moved = np.zeros(table.shape[1])
    for _ in range(_ROUNDS):
        levels = np.nanmedian(table - moved, axis=1, keepdims=True)
        moved = np.nanmedian(table - levels, axis=0)
    lasting = np.zeros(len(moved))
    for step in steps(moved, np.zeros(len(moved)), group[0].kind.usual):
        lasting[step.at :] += step.change.value
    return dict(zip((runs[i] for i in np.flatnonzero(many)), (moved - lasting).tolist(), strict=True))


def _stepped(one: Series, common: Mapping[tuple[str, str], float]) -> Series:
    kind = one.kind
    values = np.array([point.value.value for point in one.points])
    widths = np.array([point.value.high - point.value.low for point in one.points])
    usual = kind.usual
    if kind.is_relative:
        errors = widths / values / _TO_STANDARD_ERROR
        values = np.log(values) - np.array([common.get(_place(point.row), 0.0) for point in one.points])
    else:
        errors = widths / _TO_STANDARD_ERROR
        usual /= max(1, one.points[-1].row.samples)
    found = [_found(one, step) for step in steps(values, errors, usual)]
    return Series(one.machine, one.case, one.at, kind, one.points, found)


def _found(one: Series, step: Step) -> FoundStep:
    rows = [point.row for point in one.points]
    change = step.change
    if one.kind.is_relative:
        change = Estimate(*(math.expm1(bound) for bound in (change.value, change.low, change.high)))
    better = one.kind.quantity.better
    return FoundStep(
        before=rows[step.at - 1],
        after=rows[step.at],
        earliest=rows[step.earliest],
        latest=rows[step.latest],
        change=change,
        is_worse=change.value < 0 if better == "higher" else change.value > 0,
    )


def _place(row: Row) -> tuple[str, str]:
    """What orders runs, and tells them apart."""
    return (row.started, row.run)


def recent(series: Sequence[Series], commits: int) -> list[tuple[Series, FoundStep]]:
    """The steps for the worse whose first run at the new level is of the latest so many commits of its machine; a run
    outside of any repository counts as one."""
    latest: dict[Machine, dict[str, str]] = {}
    for one in series:
        times = latest.setdefault(one.machine, {})
        for point in one.points:
            name = point.row.commit or point.row.run
            times[name] = max(times.get(name, ""), point.row.started)
    kept = {
        machine: set(sorted(times, key=lambda name: times[name])[-commits:])
        for machine, times in latest.items()
    }
    return [
        (one, step)
        for one in series
        for step in one.steps
        if step.is_worse and (step.after.commit or step.after.run) in kept[one.machine]
    ]
