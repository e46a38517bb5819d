"""The basis of comparing outputs: are they finite, in which precision, how far apart, and on what scale?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tritonproof.accuracy.precisions import PRECISIONS
from tritonproof.base.errors import AccuracyError
from tritonproof.spec import Arrays, Tensor, fits

CHUNK_BYTES = 64 << 20
"""The most bytes of outputs to compare at once."""
_MIN_NUMBERS = 32
"""The fewest different numbers with a fraction whose last bits tell the precision that computed them."""


def equal_fraction(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The share of equal decisions in each row of two stages, [rows]; 1 without decisions."""
    return np.asarray((a == b).reshape(len(a), -1).mean(axis=1)) if a.size else np.ones(len(a))


def check_shapes(expected: Arrays, actual: Arrays, stage: str, expected_from: str) -> None:
    """Raise AccuracyError if an output of a stage is missing, or differs from the expected one in shape or
    kind of type. `expected_from` tells the error's reader where the expected output is from."""

    def form(values: np.ndarray) -> str:
        kind = {"f": "floating-point numbers", "O": "texts"}.get(values.dtype.kind, "integers")
        return f"is {kind} of shape {values.shape}"

    for name, values in expected.items():
        problem = form(actual[name]) if name in actual else "is missing"
        if problem != form(values):
            what = f"a {stage} output {problem}; {expected_from} it {form(values)}"
            raise AccuracyError(what, where=f"output {name}")


def check_finite(stage: str, outputs: Arrays, ids: Sequence[str]) -> None:
    """Raise AccuracyError, which names the first wrong sample, if a stage's output has NaN or infinity."""
    for name in floating_outputs(outputs):
        bad = ~np.isfinite(outputs[name]).reshape(len(outputs[name]), -1).all(axis=1)
        if bad.any():
            what = f"the {stage} outputs hold NaN or infinity for {int(bad.sum())} of {len(bad)} samples"
            fix = "check the weights, and whether the precision's range holds the activations"
            raise AccuracyError(what, where=f"output {name}, first sample {ids[int(bad.argmax())]}", fix=fix)


def why_undeclared(tensor: Tensor, values: np.ndarray | None) -> str | None:
    """How a tensor, [rows, ...], differs from its declaration, in which -1 is any length; else None."""
    from tritonclient.utils import np_to_triton_dtype, triton_to_np_dtype

    if values is None:
        return f"it lacks {tensor.name}"
    if values.dtype != np.dtype(triton_to_np_dtype(tensor.dtype)):
        return f"{tensor.name} is {np_to_triton_dtype(values.dtype)}, and declared {tensor.dtype}"
    shape = values.shape[1:]
    if values.ndim == 0 or not fits(shape, tensor.shape):
        return f"{tensor.name} is of shape {list(shape)}, and declared {list(tensor.shape)}"
    return None


def floating_outputs(outputs: Arrays) -> list[str]:
    """The names of the outputs that hold floating-point numbers."""
    return [name for name, values in outputs.items() if np.issubdtype(values.dtype, np.floating)]


def inferred_precision(answers: Iterable[Arrays]) -> str:
    """bf16 or fp16 if that type holds every number exactly; empty if neither, or too few have a fraction."""
    values = [
        np.asarray(outputs[name], np.float32).ravel()
        for outputs in answers
        for name in floating_outputs(outputs)
        if outputs[name].dtype.itemsize <= 4
    ]
    numbers = np.concatenate(values) if values else np.zeros(0, np.float32)
    numbers = numbers[np.isfinite(numbers)]
    if np.unique(numbers[numbers != np.round(numbers)]).size < _MIN_NUMBERS:
        return ""
    if not (numbers.view(np.uint32) & np.uint32(0xFFFF)).any():  # the bits of FP32 that BF16 lacks
        return "bf16"
    with np.errstate(over="ignore"):
        return "fp16" if np.array_equal(numbers.astype(np.float16).astype(np.float32), numbers) else ""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How much one floating-point output varies between samples, which tells the samples apart."""

    column_scales: np.ndarray
    """The standard deviation of each column over all samples, [columns], or the largest magnitude of a column
    that is always the same. A column is an index of the last axis; a single number if rows have no axis."""
    max_magnitude: float
    """The largest magnitude of the output, but 1 where all values are from 0 to 1."""
    mean_magnitude: float
    largest_deviation: float
    """The largest standard deviation of a column; 0 if all columns are always the same."""


def spread_of(values: np.ndarray) -> Spread:
    """The spread of an output, [samples, ...]; values that are not finite do not count."""
    width = values.shape[-1] if values.ndim > 1 else 1
    rows = values.reshape(values.size // max(1, width), width)
    step = max(1, CHUNK_BYTES // max(1, 8 * rows.shape[1]))
    count, total, sizes, largest = (np.zeros(rows.shape[1]) for _ in range(4))
    are_shares = True
    chunks = range(0, len(rows), step)
    for start in chunks:
        chunk, is_finite = _finite_or_zero(rows[start : start + step])
        count += is_finite.sum(axis=0)
        total += chunk.sum(axis=0)
        sizes += np.abs(chunk).sum(axis=0)
        largest = np.maximum(largest, np.abs(chunk).max(axis=0, initial=0.0))
        are_shares = are_shares and bool(((chunk >= 0) & (chunk <= 1)).all())
    centre, squares = total / np.maximum(count, 1), np.zeros(rows.shape[1])
    for start in chunks:
        chunk, is_finite = _finite_or_zero(rows[start : start + step])
        squares += np.square(np.where(is_finite, chunk - centre, 0.0)).sum(axis=0)
    deviation = np.sqrt(squares / np.maximum(count, 1))
    is_same = deviation <= PRECISIONS["fp32"].rounding * largest
    scales = np.where(is_same, largest, deviation)
    return Spread(
        column_scales=scales if values.ndim > 1 else scales[0],
        max_magnitude=1.0 if are_shares else float(largest.max(initial=0.0)),
        mean_magnitude=float(sizes.sum() / max(count.sum(), 1)),
        largest_deviation=float(np.where(is_same, 0.0, deviation).max(initial=0.0)),
    )


def _finite_or_zero(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`rows` in FP64, with 0 for elements that are not finite, and a mask of the finite elements."""
    wide = rows.astype(np.float64)
    is_finite = np.isfinite(wide)
    return np.where(is_finite, wide, 0.0), is_finite


def differences(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The absolute difference of each element: 0 if both are equal or NaN, infinite if only one is NaN."""
    with np.errstate(invalid="ignore"):
        errors = np.abs(actual.astype(np.float64) - expected)
        is_same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    return np.where(is_same, 0.0, np.nan_to_num(errors, nan=np.inf, posinf=np.inf))


def beyond_rounding(errors: np.ndarray, spread: Spread, rounding: float) -> np.ndarray:
    """The excess of absolute `errors` over rounding, as shares of their columns' spread."""
    beyond = np.maximum(errors - rounding * spread.max_magnitude, 0.0)
    scales = spread.column_scales
    return np.asarray(np.divide(beyond, scales, out=np.array(beyond), where=scales > 0))
