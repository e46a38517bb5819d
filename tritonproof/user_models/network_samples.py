"""Chooses the samples that evaluate a network and calibrate INT8, the user's or generated ones; and finds the
network's batch axis and the shapes of its outputs, from its declaration and by running it."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from tritonproof.base.errors import InputError
from tritonproof.frameworks import error_line, onnx_networks
from tritonproof.frameworks.onnx_networks import Interface, OnnxNetwork
from tritonproof.spec import ANY, Arrays, Samples, Tensor
from tritonproof.user_models.samples import CALIBRATION, read_samples, sized_inputs
from tritonproof.user_models.value_files import shape_text

VARIABLE_LENGTHS = (16, 224)
"""The lengths to try for variable dimensions: of a short text, and of ImageNet's pictures."""
_MAX_SAMPLES, _MIN_SAMPLES = 64, 4
_MAX_BYTES = 1 << 26
"""The most bytes of all samples together, unless _MIN_SAMPLES take more."""
_MAX_NUMBERS = 1 << 26
"""The most numbers of a sample, as many as in four volumes of 256 x 256 x 256: generating and sending them
takes a gigabyte. A text takes the memory of eight numbers."""


def synthetic_samples(inputs: Sequence[Tensor], indices: Mapping[str, int], length: int) -> Samples:
    """Generated samples for inputs whose shapes lack the batch; variable dimensions become `length` long.
    Floating-point numbers are normally distributed. Integers are below their input's entry in `indices`, the
    number of rows of the table that they index, and within their type's range. Those of a mask are 1; all
    others are 0 or 1, as are BOOL, and as digits BYTES."""
    sized = [
        Tensor(tensor.name, tensor.dtype, tuple(length if axis == ANY else axis for axis in tensor.shape))
        for tensor in inputs
    ]
    numbers = sum(math.prod(tensor.shape) * (8 if tensor.dtype == "BYTES" else 1) for tensor in sized)
    if numbers > _MAX_NUMBERS:
        what = f"a sample takes {numbers:,} numbers, and {_MAX_NUMBERS:,} are the most that are made up"
        fix = "give samples, one small enough to be held in memory a few times"
        raise InputError(what, where="inputs that are made up, without samples", fix=fix)
    count = max(_MIN_SAMPLES, min(_MAX_SAMPLES, _MAX_BYTES // max(1, 8 * numbers)))

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
"""One sample of this many calibrates INT8 and is not evaluated, unless there is a calibration folder."""
MIN_SAMPLES = 8
"""The fewest samples for which some are held back to calibrate."""


def split_samples(
    folder: Path, inputs: Sequence[Tensor], tokenizer: Path | None, *, calibrates: bool
) -> tuple[Sequence[str], Samples, Samples | None]:
    """The names of all samples, those to evaluate, and those that only calibrate INT8, or None."""
    samples = read_samples(folder, inputs, tokenizer=tokenizer)
    if (folder / CALIBRATION).is_dir():
        calibration = read_samples(folder / CALIBRATION, sized_inputs(inputs, samples), tokenizer=tokenizer)
        return samples.ids, samples, calibration
    if len(samples) < MIN_SAMPLES or not calibrates:
        return samples.ids, samples, None

    def some(chosen: Sequence[int]) -> Samples:
        ids = [samples.ids[index] for index in chosen]
        return Samples(ids, lambda indices: samples.read([chosen[index] for index in indices]))

    held_back = range(_HELD_BACK - 1, len(samples), _HELD_BACK)
    return samples.ids, some([i for i in range(len(samples)) if i not in held_back]), some(held_back)


def synthetic_samples_for(network: OnnxNetwork, inputs: Sequence[Tensor], interface: Interface) -> Samples:
    """Generated samples with the first variable length that the network computes. Raises InputError."""
    is_open = any(ANY in tensor.shape for tensor in inputs)
    problems = []
    for length in VARIABLE_LENGTHS if is_open else VARIABLE_LENGTHS[:1]:
        samples = synthetic_samples(inputs, interface.indices, length)
        try:
            for index in range(_MIN_SAMPLES):  # the few values of the first may fit by chance
                _run(network, samples.read([index]), "inputs that were made up for it")
            return samples
        except InputError as error:
            problems.append(error)
    raise problems[0]


BatchAxis = Literal["open", "one row", "none"]
"""The first axis of a network's inputs: a batch of any length, a batch of one row, or no batch."""


class BatchError(InputError):
    """The first axis of an output is not the batch axis of the inputs."""


def row_tensor(name: str, dtype: str, shape: tuple[int, ...], batch: BatchAxis) -> Tensor:
    """A row of a network's tensor as clients of Triton see it, with at least one axis. A network without
    batches gets that axis when it is converted, as Triton reshapes to no axis only behind a batch."""
    return Tensor(name, dtype, shape or (1,), is_scalar=not shape and batch != "none")


def sample_outputs(network: OnnxNetwork, samples: Samples, batch: BatchAxis) -> dict[str, np.ndarray]:
    """The outputs of up to 16 evenly spaced samples, [samples, ...] each, or [samples] for single numbers.
    Raises InputError if an output's first axis is not the batch, or its shape depends on the data."""
    rows: list[dict[str, np.ndarray]] = []
    for index in np.linspace(0, len(samples) - 1, min(len(samples), 16)).astype(int).tolist():
        rows.append(_run(network, samples.read([index]), "a sample"))
        _check_rows(network, rows[0], rows[-1], 1)
    if batch == "open":
        pair = _run(network, samples.read([0, len(samples) - 1]), "a batch of two samples")
        _check_rows(network, rows[0], pair, 2)
    return {name: np.concatenate([outputs[name] for outputs in rows]) for name in rows[0]}


def computes_zeros(network: OnnxNetwork, samples: Samples) -> bool:
    """Whether the network accepts zeros and empty texts, which Triton's warm-up sends: an encoder of
    categories may not, as scikit-learn's by default refuses unknown categories."""
    first = samples.read([0]).items()
    zeros = {name: np.full_like(row, b"" if row.dtype == object else 0) for name, row in first}
    try:
        _run(network, zeros, "zeros")
    except InputError:
        return False
    return True


def _check_rows(network: OnnxNetwork, first: Arrays, outputs: Arrays, count: int) -> None:
    """Raise InputError unless outputs have `count` rows, in the shape of those of the sample `first`."""
    for name, values in outputs.items():
        if values.ndim == 0 or len(values) != count:
            what = f"the first axis of the output {name}, {shape_text(values.shape)}, is no batch of {count}"
            fix = "export the network without that output, or with a batch axis of all inputs and outputs"
            raise BatchError(what, where=network.path, fix=fix)
        if values.shape[1:] != first[name].shape[1:]:
            shapes = first[name].shape[1:], values.shape[1:]
            raise onnx_networks.shape_depends_on_data(network.path, name, *shapes)


def _run(network: OnnxNetwork, inputs: Arrays, what: str) -> dict[str, np.ndarray]:
    """The network's outputs for `inputs`, which `what` names in the InputError if the network fails."""
    try:
        return onnx_networks.run_as_exported(network, inputs)
    except InputError:
        raise
    except Exception as error:  # ONNX Runtime has a type of its own for each status
        shapes = ", ".join(f"{name} {shape_text(values.shape)}" for name, values in inputs.items())
        problem = f"the network does not compute {what} ({shapes}): {error_line(str(error))[:300]}"
        fix = "give samples that it computes: --samples DIR; if two at a time fail, export a dynamic batch"
        raise InputError(problem, where=network.path, fix=fix) from error
