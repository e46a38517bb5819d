"""Whose answer is it? An answer is nearer to its own sample's answer than to any other sample's.

The rule of sameness asks this of the server's answers to the samples of the gates and of the load, and not of
the conversion and of the evaluation set: there a right INT8 is off by up to 3.8 times the measured cost, and
two samples count as told apart only from twice that on.
"""

import numpy as np

from tritonproof.accuracy.expected import Answer, ExpectedOutputs, standardize
from tritonproof.accuracy.limits import AnswerLimits
from tritonproof.accuracy.outputs import beyond_rounding, differences

_MIN_COLUMNS = 4
"""Rows with fewer elements are not compared with other samples' rows: noise may lie near another."""
_DISTINCT_SHARE = 0.25
"""How far apart the answers to two samples must be before one counts as mistaken for the other, as a share of
what kernels may do. Between two nearer ones rounding decides."""


def nearer_to_another(
    expected: ExpectedOutputs, answer: Answer, rows: np.ndarray, limits: AnswerLimits
) -> np.ndarray:
    """Which of some `rows` of an answer that has every output are nearer to the answer of another sample than
    to that of their own, as a mask of all its rows. However much a precision may cost, it does not make one
    sample's answer another's."""
    mistaken = np.zeros(len(answer.samples), bool)
    total = sum(np.prod(expected.outputs[name].shape[1:], dtype=int) for name in expected.spreads)
    if not rows.size or total < _MIN_COLUMNS:
        return mistaken
    own, right = answer.samples[rows], expected.standardized
    here = standardize(expected, {name: answer.outputs[name][rows] for name in expected.spreads})
    # The square of the distance, but for the row's own square.
    nearest = (np.square(right).sum(axis=1) - 2 * here @ right.T).argmin(axis=1)
    to_own, to_nearest = (np.linalg.norm(here - right[targets], axis=1) for targets in (own, nearest))
    for place in np.flatnonzero((nearest != own) & (2 * to_nearest < to_own)):
        mistaken[rows[place]] = _are_distinct(expected, int(own[place]), int(nearest[place]), limits)
    return mistaken


def _are_distinct(expected: ExpectedOutputs, sample: int, other: int, limits: AnswerLimits) -> bool:
    """Whether the right answers to two samples differ by more than kernels may change."""
    for name, spread in expected.spreads.items():
        apart = differences(expected.outputs[name][sample], expected.outputs[name][other])
        beyond = beyond_rounding(apart, spread, limits.rounding)
        if beyond.max(initial=0.0) > _DISTINCT_SHARE * limits.of_output(name).element:
            return True
    return False
