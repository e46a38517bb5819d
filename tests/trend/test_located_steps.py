"""How well a step can be located at all, and how well it is: the bound that docs/trend.md names."""

import numpy as np
import pytest

from reports.trend.places import places
from reports.trend.steps import steps
from tests.trend import past

STEP, USUAL, SIDE = 0.03, 0.02, 60


def density(spread: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The logarithm of the density of `past.noisy` at some distances from the level and for some errors of measuring:
    errors [errors], distances [distances], and [errors, distances]."""
    from scipy import stats

    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    errors, distances = np.geomspace(0.0005, 0.05, 60), np.linspace(-0.5, 0.5, 4001)
    slow = np.where((distances < -0.05) & (distances > -0.4), 0.01 / 0.35, 0.0)
    scale = spread / np.sqrt(2)
    by_error = [
        0.99
        * stats.t.pdf((distances[:, None] - error * nodes) / scale, 4)
        @ weights
        / (scale * weights.sum())
        for error in errors
    ]
    return errors, distances, np.log(np.array(by_error) + slow + 1e-12)


def best_possible(spread: float, count: int) -> float:
    """How often the true place is within two runs of the best that one could name who knew the levels, and of each run
    the law of its noise: the middle of the five places that hold it most likely, by Bayes. None can do better."""
    errors, distances, table = density(spread)
    generator, hits = np.random.default_rng(11), 0
    for _ in range(count):
        values, measured = past.noisy(generator, 2 * SIDE, spread, drift=0.0)
        values[SIDE:] += STEP
        row = np.searchsorted(errors, measured).clip(0, len(errors) - 1)
        column = [
            np.searchsorted(distances, part).clip(0, len(distances) - 1) for part in (values, values - STEP)
        ]
        evidence = np.cumsum(table[row, column[0]] - table[row, column[1]])[:-1]
        likely = np.exp(evidence - evidence.max())
        hits += abs(1 + int(np.convolve(likely, np.ones(5), "same").argmax()) - SIDE) <= 2
    return hits / count


def located(spread: float, count: int, runs: int = 1000) -> tuple[float, float]:
    """Of planted steps, how many are found, and how many within two runs of their place."""
    generator, found, near = np.random.default_rng(12), 0, 0
    for _ in range(count):
        values, errors = past.noisy(generator, runs, spread)
        true = int(generator.integers(runs // 6, runs - runs // 6))
        values[true:] += generator.choice((-STEP, STEP))
        distances = [abs(step.at - true) for step in steps(values, errors, USUAL)]
        found += min(distances, default=runs) <= 25
        near += min(distances, default=runs) <= 2
    return found / count, near / count


def test_the_place_of_a_clear_step_is_certain() -> None:
    values = np.repeat([0.0, 1.0], [30, 20])
    found = places(values, 0.0, 1.0, np.full(50, 0.01), independent=1.0)
    assert (found.earliest, found.at, found.latest) == (30, 30, 30)


def test_a_run_between_the_levels_makes_two_places_possible() -> None:
    values = np.concatenate([np.zeros(30), [0.5], np.ones(20)])
    found = places(values, 0.0, 1.0, np.full(51, 0.01), independent=1.0)
    assert (found.earliest, found.latest) == (30, 31)


def test_the_place_is_less_certain_where_neighbours_scatter_alike() -> None:
    generator = np.random.default_rng(4)
    values = np.repeat([0.0, 1.0], [30, 30]) + generator.normal(0, 0.7, 60)
    sure, unsure = (places(values, 0.0, 1.0, np.full(60, 0.5), one) for one in (1.0, 0.25))
    assert unsure.latest - unsure.earliest > sure.latest - sure.earliest


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("spread", "lacking"),
    [(0.005, 0.03), (0.01, 0.03), (0.015, 0.04), (0.02, 0.05), (0.025, 0.15), (0.03, 0.3)],
)
def test_a_step_is_located_nearly_as_often_as_is_possible(spread: float, lacking: float) -> None:
    """The figures of docs/trend.md; what is not found counts as not located, which is most of what is lacking."""
    bound, (found, near) = best_possible(spread, 2000), located(spread, 1000)
    print(f"spread {spread}: found {found:.3f}, within two {near:.3f}, possible {bound:.3f}")
    assert near <= bound + 0.03, "more than is possible: the bound is wrong"
    assert near >= bound - lacking
