"""Steps in a series of measurements: where its level changed, by how much, and how well both are known.

What is proposed and what is kept are held against the runs beside it alone, so that slow drift makes no step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from reports.record.schema import Estimate
from reports.trend.places import Places, places

THRESHOLD = 5.0
"""How many standard errors a step's size has to be. By simulation (tests/trend/test_found_steps.py) fewer than one step
that is none is then found in 200 series of 1,000 runs; with 4.5 there were two, and in histories of 30 to 200 runs more."""
NEIGHBOURS = 60
"""The runs on either side that a step is measured by, at most. Over so few, drift of some percent in 1,000 runs is far
below a step; over many fewer a step of 3 % could not be told from a spread of 2 %."""
LASTING = 8
"""The runs that a level lasts at least, unless it is the last one: of 200,000 runs with one outlier in a hundred, now and
then five of a dozen are."""
FEWEST = 4
"""The runs on either side that a step needs at least: one or two, and now and then three in a row, are outliers."""
_BLOCKS = (5, 10, 20)
"""Lengths in runs over which noise that outlasts a run is looked for."""
_FEWEST_BLOCKS = 10
_USUALLY_LASTING, _PRIOR_LASTING_RUNS = 2.0, 20
"""Lasting noise over that of one run, as it counts like so many runs before more is known: a short history cannot tell a
machine's bad week from a step. With less, histories of 20 to 80 runs had a false step in every tenth."""
_PRIOR_RUNS = 10
"""The usual spread counts like so many runs: the spread of ten runs alone is known to a third only."""
_CLIPPED_AT = 2.0
"""Spreads from the middle of its neighbours beyond which a value is an outlier, and is taken for as far."""
_MIDDLE_OF = 9
"""Runs whose median is the middle; it keeps the edge of a step of five runs or more."""
_NORMAL = 1.4826
"""The standard deviation over the median absolute deviation, of a normal distribution."""
_NORMAL_95 = 1.96
"""Standard errors from the middle of a 95 % interval to its ends."""
_WINDOWS = (4, 8, 15, 30, NEIGHBOURS)
"""Runs on either side over which a proposal is looked for: a step soon before the last run or another step has few."""
_ROUNDS = 2
"""Times that levels and place are taken in turns; the place rarely moves thereafter."""
_PROPOSED_AT = 0.8 * THRESHOLD
"""Standard errors from which a step is proposed; lenient, as each is tested once its neighbours are known."""


@dataclass(frozen=True)
class Step:
    """A lasting change of the level between two neighbouring runs of a series."""

    at: int
    """The first run of the new level, counted from 0."""
    earliest: int
    """The first run with which the new level may have begun, with 95 % confidence."""
    latest: int
    """The last run with which the new level may have begun, with 95 % confidence."""
    change: Estimate
    """By how much the level changed, in the unit of the values."""


@dataclass(frozen=True)
class Noise:
    """How values scatter about their level, as standard deviations."""

    of_one: float
    """The deviation of a single run."""
    lasting: float
    """What a mean of many runs is as uncertain by, times the root of their number: more than `of_one` where neighbours
    scatter alike."""


def steps(
    values: Sequence[float] | np.ndarray, errors: Sequence[float] | np.ndarray, usual: float
) -> list[Step]:
    """The steps of a series, in order.

    `values` [runs] in the order of the runs, `errors` [runs] the standard error that each was measured with, 0 where
    that is not known, and `usual` the spread from run to run that is expected before anything is known, above 0. All
    are in one unit; a value's logarithm makes sizes relative.
    """
    x, s = np.asarray(values, float), np.asarray(errors, float)
    if len(x) < 2 * FEWEST:
        return []
    middles = _middles(x)
    found = noise(x, middles, usual)
    excess = np.maximum(0.0, s**2 - np.median(s) ** 2)
    # By inverse variance: what was measured worse than most counts for less.
    levelled, weights = _clipped(x, middles, found.of_one), 1 / (found.lasting**2 + excess)
    kept = _kept(levelled, weights, sorted(_proposed(levelled, weights, 0, len(x))))
    steps_found: list[Step] = []
    for start, at, end in kept.sides:
        start = max([start, *(one.at for one in steps_found)])
        steps_found.append(_step(x, levelled, kept, found.of_one**2 + excess, found, (start, at, end)))
    return steps_found


def noise(x: np.ndarray, middles: np.ndarray, usual: float) -> Noise:
    """The scatter of a series whatever its steps: from differences of neighbours, of which few hold a step."""
    of_one = _shrunk(_spread(np.diff(x)) / np.sqrt(2), len(x), usual)
    around = _shrunk(_spread(x - middles), len(x), usual)
    one = max(of_one, around)
    calm = _clipped(x, middles, one)  # a block with an outlier says nothing of what lasts
    blocks = [_of_blocks(calm, length) for length in _BLOCKS if len(x) >= length * _FEWEST_BLOCKS]
    known, count = max([one, *blocks]), len(x)
    lasting = np.sqrt(
        (count * known**2 + _PRIOR_LASTING_RUNS * (_USUALLY_LASTING * one) ** 2)
        / (count + _PRIOR_LASTING_RUNS)
    )
    return Noise(one, float(lasting))


def _of_blocks(x: np.ndarray, length: int) -> float:
    """The scatter of the means of so many runs, times the root of their number."""
    count = len(x) // length
    means = x[len(x) - count * length :].reshape(count, length).mean(1)
    return float(_spread(np.diff(means)) * np.sqrt(length / 2))


def _spread(differences: np.ndarray) -> float:
    return float(_NORMAL * np.median(np.abs(differences)))


def _shrunk(spread: float, count: int, usual: float) -> float:
    """The spread of so many values, with what is usual counted like _PRIOR_RUNS more."""
    return float(np.sqrt((count * spread**2 + _PRIOR_RUNS * usual**2) / (count + _PRIOR_RUNS)))


def _middles(x: np.ndarray) -> np.ndarray:
    """The median of each value and its neighbours, [runs]."""
    reach = _MIDDLE_OF // 2
    mirrored = np.concatenate([x[reach:0:-1], x, x[-2 : -reach - 2 : -1]])
    neighbours = np.lib.stride_tricks.sliding_window_view(mirrored, _MIDDLE_OF)
    return np.partition(neighbours, reach, axis=1)[:, reach]


def _clipped(x: np.ndarray, middles: np.ndarray, spread: float) -> np.ndarray:
    """The values, the outliers among them no further from their middles than others are."""
    return middles + np.clip(x - middles, -_CLIPPED_AT * spread, _CLIPPED_AT * spread)


def _proposed(x: np.ndarray, weights: np.ndarray, start: int, end: int) -> Iterator[int]:
    """The first runs of new levels among these runs: the place where the runs of some window before it and of some
    after it differ most, and so on with the parts on either side of it."""
    if end - start < 2 * FEWEST:
        return
    standard_errors = _differences(x[start:end], weights[start:end])
    at = int(np.argmax(standard_errors))
    if standard_errors[at] < _PROPOSED_AT:
        return
    place = start + FEWEST + at
    yield place
    yield from _proposed(x, weights, start, place)
    yield from _proposed(x, weights, place, end)


def _differences(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """By how many standard errors the levels before and after each place differ, of the windows that tell most; for the
    places that have FEWEST runs on either side, [len(x) - 2 * FEWEST + 1]."""
    count = len(x)
    at = np.arange(FEWEST, count - FEWEST + 1)
    lengths = np.array(_WINDOWS)[:, None]
    begin, end = np.maximum(0, at - lengths), np.minimum(count, at + lengths)
    weight = np.concatenate([[0.0], np.cumsum(weights)])
    total = np.concatenate([[0.0], np.cumsum(weights * x)])
    before, after = weight[at] - weight[begin], weight[end] - weight[at]
    left, right = (total[at] - total[begin]) / before, (total[end] - total[at]) / after
    squares = (right[:, None] - left) ** 2 / (1 / after[:, None] + 1 / before)
    return np.asarray(np.sqrt(squares.max(axis=(0, 1))))


@dataclass(frozen=True, eq=False)
class _Kept:
    """The steps that are some: of each the first run of the level before, its own and the first after it."""

    sides: Sequence[tuple[int, int, int]]
    weights: np.ndarray
    """[runs], 0 where a run is of neither level."""


def _kept(x: np.ndarray, weights: np.ndarray, proposed: Sequence[int]) -> _Kept:
    """The proposed steps that each stand out from the runs beside them, the least first taken away."""
    steps_left, weights = list(proposed), weights.copy()
    while steps_left:
        ends = [0, *steps_left, len(x)]
        sides = [*zip(ends, ends[1:], ends[2:], strict=False)]
        for _start, at, end in sides:
            if end - at < LASTING and end < len(x):
                weights[at:end] = 0.0  # a bad week is neither the level before nor that after
        worth = [
            _worth(x, weights, *side) if weights[side[1]] and weights[side[0] : side[1]].any() else 0.0
            for side in sides
        ]
        least = int(np.argmin(worth))
        if worth[least] >= THRESHOLD:
            return _Kept(sides, weights)
        del steps_left[least]
    return _Kept([], weights)


def _worth(x: np.ndarray, weights: np.ndarray, start: int, at: int, end: int) -> float:
    """The size of a step in its standard errors."""
    size, error = _size(x, weights, start, at, end)
    return abs(size) / error


def _size(x: np.ndarray, weights: np.ndarray, start: int, at: int, end: int) -> tuple[float, float]:
    """The change of the level at `at` and its standard error, by the neighbours within its segments."""
    before, after = slice(max(start, at - NEIGHBOURS), at), slice(at, min(end, at + NEIGHBOURS))
    change = np.average(x[after], weights=weights[after]) - np.average(x[before], weights=weights[before])
    return float(change), float(np.sqrt(1 / weights[before].sum() + 1 / weights[after].sum()))


def _step(
    x: np.ndarray,
    levelled: np.ndarray,
    kept: _Kept,
    variances: np.ndarray,
    found: Noise,
    side: tuple[int, int, int],
) -> Step:
    """The step where it is likeliest between its neighbours; `levelled` [runs] are the values with their outliers cut."""
    start, at, end = side
    begin, stop = max(start, at - NEIGHBOURS), min(end, at + NEIGHBOURS)
    beside, weights = slice(begin, stop), kept.weights
    where = Places(at, at, at)
    for _ in range(_ROUNDS):
        sides = slice(begin, where.at), slice(where.at, stop)
        if not all(weights[one].any() for one in sides):
            break
        before, after = (float(np.average(levelled[one], weights=weights[one])) for one in sides)
        values = np.where(weights[beside] > 0, x[beside], np.nan)
        independent = (found.of_one / found.lasting) ** 2
        where = places(values, before, after, variances[beside], independent).moved(begin)
    size, error = _size(levelled, weights, start, where.at, end)
    bounds = (size - _NORMAL_95 * error, size + _NORMAL_95 * error)
    return Step(where.at, where.earliest, where.latest, Estimate(size, *bounds))
