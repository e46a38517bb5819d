"""Two runs' scores of the same samples: how much the metric changed, and whether chance can explain it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from reports.record.schema import CONFIDENCE, Estimate, Verdict

_RESAMPLES = 9999
_CELLS = 4_000_000
"""How many signs to draw at a time, which bounds the memory."""


@dataclass(frozen=True)
class PairedScores:
    """One metric of two runs, on the samples that both have."""

    samples: int
    """How many samples both runs have."""
    only_before: int
    """How many samples only the first run has."""
    only_after: int
    difference: Estimate
    """Mean score of the second run less that of the first."""
    p_value: float
    """The chance of a difference this large if chance decided which run each score came from."""
    lost: Sequence[str]
    """Ids of samples that the second run scored worse, the largest changes first."""
    gained: Sequence[str]
    verdict: Verdict
    """Whether the second run is shown to be better (passed) or worse (failed): the interval leaves out 0, and
    the p-value is below 5 %."""


def pair_scores(before: Mapping[str, float], after: Mapping[str, float], better: str) -> PairedScores:
    """Compare scores by sample id, at least one of which both have; `better` is `higher` or `lower`."""
    ids = [name for name in before if name in after]
    first, second = (np.array([scores[name] for name in ids], float) for scores in (before, after))
    change = second - first
    binary = better == "higher" and bool(np.isin(np.concatenate([first, second]), (0, 1)).all())
    difference = newcombe(first, second) if binary else student(change)
    p_value = mcnemar(change) if binary else sign_flips(change)
    gain = change if better == "higher" else -change
    order = np.argsort(-np.abs(gain), kind="stable")
    verdict: Verdict = "passed" if gain.mean() > 0 else "failed"
    if difference.low <= 0 <= difference.high or p_value >= 1 - CONFIDENCE:
        verdict = "not shown"
    return PairedScores(
        samples=len(ids),
        only_before=len(before) - len(ids),
        only_after=len(after) - len(ids),
        difference=difference,
        p_value=p_value,
        lost=tuple(ids[i] for i in order if gain[i] < 0),
        gained=tuple(ids[i] for i in order if gain[i] > 0),
        verdict=verdict,
    )


def mcnemar(change: np.ndarray) -> float:
    """McNemar's exact test: by chance, as many of the changed samples became right as wrong."""
    gained, changed = int((change > 0).sum()), int((change != 0).sum())
    return float(stats.binomtest(gained, changed).pvalue) if changed else 1.0


def sign_flips(change: np.ndarray) -> float:
    """The permutation test of the mean paired difference, for scores other than 0 and 1: all sign flips of up
    to 13 differences, else a fixed draw. Wilcoxon's test compares ranks, which may disagree with the mean."""
    differing = change[change != 0]
    if len(differing) < 2:  # flipping a single difference changes nothing
        return 1.0
    test = stats.permutation_test(
        (differing,),
        lambda x, axis: x.mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=_RESAMPLES,
        batch=max(1, _CELLS // len(differing)),
        rng=np.random.default_rng(0),
    )
    return float(test.pvalue)


def student(change: np.ndarray) -> Estimate:
    """The mean paired difference with Student's interval, which is infinite for a single sample."""
    mean = float(change.mean())
    if not change.any():
        return Estimate(0.0, 0.0, 0.0, CONFIDENCE)
    if len(change) < 2:
        return Estimate(mean, -np.inf, np.inf, CONFIDENCE)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(change) - 1) * stats.sem(change))
    return Estimate(mean, mean - half, mean + half, CONFIDENCE)


def newcombe(first: np.ndarray, second: np.ndarray) -> Estimate:
    """The difference of two paired proportions with the hybrid score interval (Newcombe, 1998, method 10),
    which keeps a width even if few samples or none changed."""
    (share1, low1, high1), (share2, low2, high2) = map(_wilson, (first, second))
    correlation = _phi(first, second)
    below, above = (share2 - low2, high1 - share1), (high2 - share2, share1 - low1)
    down, up = (float(np.sqrt(max(0.0, a**2 - 2 * correlation * a * b + b**2))) for a, b in (below, above))
    value = share2 - share1
    return Estimate(value, value - down, value + up, CONFIDENCE)


def _wilson(scores: np.ndarray) -> tuple[float, float, float]:
    """The share of ones, with its interval."""
    interval = stats.binomtest(int(scores.sum()), len(scores)).proportion_ci(CONFIDENCE, method="wilson")
    return float(scores.mean()), float(interval.low), float(interval.high)


def _phi(first: np.ndarray, second: np.ndarray) -> float:
    """The correlation, with Newcombe's continuity correction if it is positive; 0 if either is constant."""
    both, neither = int((first * second).sum()), int(((1 - first) * (1 - second)).sum())
    only_before, only_after = int((first > second).sum()), int((second > first).sum())
    scale = float(np.sqrt(float(first.sum()) * float(second.sum()) * (1 - first).sum() * (1 - second).sum()))
    if not scale:
        return 0.0
    product = float(both * neither - only_before * only_after)
    if product > 0:
        product = max(0.0, product - len(first) / 2)
    return float(product / scale)
