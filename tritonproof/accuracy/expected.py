"""The expected answers, in groups of one signature: which of their integers are classes, and which actual
answers are nearer to another sample's expected answer than to their own sample's."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tritonproof.accuracy.outputs import CHUNK_BYTES, Spread, floating_outputs, spread_of
from tritonproof.client.requests import Answer
from tritonproof.spec import Arrays

_CLASS_SHARE = 0.9
"""Integers count as classes if this share of them are the indices of the largest scores."""
_MAX_COMPARED = 4096
"""The most elements of a row, evenly spread over it, that are compared to find its nearest sample."""
_CLIP = 10.0
"""The most that one compared element counts for, in multiples of the spread."""
_MIN_COLUMNS = 4
"""Shorter rows are not compared with other samples' rows: noise alone may bring a row near one of these."""


@dataclass(frozen=True)
class ExpectedGroup:
    """The expected answers to some samples, all of one signature."""

    ids: Sequence[str]
    outputs: Arrays
    """The outputs, [samples, ...] each."""
    spreads: Mapping[str, Spread]
    """The spread of each floating-point output, by name."""
    samples: Sequence[int]
    """The indices of the samples, by which actual answers name them."""

    def rows_in(self, answers: Sequence[Answer]) -> list[Answer]:
        """The rows of `answers` to this group's samples; their sample indices are positions in this group."""
        index_of = {sample: index for index, sample in enumerate(self.samples)}
        matching = []
        for answer in answers:
            rows = np.array([index_of.get(int(sample), -1) for sample in answer.sample_indices], int)
            if (is_wanted := rows >= 0).any():
                wanted = slice(None) if is_wanted.all() else is_wanted  # a slice of all makes no copy
                outputs = {name: values[wanted] for name, values in answer.outputs.items()}
                matching.append(Answer(rows[wanted], outputs))
        return matching

    @functools.cached_property
    def standardized(self) -> np.ndarray:
        """The floating-point outputs as multiples of their spread, [samples, elements]."""
        return _standardize(self, self.outputs)

    @property
    def discrete_outputs(self) -> list[str]:
        """The outputs that are integers, truth values or texts, long ones first: one duration that is rounded
        up also changes a short output, the sum of all durations."""
        names = self.outputs.keys() - self.spreads.keys()
        return sorted(names, key=lambda name: (-self.outputs[name][:1].size, name))

    @functools.cached_property
    def score_output_of(self) -> Mapping[str, tuple[str, int]]:
        """By the name of each output of classes: the name of the output with the scores of the classes, and
        the axis of that output along which a class is the index of the largest score."""
        return {
            name: (score_name, axis)
            for name in self.discrete_outputs
            for score_name in self.spreads
            if (axis := _axis_of_largest(self.outputs[name], self.outputs[score_name])) is not None
        }

    def tells_apart(self, rounding: float) -> bool:
        """Whether answers to different samples differ by more than `rounding`, as a share of an output's
        largest magnitude: otherwise no comparison notices an answer to another sample."""
        parts = self.spreads.values()
        is_apart = any(part.largest_deviation > rounding * part.max_magnitude for part in parts)
        return is_apart or self._has_various_integers

    @functools.cached_property
    def _has_various_integers(self) -> bool:
        discrete = (self.outputs[name] for name in self.discrete_outputs)
        return any(bool((values != values[:1]).any()) for values in discrete)


def scores_of(classes: np.ndarray, scores: np.ndarray, axis: int) -> np.ndarray:
    """The score of each of `classes`, which are indices along the `axis` of `scores`; NaN for an index
    without a score. The result has as many axes as `scores`."""
    indices = classes.astype(np.int64).reshape(*scores.shape[:axis], -1, *scores.shape[axis + 1 :])
    known = indices.clip(0, scores.shape[axis] - 1)
    return np.where(indices == known, np.take_along_axis(scores, known, axis), np.nan)


def _axis_of_largest(classes: np.ndarray, scores: np.ndarray) -> int | None:
    """The axis of `scores` along which `classes`, [rows, ...] both, are the indices of the largest scores: a
    row's best class, its best few in order, or the best at each place, as in a mask. None if no axis is."""
    if classes.dtype.kind not in "iu" or not classes.size:
        return None
    fitting = max(1, CHUNK_BYTES // max(1, scores[:1].nbytes))  # the outputs may be larger than memory
    rows = np.linspace(0, len(scores) - 1, min(len(scores), fitting), dtype=int)
    for axis in range(1, scores.ndim):
        before, count, after = scores.shape[:axis], scores.shape[axis], scores.shape[axis + 1 :]
        is_of_rows = scores.ndim == 2 and classes[:1].size <= count
        if count > 1 and (is_of_rows or classes.shape in (before + after, (*before, 1, *after))):
            compared = scores[rows]
            chosen, largest = scores_of(classes[rows], compared, axis), compared.max(axis=axis, keepdims=True)
            differ = (largest > compared.min(axis=axis, keepdims=True)) | np.isnan(chosen)
            if chosen.shape != largest.shape:
                largest = np.sort(compared, axis=1)[:, ::-1][:, : chosen.shape[1]]
            # Scores, not indices, are compared: equal scores have no order, and where all are equal, any
            # index is one of the largest.
            if differ.any() and (chosen == largest)[differ].mean() >= _CLASS_SHARE:
                return axis
    return None


def expect(ids: Sequence[str], outputs: Arrays, samples: Sequence[int] | None = None) -> ExpectedGroup:
    """The expected answers `outputs`, [samples, ...] each, to the samples of these indices, else to all."""
    spreads = {name: spread_of(outputs[name]) for name in floating_outputs(outputs)}
    return ExpectedGroup(ids, outputs, spreads, range(len(ids)) if samples is None else samples)


def signature(row: Arrays) -> object:
    """The name, shape and kind of type of each output of an answer, without the batch axis."""
    return tuple((name, np.shape(array), np.asarray(array).dtype.kind) for name, array in sorted(row.items()))


def expect_by_signature(rows: Mapping[int, Arrays], ids: Sequence[str]) -> dict[object, ExpectedGroup]:
    """By signature, the expected answers `rows`: outputs without a batch axis, by sample index in `ids`."""
    by_signature: dict[object, list[int]] = {}
    for sample, row in rows.items():
        by_signature.setdefault(signature(row), []).append(sample)
    expected = {}
    for group_signature, samples in by_signature.items():
        outputs = {name: np.stack([rows[sample][name] for sample in samples]) for name in rows[samples[0]]}
        expected[group_signature] = expect([ids[sample] for sample in samples], outputs, samples)
    return expected


def nearer_to_another(expected: ExpectedGroup, answer: Answer, rows: np.ndarray) -> np.ndarray:
    """The `rows` of an answer that are less than half as far from another sample's expected answer as from
    their own sample's, [found, 3]: the row's index in the answer, and the indices of its sample and of the
    other in the group. The answer has every output. A precision's cost makes no answer another sample's."""
    own, all_expected = answer.sample_indices[rows], expected.standardized
    if not rows.size or all_expected.shape[1] < _MIN_COLUMNS:
        return np.zeros((0, 3), int)
    standardized = _standardize(expected, {name: answer.outputs[name][rows] for name in expected.spreads})
    # The squares of the distances, without the row's own square, which is the same for all samples.
    nearest = (np.square(all_expected).sum(axis=1) - 2 * standardized @ all_expected.T).argmin(axis=1)
    to_own, to_nearest = (np.linalg.norm(standardized - all_expected[i], axis=1) for i in (own, nearest))
    return np.stack([rows, own, nearest], axis=1)[(nearest != own) & (2 * to_nearest < to_own)]


def _standardize(expected: ExpectedGroup, outputs: Arrays) -> np.ndarray:
    """How far floating-point outputs are from the first sample's, in multiples of the spread, [rows,
    elements]; clipped, so that an element that is far off, or NaN, does not outweigh all others."""
    parts = []
    for name, spread in expected.spreads.items():
        first, actual = expected.outputs[name][0].reshape(-1), outputs[name].reshape(len(outputs[name]), -1)
        indices = np.linspace(0, first.size - 1, min(first.size, _MAX_COMPARED)).astype(int)
        scale = np.broadcast_to(spread.column_scales, expected.outputs[name].shape[1:]).reshape(-1)[indices]
        with np.errstate(invalid="ignore"):
            apart = actual[:, indices].astype(np.float64) - first[indices]
        parts.append(np.divide(apart, scale, out=apart, where=scale > 0))
    return np.clip(np.nan_to_num(np.concatenate(parts, axis=1), nan=_CLIP), -_CLIP, _CLIP)
