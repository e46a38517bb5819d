"""Steps in a series of measurements: where its level changed, by how much, and how well both are known.

ruptures proposes the steps; each is then held against the runs beside it alone, so that slow drift makes none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reports.record.schema import Estimate

THRESHOLD = 4.5
"""How many standard errors a step's size has to be. By simulation (tests/trend/test_found_steps.py) fewer than one step
that is none is then found in 200 series of 1,000 runs; with 4 there were some."""
NEIGHBOURS = 60
"""The runs on either side that a step is measured by, at most. Over so few, drift of some percent in 1,000 runs is far
below a step; over many fewer a step of 3 % could not be told from a spread of 2 %."""
FEWEST = 4
"""The runs on either side that a step needs at least: one or two, and now and then three in a row, are outliers."""
_BLOCKS = (5, 10, 20)
"""Lengths in runs over which noise that outlasts a run is looked for."""
_FEWEST_BLOCKS = 4
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
_PLACE_DROP = 7.35
"""How much worse, in squared standard deviations, a place may fit than the best and still be the step's, at 95 %:
(1 - exp(-x/2))² = 0.95 (Yao, Biometrika 74, 1987)."""


@dataclass(frozen=True)
class Step:
    """A lasting change of the level between two neighbouring runs of a series."""

    at: int
    """The first run of the new level, counted from 0."""
    earliest: int
    """With 95 % confidence the new level began with none before this one."""
    latest: int
    """With 95 % confidence it began with none after this one."""
    change: Estimate
    """By how much the level changed, in the unit of the values."""


@dataclass(frozen=True)
class Noise:
    """How values scatter about their level, as standard deviations."""

    of_one: float
    """That of a single run."""
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
    found = noise(x, usual)
    x = _calmed(x, s, found)
    return _kept(x, _proposed(x, found), found)


def noise(x: np.ndarray, usual: float) -> Noise:
    """The scatter of a series whatever its steps: from differences of neighbours, of which few hold a step."""
    of_one = _shrunk(_spread(np.diff(x)) / np.sqrt(2), len(x), usual)
    around = _shrunk(_spread(x - _middles(x)), len(x), usual)
    one = max(of_one, around)
    blocks = [_of_blocks(x, length) for length in _BLOCKS if len(x) >= length * _FEWEST_BLOCKS]
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
    from scipy import ndimage

    return np.asarray(ndimage.median_filter(x, _MIDDLE_OF, mode="mirror"))


def _calmed(x: np.ndarray, errors: np.ndarray, found: Noise) -> np.ndarray:
    """The series with outliers cut, and with what was measured less well than most drawn to its neighbours: its pull on
    a level is then what its weight by inverse variance would give it."""
    middles = _middles(x)
    typical = np.median(errors)
    scatter = max(found.of_one**2 - typical**2, (found.of_one / 4) ** 2)  # between runs, the measuring apart
    weights = np.minimum(1.0, (scatter + typical**2) / (scatter + errors**2))
    reach = _CLIPPED_AT * found.of_one
    return middles + np.clip(weights * (x - middles), -reach, reach)


def _proposed(x: np.ndarray, found: Noise) -> list[int]:
    """The first runs of new levels by least squares with a price for each; lenient, as each is tested thereafter."""
    import ruptures

    price = (0.8 * THRESHOLD * found.lasting) ** 2
    search = ruptures.KernelCPD(kernel="linear", min_size=FEWEST).fit(x[:, None])
    return list(search.predict(pen=price)[:-1])


def _kept(x: np.ndarray, proposed: Sequence[int], found: Noise) -> list[Step]:
    """The proposed steps that each stand out from the runs beside them, the least first taken away."""
    places = list(proposed)
    while places:
        ends = [0, *places, len(x)]
        sides = [*zip(ends, ends[1:], ends[2:], strict=False)]
        sizes = [_size(x, *side, found) for side in sides]
        least = min(range(len(places)), key=lambda i: abs(sizes[i][0]) / sizes[i][1])
        if abs(sizes[least][0]) >= THRESHOLD * sizes[least][1]:
            return [_step(x, *side, found) for side in sides]
        del places[least]
    return []


def _size(x: np.ndarray, start: int, at: int, end: int, found: Noise) -> tuple[float, float]:
    """The change of the level at `at` and its standard error, by the neighbours within its segments."""
    before, after = x[max(start, at - NEIGHBOURS) : at], x[at : min(end, at + NEIGHBOURS)]
    error = found.lasting * np.sqrt(1 / len(before) + 1 / len(after))
    return float(after.mean() - before.mean()), float(error)


def _step(x: np.ndarray, start: int, at: int, end: int, found: Noise) -> Step:
    size, error = _size(x, start, at, end, found)
    begin, stop = max(start, at - NEIGHBOURS), min(end, at + NEIGHBOURS)
    part = x[begin:stop]
    counts = np.arange(1, len(part))
    left = np.cumsum(part)[:-1]
    explained = left**2 / counts + (part.sum() - left) ** 2 / (len(part) - counts)
    worse = (explained.max() - explained) / found.lasting**2
    possible = begin + 1 + np.flatnonzero(worse <= _PLACE_DROP)
    return Step(
        at,
        int(min(possible.min(), at)),
        int(max(possible.max(), at)),
        Estimate(size, size - 1.96 * error, size + 1.96 * error),
    )
