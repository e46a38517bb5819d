"""Generated samples, and which of the user's samples evaluate a network and which calibrate INT8."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tritonproof.base.errors import InputError
from tritonproof.spec import ANY, Arrays, Samples, Tensor
from tritonproof.user_models.samples import CALIBRATION, read_samples, sized_inputs

VARIABLE_LENGTHS = (16, 224)
"""The lengths to try for variable dimensions: of a short text, and of ImageNet's pictures."""
_MAX_SYNTHETIC, MIN_SYNTHETIC = 64, 4
_MAX_BYTES = 1 << 26
"""The most bytes of all generated samples together, unless MIN_SYNTHETIC take more."""
_MAX_NUMBERS = 1 << 26
"""The most numbers of a sample, as many as in four volumes of 256 x 256 x 256: generating and sending them
takes a gigabyte. A text takes the memory of eight numbers."""


def synthetic_samples(inputs: Sequence[Tensor], indices: Mapping[str, int], length: int) -> Samples:
    """Generated samples for inputs whose shapes lack the batch; variable dimensions become `length` long.
    Floating-point numbers are normally distributed. Integers are below their input's entry in `indices`, the
    number of rows of the table that they index, and within their type's range. Integers of
    a mask are 1; all others are 0 or 1, as are BOOL and, in digits, BYTES."""
    sized = [
        Tensor(tensor.name, tensor.dtype, tuple(length if axis == ANY else axis for axis in tensor.shape))
        for tensor in inputs
    ]
    numbers = sum(math.prod(tensor.shape) * (8 if tensor.dtype == "BYTES" else 1) for tensor in sized)
    if numbers > _MAX_NUMBERS:
        what = f"a sample takes {numbers:,} numbers, and {_MAX_NUMBERS:,} are the most that are made up"
        fix = "give samples, one small enough to be held in memory a few times"
        raise InputError(what, where="inputs that are made up, without samples", fix=fix)
    count = max(MIN_SYNTHETIC, min(_MAX_SYNTHETIC, _MAX_BYTES // max(1, 8 * numbers)))

    def load(chosen: Sequence[int]) -> Arrays:
        rows = [_row(sized, indices, index) for index in chosen]
        return {tensor.name: np.stack([row[tensor.name] for row in rows]) for tensor in sized}

    return Samples([f"made-up-{number:02d}" for number in range(count)], load, are_synthetic=True)


def _row(inputs: Sequence[Tensor], indices: Mapping[str, int], index: int) -> dict[str, np.ndarray]:
    from tritonclient.utils import triton_to_np_dtype

    generator = np.random.default_rng(index)
    row = {}
    values: np.ndarray
    for tensor in inputs:
        if tensor.dtype.startswith(("FP", "BF")):
            values = generator.standard_normal(tensor.shape)
        elif tensor.name in indices:
            end = {"INT8": 128, "UINT8": 256}.get(tensor.dtype, np.inf)
            values = generator.integers(int(min(end, indices[tensor.name])), size=tensor.shape)
        elif "mask" in tensor.name.lower():
            values = np.ones(tensor.shape)
        else:
            values = generator.integers(2, size=tensor.shape)
        type_ = bytes if tensor.dtype == "BYTES" else triton_to_np_dtype(tensor.dtype)
        row[tensor.name] = values.astype(type_).astype(object) if type_ is bytes else values.astype(type_)
    return row


_HELD_BACK = 4
"""One in so many samples calibrates INT8 and is not evaluated, unless there is a calibration folder."""
MIN_TO_SPLIT = 8
"""The fewest samples for which some are held back to calibrate."""


def split_samples(
    folder: Path, inputs: Sequence[Tensor], tokenizer: Path | None, *, calibrates: bool
) -> tuple[Sequence[str], Samples, Samples | None]:
    """The names of all samples, those to evaluate, and those that only calibrate INT8, or None."""
    samples = read_samples(folder, inputs, tokenizer=tokenizer)
    if (folder / CALIBRATION).is_dir():
        calibration = read_samples(folder / CALIBRATION, sized_inputs(inputs, samples), tokenizer=tokenizer)
        return samples.ids, samples, calibration if calibrates else None
    if len(samples) < MIN_TO_SPLIT or not calibrates:
        return samples.ids, samples, None

    def some(chosen: Sequence[int]) -> Samples:
        ids = [samples.ids[index] for index in chosen]
        return Samples(ids, lambda indices: samples.read([chosen[index] for index in indices]))

    held_back = range(_HELD_BACK - 1, len(samples), _HELD_BACK)
    return samples.ids, some([i for i in range(len(samples)) if i not in held_back]), some(held_back)
