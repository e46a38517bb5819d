"""Locates a step: how likely each run is to be the first of the new level, given the levels before and after.

A single run tells little where its noise is as large as the step, so most of what can be known is in the law of the noise.
What is reached beside what could be is in docs/trend.md, by tests/trend/test_located_steps.py.
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

_FREEDOM = 4.0
"""Degrees of freedom of Student's t, as whose the noise of a run is taken: an outlier then tells next to nothing of the
place, and of noise without any but a tenth is lost (Lange, Little, Taylor, JASA 84, 1989)."""
_SCALE = 1.1
"""The standard deviation that a median absolute deviation of such noise stands for, taken for a normal one's, over its
scale: 1.4826 * 0.7407."""
_KERNEL = np.array([1.0, 2.0, 3.0, 2.0, 1.0])
"""What a place is worth to a reader by how far it is from the true one: two commits away is still looked at. The best by
that is within two commits of the true one more often than the likeliest."""
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Places:
    """The runs between which a step lies, by their numbers."""

    at: int
    """The first run of the new level, as well as is known."""
    earliest: int
    """The first run with which the new level may have begun, with 95 % confidence."""
    latest: int
    """The last run with which the new level may have begun, with 95 % confidence."""

    def moved(self, by: int) -> "Places":
        """The same places, with runs counted from another one."""
        return dataclasses.replace(
            self, at=self.at + by, earliest=self.earliest + by, latest=self.latest + by
        )


def places(
    values: np.ndarray, before: float, after: float, variances: np.ndarray, independent: float
) -> Places:
    """Where the level went from `before` to `after`, by the runs beside the step, counted from the first of them.

    `values` [runs], NaN where a run is of neither level, `variances` [runs] of a single run's noise, and `independent` the
    share of the runs that tell something of their own: 1 where neighbours do not scatter alike.
    """
    scale = _FREEDOM * variances / _SCALE**2
    tells = np.log1p((values - after) ** 2 / scale) - np.log1p((values - before) ** 2 / scale)
    evidence = (_FREEDOM + 1) / 2 * np.cumsum(np.where(np.isnan(values), 0.0, tells))[:-1]
    likely = np.exp(independent * (evidence - evidence.max()))
    likely /= likely.sum()
    best = 1 + int(np.argmax(np.convolve(likely, _KERNEL, "same")))
    ordered = np.argsort(-likely, kind="stable")
    enough = 1 + int(np.searchsorted(np.cumsum(likely[ordered]), _CONFIDENCE))
    named = 1 + ordered[:enough]
    return Places(best, min(best, int(named.min())), max(best, int(named.max())))
