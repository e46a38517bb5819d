"""Series of one quantity over the runs of one machine, with the steps in them.

Machines are kept apart by their stamp and host: a change of hardware, driver or versions is no step, but another series.
"""

import dataclasses
import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from reports.record.quantities import CHANGE, SCORE, SCORE_CHANGE, Quantity
from reports.record.schema import Estimate
from reports.trend.followed import FOLLOWED, FollowedQuantity
from reports.trend.rows import Figure, Row
from reports.trend.steps import Step, steps

_PLACE = operator.attrgetter("started", "run")
"""A key that sorts runs by time, and is different for each run."""
_NAME = operator.attrgetter("target", "device", "machine", "case", "at", "better")
"""A key that is equal for all rows of one load point or metric on machines of one stamp."""
_HOST = operator.attrgetter("host")
_NUMBER = operator.itemgetter(0)
_FEWEST_TOGETHER = 8
"""Series that tell what a machine did to all of them in a run: the median of so many adds a tenth to their scatter."""
_ROUNDS = 3
"""Times that levels and the common movement are taken in turns; they stay as they are from the second on."""
_TO_STANDARD_ERROR = 2 * 1.96
"""The width of a 95 % interval over the standard error."""


@dataclass(frozen=True)
class Machine:
    """The machine that the figures of a series come from."""

    target: str
    device: str
    digest: str
    """The digest of the machine's stamp."""
    host: str
    """Empty where hosts are left out, or taken together."""


@dataclass(frozen=True)
class FoundStep:
    """A step, by the runs that it lies between."""

    at: int
    """The first run at the new level, counted from 0 in its series."""
    before: Row
    after: Row
    earliest: Row
    latest: Row
    change: Estimate
    """The size of the step as a fraction of the level before; for a quantity that is no speed and no error, the
    difference."""
    is_worse: bool


@dataclass(frozen=True, eq=False)
class Series:
    """One quantity of a case over the runs of a machine, in their order."""

    machine: Machine
    case: str
    at: str
    """The load point, or the metric."""
    kind: FollowedQuantity
    rows: Sequence[Row]
    """A measurement of each run that has one."""
    runs: np.ndarray
    """The numbers of these runs among all of the history, in the order of time, [runs]."""
    figures: np.ndarray
    """Values with the bounds of their intervals, [runs, 3]; where one is open above, it reaches as far as below."""
    is_last_open: bool = False
    """Whether the interval of the last run is open above."""
    steps: Sequence[FoundStep] = ()

    @property
    def last(self) -> Estimate:
        """The value and the interval of the last run."""
        value, low, high = self.figures[-1].tolist()
        return Estimate(value, low, high, open_above=self.is_last_open)

    @property
    def changes(self) -> Quantity:
        """How a change is written: in percent, of a score in points, of what grows in its own unit."""
        if self.kind.is_relative:
            return CHANGE
        if self.kind.quantity is SCORE:
            return SCORE_CHANGE
        return dataclasses.replace(self.kind.quantity, signed=True)


def all_series(rows: Iterable[Row], *, join_hosts: bool = False) -> list[Series]:
    """Every series of the rows with its steps, by machine, case and quantity; `join_hosts` takes the hosts of one stamp
    for one machine, as where each run has a new container."""
    every = [*rows]
    places = [*map(_PLACE, every)]
    numbers = {place: number for number, place in enumerate(sorted(set(places)))}
    hosts = itertools.repeat("", len(every)) if join_hosts else map(_HOST, every)
    points: dict[tuple[tuple[str, ...], str], list[tuple[int, Row]]] = {}
    for name, place, row in zip(zip(map(_NAME, every), hosts, strict=True), places, every, strict=True):
        points.setdefault(name, []).append((numbers[place], row))
    groups: dict[tuple[Machine, str], list[Series]] = {}
    for (_, host), found in points.items():
        for kind, one in _of_point(host, sorted(found, key=_NUMBER)):
            groups.setdefault((one.machine, kind), []).append(one)
    stepped = [one for group in groups.values() for one in _with_steps(group)]
    order = list(FOLLOWED.values())
    return sorted(stepped, key=lambda one: (_name(one.machine), one.case, order.index(one.kind), one.at))


def _of_point(host: str, found: Sequence[tuple[int, Row]]) -> Iterator[tuple[str, Series]]:
    """The series of a load point or metric, each with the name of its kind, of its rows with the numbers of their
    runs."""
    first = found[0][1]
    machine = Machine(first.target, first.device, first.machine, host)
    for name in dict.fromkeys(itertools.chain.from_iterable(row.figures for _, row in found)):
        kind = "error" if name == "score" and first.better == "lower" else name
        if kind not in FOLLOWED:
            continue
        having = [(number, row, row.figures[name]) for number, row in found if name in row.figures]
        if FOLLOWED[kind].is_relative:
            having = [one for one in having if one[2][1] > 0]
        if having:
            runs, rows, figures = zip(*having, strict=True)
            yield (
                kind,
                Series(
                    machine,
                    first.case,
                    first.at,
                    FOLLOWED[kind],
                    rows,
                    np.array(runs),
                    np.array([_closed(one) for one in figures]),
                    is_last_open=figures[-1][2] is None,
                ),
            )


def _closed(figure: Figure) -> tuple[float, float, float]:
    value, low, high = figure
    return value, low, 2 * value - low if high is None else high


def _name(machine: Machine) -> tuple[str, ...]:
    return (machine.target, machine.host, machine.device, machine.digest)


def _with_steps(group: Sequence[Series]) -> list[Series]:
    """The series of one machine and kind with their steps, once what moved them together from run to run is taken
    out."""
    last = 1 + max(int(one.runs[-1]) for one in group)
    common = _common(group) if group[0].kind.moves_with_machine else np.zeros(last)
    return [_stepped(one, common) for one in group]


def _common(group: Sequence[Series]) -> np.ndarray:
    """How far all series of a machine were from their levels in each run of the history, as a logarithm, [runs]; but for
    lasting steps of all, which stay. 0 in runs that too few series tell of."""
    common = np.zeros(1 + max(int(one.runs[-1]) for one in group))
    table = np.full((len(group), len(common)), np.nan)
    for number, one in enumerate(group):
        table[number, one.runs] = np.log(one.figures[:, 0])
    many = (~np.isnan(table)).sum(axis=0) >= _FEWEST_TOGETHER
    if not many.any():
        return common
    table = table[:, many]
    table = table[~np.isnan(table).all(axis=1)]
    moved = np.zeros(table.shape[1])
    for _ in range(_ROUNDS):
        levels = np.nanmedian(table - moved, axis=1, keepdims=True)
        moved = np.nanmedian(table - levels, axis=0)
    lasting = np.zeros(len(moved))
    for step in steps(moved, np.zeros(len(moved)), group[0].kind.usual):
        lasting[step.at :] += step.change.value
    common[many] = moved - lasting
    return common


def _stepped(one: Series, common: np.ndarray) -> Series:
    kind, usual = one.kind, one.kind.usual
    values, low, high = one.figures.T
    errors = (high - low) / _TO_STANDARD_ERROR
    if kind.is_relative:
        errors, values = errors / values, np.log(values) - common[one.runs]
    elif kind.quantity is SCORE:
        usual /= max(1, one.rows[-1].samples)
    found = [
        _found(one, step) for step in steps(values, errors, usual) if abs(step.change.value) >= kind.least
    ]
    return dataclasses.replace(one, steps=found)


def _found(one: Series, step: Step) -> FoundStep:
    rows, change = one.rows, step.change
    if one.kind.is_relative:
        value, low, high = (math.expm1(bound) for bound in (change.value, change.low, change.high))
        change = Estimate(value, low, high)
    better = one.kind.quantity.better
    return FoundStep(
        at=step.at,
        before=rows[step.at - 1],
        after=rows[step.at],
        earliest=rows[step.earliest],
        latest=rows[step.latest],
        change=change,
        is_worse=change.value < 0 if better == "higher" else change.value > 0,
    )


def recent(series: Sequence[Series], commits: int) -> list[tuple[Series, FoundStep]]:
    """The steps for the worse whose first run at the new level is of the latest so many commits of its machine; a run
    outside of any repository counts as one."""
    latest: dict[Machine, dict[str, str]] = {}
    for one in series:
        times = latest.setdefault(one.machine, {})
        for row in one.rows:
            name = row.commit or row.run
            times[name] = max(times.get(name, ""), row.started)
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
