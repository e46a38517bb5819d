"""Two runs' scores of the same samples: what the metric changed by, and whether that can be chance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from reports.record.schema import CONFIDENCE, Estimate, Verdict

_RESAMPLES = 9999
_CELLS = 4_000_000
"""How many signs are drawn at a time, which bounds the memory."""


@dataclass(frozen=True)
class Paired:
    """One metric on the samples that both runs have, the second run's beside the first's."""

    samples: int
    """How many samples both runs have."""
    only_first: int
    """How many samples the first run alone has."""
    only_second: int
    """How many samples the second run alone has."""
    difference: Estimate
    """Mean score of the second run less that of the first."""
    p_value: float
    """The chance of a difference as large, if it were up to chance which run each sample's score is from."""
    lost: Sequence[str]
    """Ids of those the second run scored worse, the largest changes first."""
    gained: Sequence[str]
    verdict: Verdict
    """Whether the second run is shown to be better (passed) or worse (failed): where the interval leaves out
    0 and the test's chance is below 5 %."""


def paired(before: Mapping[str, float], after: Mapping[str, float], better: str) -> Paired:
    """Compare scores by sample id, on the ids that both have: at least one; `better` is `higher` or
    `lower`."""
    ids = [name for name in before if name in after]
    first, second = (np.array([scores[name] for name in ids], float) for scores in (before, after))
    change = second - first
    binary = better == "higher" and bool(np.isin(np.concatenate([first, second]), (0, 1)).all())
    difference = newcombe(first, second) if binary else student(change)
    p_value = mcnemar(change) if binary else sign_flips(change)
    gain = change if better == "higher" else -change
    order = np.argsort(-np.abs(gain), kind="stable")
    verdict: Verdict = "passed" if gain.mean() > 0 else "failed"
    return Paired(
        samples=len(ids),
        only_first=len(before) - len(ids),
        only_second=len(after) - len(ids),
        difference=difference,
        p_value=p_value,
        lost=tuple(ids[i] for i in order if gain[i] < 0),
        gained=tuple(ids[i] for i in order if gain[i] > 0),
        verdict="not shown"
        if difference.low <= 0 <= difference.high or p_value >= 1 - CONFIDENCE
        else verdict,
    )


def mcnemar(change: np.ndarray) -> float:
    """McNemar's exact test: of the samples that changed, as many became right as wrong but for chance."""
    gained, changed = int((change > 0).sum()), int((change != 0).sum())
    return float(stats.binomtest(gained, changed).pvalue) if changed else 1.0


def sign_flips(change: np.ndarray) -> float:
    """The permutation test of a mean of paired differences: what exact McNemar is for scores that are not 0
    or 1.

    It tests the mean, which is what the metric is; Wilcoxon's ranks can lie on the other side of it. All
    flips of up to 13 differences, else a fixed draw.
    """
    differing = change[change != 0]
    if len(differing) < 2:  # flipping one changes nothing
        return 1.0
    found = stats.permutation_test(
        (differing,),
        lambda x, axis: x.mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=_RESAMPLES,
        batch=max(1, _CELLS // len(differing)),
        rng=np.random.default_rng(0),
    )
    return float(found.pvalue)


def student(change: np.ndarray) -> Estimate:
    """The mean of paired differences with Student's interval; of one sample it is boundless."""
    mean = float(change.mean())
    if not change.any():
        return Estimate(0.0, 0.0, 0.0, CONFIDENCE)
    if len(change) < 2:
        return Estimate(mean, -np.inf, np.inf, CONFIDENCE)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(change) - 1) * stats.sem(change))
    return Estimate(mean, mean - half, mean + half, CONFIDENCE)


def newcombe(first: np.ndarray, second: np.ndarray) -> Estimate:
    """The difference of two paired proportions with the hybrid score interval (Newcombe, 1998, method 10).

    It keeps its width where few samples or none changed, which would leave other intervals none.
    """
    count = len(first)
    shares = second.mean(), first.mean()
    (low2, high2), (low1, high1) = (_wilson(int(scores.sum()), count) for scores in (second, first))
    correlation = _phi(first, second)
    below, above = (shares[0] - low2, high1 - shares[1]), (high2 - shares[0], shares[1] - low1)
    down, up = (np.sqrt(max(0.0, a**2 - 2 * correlation * a * b + b**2)) for a, b in (below, above))
    value = float(shares[0] - shares[1])
    return Estimate(value, value - float(down), value + float(up), CONFIDENCE)


def _wilson(count: int, samples: int) -> tuple[float, float]:
    interval = stats.binomtest(count, samples).proportion_ci(CONFIDENCE, method="wilson")
    return float(interval.low), float(interval.high)


def _phi(first: np.ndarray, second: np.ndarray) -> float:
    """The correlation of the two, with Newcombe's correction for continuity where it is positive; 0 of a
    constant."""
    both, neither = int((first * second).sum()), int(((1 - first) * (1 - second)).sum())
    only_first, only_second = int((first > second).sum()), int((second > first).sum())
    scale = float(np.sqrt(float(first.sum()) * float(second.sum()) * (1 - first).sum() * (1 - second).sum()))
    if not scale:
        return 0.0
    product = float(both * neither - only_first * only_second)
    if product > 0:
        product = max(0.0, product - len(first) / 2)
    return float(product / scale)
